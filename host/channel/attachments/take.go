package attachments

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"
	"unicode"

	"github.com/flynnhost/flynn/host/message"
	channelkind "github.com/flynnhost/flynn/host/plugin/kind/channel"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/quota"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/media"
)

// Dir is the folder of a workspace for attachments.
const Dir = "attachments"

// Bounds of attachments.
const (
	fetchTimeout = time.Minute // for the attachments of one message together
	maxFetch     = 64 << 20    // bytes of one file, the largest write into a workspace
	maxSameName  = 100         // files of one name in a workspace
)

// Take puts the attachments of a message into the workspace of a session. The result lists all of them, with the reason for each that was
// not taken. It delays a turn by no more than fetchTimeout.
func (f *Files) Take(ctx context.Context, session message.WorkspaceKey, m message.Message) []message.File {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	var out []message.File
	for i, a := range m.Attachments {
		file := message.File{Name: a.Name, Type: a.Type, Size: a.Size}
		if most := f.cfg.Media.MaxFiles; i >= most {
			file.Why = fmt.Sprintf("a message may have %d files", most)
		} else if err := f.takeOne(ctx, session, m, a, &file); err != nil {
			f.cfg.Log.Warn("attachment was not taken", "channel", m.Channel, "event", m.EventID, "error", err)
			file.Path, file.Why = "", reason(err)
		}
		out = append(out, file)
	}
	return out
}

// refusal is an error with a text for people.
type refusal string

func (r refusal) Error() string { return string(r) }

// reason returns why a file was not taken, in words for people and without internals of the host.
func reason(err error) string {
	var plain refusal
	var full quota.Refusal
	switch {
	case errors.As(err, &plain):
		return string(plain)
	case errors.As(err, &full):
		return string(full)
	case errors.Is(err, media.ErrTooLarge):
		return "it is too large"
	case errors.Is(err, media.ErrFull):
		return "the host has no room for it"
	case errors.Is(err, context.DeadlineExceeded):
		return "fetching it took too long"
	}
	return "it could not be fetched from the channel"
}

func (f *Files) takeOne(ctx context.Context, session message.WorkspaceKey, m message.Message, a message.Attachment, file *message.File) error {
	info, err := f.fetch(ctx, m, a)
	if err != nil {
		return err
	}
	file.Name, file.Type, file.Size, file.Digest = cmp.Or(info.Name, file.Name), info.Type(), info.Size, info.Digest
	if err := f.accepts(info); err != nil {
		return err
	}
	file.Path, err = f.write(ctx, session, info)
	return err
}

// fetch brings an attachment into the media store, where it counts for its sender.
func (f *Files) fetch(ctx context.Context, m message.Message, a message.Attachment) (media.Info, error) {
	most := min(int64(f.cfg.Media.MaxObject), maxFetch)
	if a.Size > most {
		return media.Info{}, media.ErrTooLarge
	}
	var got channelkind.Media
	var err error
	if from, ok := f.source(m.Channel); ok {
		got, err = from.Fetch(ctx, a.Handle, most)
	} else {
		got, err = f.ask(ctx, store.WantedFile{Channel: m.Channel, Handle: a.Handle, Sender: m.SenderKey(), Most: most})
	}
	if err != nil {
		return media.Info{}, err
	}
	defer got.Body.Close()
	return f.media.Put(ctx, media.Head{
		Size: got.Size, Type: cmp.Or(got.Type, a.Type), Name: cmp.Or(a.Name, got.Name), Owner: m.SenderKey(),
	}, got.Body)
}

// write puts a file into the workspace of a session and returns its path there. It never overwrites a file; one with the same content is
// used as it is.
func (f *Files) write(ctx context.Context, session message.WorkspaceKey, info media.Info) (string, error) {
	body, _, err := f.media.Open(ctx, info.Digest)
	if err != nil {
		return "", err
	}
	defer body.Close()
	data, err := io.ReadAll(body)
	if err != nil {
		return "", err
	}
	m, leave, err := f.cfg.Workspaces.Visit(session)
	if err != nil {
		return "", err
	}
	defer leave()
	list, err := m.List(ctx, Dir)
	if err != nil && !errors.Is(err, machine.ErrNotFound) {
		return "", err
	}
	there := make(map[string]machine.FileInfo, len(list))
	for _, old := range list {
		there[old.Name] = old
	}
	base := fileName(info.Name)
	budget := info.Size // bytes to read for comparisons
	for n := 1; n <= maxSameName; n++ {
		file := numbered(base, n)
		name := path.Join(Dir, file)
		old, taken := there[file]
		switch {
		case !taken:
			return name, m.WriteFile(ctx, name, data, 0o644)
		case old.Mode.IsRegular() && old.Size == info.Size:
			same, err := sameBytes(ctx, m, name, data, &budget)
			if same || err != nil {
				return name, err
			}
		}
	}
	return "", refusal("the workspace has too many files of this name")
}

// compareFirst is how much of two files of the same size is compared first: they mostly differ there.
const compareFirst = 4 << 10

// sameBytes reports whether a file of the same size has the same content. Reads beyond the beginning use up the budget; without budget no
// file is the same.
func sameBytes(ctx context.Context, m machine.Machine, name string, data []byte, budget *int64) (bool, error) {
	for at := 0; at < len(data); {
		n := len(data) - at
		if at == 0 {
			n = min(n, compareFirst)
		} else if *budget -= int64(n); *budget < 0 {
			return false, nil
		}
		there, _, err := m.ReadFile(ctx, name, int64(at), int64(n))
		if err != nil || !bytes.Equal(there, data[at:at+n]) {
			return false, err
		}
		at += n
	}
	return true, nil
}

// numbered returns the n-th name for a file: "a.txt", "a-2.txt".
func numbered(base string, n int) string {
	if n == 1 {
		return base
	}
	ext := path.Ext(base)
	return fmt.Sprintf("%s-%d%s", strings.TrimSuffix(base, ext), n, ext)
}

// maxFileName bounds a file's name, in bytes.
const maxFileName = 100

// fileName makes a name safe for a file and a command line: letters, digits and a few signs, neither hidden nor like an option.
func fileName(name string) string {
	var b strings.Builder
	for _, c := range name {
		if !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune("._-+@", c) {
			c = '_'
		}
		if b.Len()+len(string(c)) > maxFileName {
			break
		}
		b.WriteRune(c)
	}
	return cmp.Or(strings.Trim(strings.TrimLeft(b.String(), ".-_"), "."), "file")
}
