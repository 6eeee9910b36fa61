package attachments

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/message"
	channelkind "github.com/flynnhost/flynn/host/plugin/kind/channel"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/quota"
	"github.com/flynnhost/flynn/host/tool/builtin"
)

// shop is a channel with attachments by handle.
type shop map[string]string

func (s shop) Fetch(_ context.Context, handle string, limit int64) (channelkind.Media, error) {
	text, ok := s[handle]
	if !ok {
		return channelkind.Media{}, errors.New("the platform says 404")
	}
	if int64(len(text)) > limit {
		return channelkind.Media{}, fmt.Errorf("it has %d bytes, at most %d", len(text), limit)
	}
	return channelkind.Media{Size: int64(len(text)), Body: io.NopCloser(strings.NewReader(text))}, nil
}

const (
	pngBytes = "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00"
	elfBytes = "\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x3e\x00"
	exeBytes = "MZ\x90\x00\x03\x00\x00\x00\x04\x00\x00\x00\xff\xff\x00\x00"
)

// room is the workspace of every session; it allows a sender so many bytes.
type room struct {
	machine.Machine
	most int64
}

func (r *room) Visit(message.WorkspaceKey) (machine.Machine, func(), error) {
	return r.Machine, func() {}, nil
}

func (r *room) MediaRoom(sender message.SenderKey) (int64, error) {
	return r.most, quota.Refusal("the files of your conversations take all of it")
}

// idle is a store in which nothing waits.
type idle struct{}

func (idle) PendingInbox(context.Context) ([]mailbox.InboxRow, error)  { return nil, nil }
func (idle) UnsentOutbox(context.Context) ([]mailbox.OutboxRow, error) { return nil, nil }

// newFiles returns Files with the channel tg, and the workspace of its sessions.
func newFiles(t *testing.T, s shop, c config.Media) (*Files, *room, string) {
	t.Helper()
	dir := t.TempDir()
	m, err := machine.NewHost(machine.HostConfig{Workspace: dir, Homes: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	r := &room{Machine: m}
	f, err := Open(Config{
		Dir: filepath.Join(t.TempDir(), "media"), Media: c, Store: idle{}, Workspaces: r, Log: slog.New(slog.DiscardHandler),
		InTurns: func(context.Context) (map[string]bool, error) { return map[string]bool{}, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Attach("tg", &s))
	return f, r, dir
}

func TestAttachmentsAreTaken(t *testing.T) {
	f, _, dir := newFiles(t, shop{
		"text": "hello", "other": "hullo", "png": pngBytes, "elf": elfBytes, "exe": exeBytes, "long": strings.Repeat("x", 2000), "bytes": "\x00\x01\x02\xff\xfe",
	}, config.Media{MaxObject: 1 << 10, MaxTotal: 1 << 20, MaxFiles: 3})
	take := func(list ...message.Attachment) []message.File {
		return f.Take(t.Context(), "s", message.Message{Channel: "tg", Attachments: list})
	}
	for _, c := range []struct {
		name       string
		attachment message.Attachment
		path, kind string
		why        string
	}{
		{"text", message.Attachment{Handle: "text", Name: "notes.txt"}, "attachments/notes.txt", "text/plain", ""},
		{"the same again is the same file", message.Attachment{Handle: "text", Name: "notes.txt"}, "attachments/notes.txt", "text/plain", ""},
		{"another of that name does not take its place", message.Attachment{Handle: "other", Name: "notes.txt"}, "attachments/notes-2.txt", "text/plain", ""},
		{"the type is that of the bytes", message.Attachment{Handle: "png", Name: "a.txt", Type: "text/plain"}, "attachments/a.txt", "image/png", ""},
		{"no name", message.Attachment{Handle: "png"}, "attachments/file", "image/png", ""},
		{"a name that leads out", message.Attachment{Handle: "text", Name: "../../etc/passwd"}, "attachments/passwd", "text/plain", ""},
		{"a hidden name that looks like an option", message.Attachment{Handle: "text", Name: ".-rf"}, "attachments/rf", "text/plain", ""},
		{"a name for a shell", message.Attachment{Handle: "text", Name: "a;rm -rf $HOME`x`.txt"}, "attachments/a_rm_-rf__HOME_x_.txt", "text/plain", ""},
		{"a program", message.Attachment{Handle: "elf", Name: "photo.png", Type: "image/png"}, "", "", "it is a program"},
		{"a program of another world", message.Attachment{Handle: "exe", Name: "photo.png", Type: "image/png"}, "", "", "it is a program"},
		{"a type that nobody accepts", message.Attachment{Handle: "bytes", Name: "x"}, "", "", "does not have its type"},
		{"too large, and it says so", message.Attachment{Handle: "long", Size: 2000}, "", "", "too large"},
		{"too large, and it does not say so", message.Attachment{Handle: "long"}, "", "", "could not be fetched"},
		{"not there", message.Attachment{Handle: "none"}, "", "", "could not be fetched"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := take(c.attachment)[0]
			if f.Path != c.path || (c.why == "") != (f.Why == "") || !strings.Contains(f.Why, c.why) {
				t.Fatalf("got %+v", f)
			}
			if c.path == "" {
				return
			}
			if message.MediaType(f.Type) != c.kind || f.Digest == "" {
				t.Errorf("got %+v, want type %s", f, c.kind)
			}
			if _, err := os.Stat(filepath.Join(dir, f.Path)); err != nil {
				t.Error(err)
			}
		})
	}
	if text, _ := os.ReadFile(filepath.Join(dir, "attachments/notes.txt")); string(text) != "hello" {
		t.Errorf("the first file holds %q", text)
	}
	if fs := take(make([]message.Attachment, 5)...); len(fs) != 5 || !strings.Contains(fs[3].Why, "3 files") {
		t.Errorf("five files: %+v", fs)
	}
	f.cfg.Media.Accept = []string{"*/*"}
	if f := take(message.Attachment{Handle: "elf", Name: "x"})[0]; f.Path != "" {
		t.Errorf("a program was taken: %+v", f)
	}
	if f := f.Take(t.Context(), "s", message.Message{Channel: "gone", Attachments: []message.Attachment{{Handle: "text"}}})[0]; f.Why != "the channel is not connected now" {
		t.Errorf("got %+v", f)
	}
}

func FuzzFileName(f *testing.F) {
	for _, s := range []string{"a.txt", "../x", "", ".", "..", "-rf", "a\x00b", "\xff", strings.Repeat("é", 200), "CON", "a/b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		got := fileName(name)
		if got == "" || len(got) > maxFileName || got[0] == '.' || got[0] == '-' || strings.ContainsAny(got, "/\\ \x00\n;$`'\"") || !utf8.ValidString(got) {
			t.Errorf("%q became %q", name, got)
		}
	})
}

// reads is a machine that counts what is read from it.
type reads struct {
	machine.Machine
	bytes int
}

func (r *reads) ReadFile(ctx context.Context, path string, offset, most int64) ([]byte, int64, error) {
	data, size, err := r.Machine.ReadFile(ctx, path, offset, most)
	r.bytes += len(data)
	return data, size, err
}

// Files of one name cost no more than their own size, however many there are and however alike.
func TestSameNamedAttachmentsAreCheap(t *testing.T) {
	const size, files = 100_000, 40
	s := shop{}
	for i := range files {
		s[fmt.Sprint("long", i)] = strings.Repeat("x", size+i)
		s[fmt.Sprint("alike", i)] = strings.Repeat("y", size-2) + fmt.Sprintf("%02d", i)
	}
	f, r, _ := newFiles(t, s, config.Media{MaxObject: 1 << 20, MaxTotal: 1 << 30, MaxFiles: 3})
	counted := &reads{Machine: r.Machine}
	r.Machine = counted
	for _, kind := range []string{"long", "alike"} {
		for i := range files {
			counted.bytes = 0
			got := f.Take(t.Context(), "s", message.Message{Channel: "tg", Attachments: []message.Attachment{{Handle: fmt.Sprint(kind, i), Name: kind + ".txt"}}})
			if len(got) != 1 || got[0].Path == "" {
				t.Fatalf("%s %d: %+v", kind, i, got)
			}
			if most := size + files*compareFirst; counted.bytes > most {
				t.Errorf("%s %d: %d bytes were read", kind, i, counted.bytes)
			}
		}
	}
}

// The same bytes under ever new names, which the media store keeps once, fill no more of the disk than a session may have.
func TestAttachmentsAreBounded(t *testing.T) {
	const size, most = 1 << 20, 5 << 20
	f, r, _ := newFiles(t, shop{"a": strings.Repeat("x", size)}, config.Media{MaxObject: 2 << 20, MaxTotal: 1 << 30, MaxFiles: 3})
	dir := t.TempDir()
	keeper := quota.New(quota.Config{
		Measure: func(message.WorkspaceKey) int64 { return quota.Tree(dir) }, Running: func() map[message.WorkspaceKey]int { return nil }, Place: message.WorkspaceKey.Scope,
	})
	keeper.Configure(quota.Limits{SessionDisk: most})
	m, err := machine.NewHost(machine.HostConfig{Workspace: dir, Homes: t.TempDir(), Quota: keeper.Session("s")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	r.Machine = m
	taken, why := 0, ""
	for i := range 20 {
		got := f.Take(t.Context(), "s", message.Message{Channel: "tg", Attachments: []message.Attachment{{Handle: "a", Name: fmt.Sprint(i, ".txt")}}})[0]
		if got.Path != "" {
			taken++
		}
		why = got.Why
	}
	if held := quota.Tree(dir); held > most || taken < 3 {
		t.Errorf("%d files were taken, %d bytes of %d", taken, held, most)
	}
	if !strings.Contains(why, "the files of this conversation take") {
		t.Errorf("the last one was refused for %q", why)
	}
}

// TestASenderFillsHisShareOfTheMediaStore: a sender who sends all that he can leaves room for the files of others.
func TestASenderFillsHisShareOfTheMediaStore(t *testing.T) {
	s := shop{}
	for i := range 20 {
		s[fmt.Sprint(i)] = fmt.Sprint(i, strings.Repeat(" x", 400_000))
	}
	f, r, _ := newFiles(t, s, config.Media{MaxObject: 1 << 20, MaxTotal: 8 << 20, MaxFiles: 3})
	r.most = 64 << 20
	send := func(sender, conversation, handle string) message.File {
		m := message.Message{
			Channel: "tg", Sender: message.Sender{ID: sender}, Conversation: message.Conversation{ID: conversation, Kind: message.DM},
			Attachments: []message.Attachment{{Handle: handle, Name: handle + ".txt"}},
		}
		return f.Take(t.Context(), message.WorkspaceKey("tg:"+conversation+":a"), m)[0]
	}
	taken, why := 0, ""
	for i := range 19 {
		if got := send("eve", fmt.Sprint("c", i%5), fmt.Sprint(i)); got.Path != "" {
			taken++
		} else {
			why = got.Why
		}
	}
	if taken != 2 || !strings.Contains(why, "keeps 2.0 MiB of files for one sender") {
		t.Errorf("%d were taken, another was refused for %q", taken, why)
	}
	if got := send("bob", "b", "19"); got.Path == "" {
		t.Errorf("another one's file is refused: %s", got.Why)
	}
	if _, err := f.Keep(t.Context(), "tg:eve", "answer", strings.NewReader(s["18"])); !errors.Is(err, builtin.ErrNotKept) || !strings.Contains(err.Error(), "for one sender") {
		t.Errorf("a file for her: %v", err)
	}
	if a, err := f.Keep(t.Context(), "web:owner", "answer", strings.NewReader(s["18"])); err != nil || a.Digest == "" {
		t.Errorf("a file for the owner: %v", err)
	}
}
