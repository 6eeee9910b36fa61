package host

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/flynnhost/flynn/host/agent"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/plugin"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/quota"
	"github.com/flynnhost/flynn/host/store/media"
)

// fetcher is a channel from which attachments can be got; *plugin.Client is one.
type fetcher interface {
	Fetch(ctx context.Context, handle string, limit int64) (plugin.Media, error)
}

// fetchers are the channels that are there.
type fetchers struct {
	mu   sync.Mutex
	byID map[string]fetcher
}

func newFetchers() *fetchers { return &fetchers{byID: map[string]fetcher{}} }

// attach makes f the way to a channel until the returned function is called.
func (c *fetchers) attach(channel string, f fetcher) (detach func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.byID[channel] = f
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.byID[channel] == f {
			delete(c.byID, channel)
		}
	}
}

func (c *fetchers) of(channel string) (fetcher, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f, ok := c.byID[channel]
	return f, ok
}

// intake puts attachments into workspaces: from the channel into the media store, whose digest and type go by the bytes, and from
// there into a file of the session.
type intake struct {
	fetchers *fetchers
	store    *media.Store
	visit    func(session string) (m machine.Machine, leave func(), err error)
	maxSize  int64
	maxFiles int
	accept   []string
	log      func(msg string, args ...any)
}

// Bounds of an intake.
const (
	fetchTimeout  = time.Minute // of one message's attachments together
	maxFetch      = 64 << 20    // bytes of one; a workspace takes no larger file at once
	attachmentDir = "attachments"
	maxSameName   = 100 // files of one name in a workspace
)

// usual are the types that people send each other.
var usual = []string{
	"image/*", "text/*", "audio/*", "video/*", "application/pdf", "application/json", "application/geo+json", "application/x-ndjson",
	"application/xml", "application/rtf", "application/msword", "application/vnd.ms-*", "application/x-ole-storage",
	"application/vnd.openxmlformats-officedocument.*", "application/vnd.oasis.opendocument.*", "application/epub+zip", "application/zip",
	"application/gzip", "application/x-tar", "application/x-7z-compressed", "application/x-bzip2", "application/x-xz", "application/zstd",
	"application/x-rar-compressed", "application/vnd.sqlite3", "message/rfc822",
}

// programs are types that a machine may run; they are refused whatever a configuration accepts.
var programs = []string{
	"application/x-elf", "application/x-executable", "application/x-object", "application/x-sharedlib", "application/x-coredump",
	"application/vnd.microsoft.portable-executable", "application/x-msdownload", "application/x-mach-binary", "application/x-java-applet*",
	"application/java-archive", "application/jar", "application/vnd.android.package-archive", "application/x-ms-installer",
	"application/x-ms-shortcut", "application/vnd.debian.binary-package", "application/x-rpm", "application/wasm",
}

// take gets the attachments of a message. A file that cannot be had is said so in its place, and holds up nothing for long.
func (in *intake) take(ctx context.Context, session string, m message.Message) []agent.File {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	var out []agent.File
	for i, a := range m.Attachments {
		f := agent.File{Name: a.Name, Type: a.Type, Size: a.Size}
		if i >= in.maxFiles {
			f.Why = fmt.Sprintf("a message may have %d files", in.maxFiles)
		} else if err := in.takeOne(ctx, session, m, a, &f); err != nil {
			in.log("attachment was not taken", "channel", m.Channel, "event", m.EventID, "error", err)
			f.Path, f.Why = "", reason(err)
		}
		out = append(out, f)
	}
	return out
}

// refusal is an error whose words are for people.
type refusal string

func (r refusal) Error() string { return string(r) }

// reason tells people why they do not have a file, without the host's insides.
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
		return "getting it took too long"
	}
	return "it could not be got from the channel"
}

func (in *intake) takeOne(ctx context.Context, session string, m message.Message, a message.Attachment, f *agent.File) error {
	info, err := in.fetch(ctx, m, a)
	if err != nil {
		return err
	}
	f.Name, f.Type, f.Size, f.Digest = cmp.Or(info.Name, f.Name), info.Type(), info.Size, info.Digest
	if err := in.judge(info); err != nil {
		return err
	}
	f.Path, err = in.place(ctx, session, info)
	return err
}

// fetch brings an attachment into the media store, where it counts for its sender.
func (in *intake) fetch(ctx context.Context, m message.Message, a message.Attachment) (media.Info, error) {
	from, ok := in.fetchers.of(m.Channel)
	switch {
	case !ok:
		return media.Info{}, refusal("the channel is not there now")
	case a.Size > in.maxSize:
		return media.Info{}, media.ErrTooLarge
	}
	got, err := from.Fetch(ctx, a.Handle, in.maxSize)
	if err != nil {
		return media.Info{}, err
	}
	defer got.Body.Close()
	return in.store.Put(ctx, media.Head{
		Size: got.Size, Type: cmp.Or(got.Type, a.Type), Name: cmp.Or(a.Name, got.Name), Owner: m.SenderKey(),
	}, got.Body)
}

// judge goes by the type that the bytes have: a name or a claim changes nothing about what a file is.
func (in *intake) judge(info media.Info) error {
	detected := message.MediaType(info.Detected)
	switch {
	case matches(programs, detected):
		return refusal("it is a program (" + detected + ")")
	case matches(in.accept, detected) || matches(in.accept, message.MediaType(info.Type())):
		return nil
	}
	return refusal(fmt.Sprintf("[media] accept does not have its type (%s)", cmp.Or(detected, "unknown")))
}

func matches(globs []string, kind string) bool {
	return slices.ContainsFunc(globs, func(g string) bool {
		ok, err := path.Match(g, kind)
		return err == nil && ok
	})
}

// place writes media into the workspace. A file that is there is never overwritten; one of the same bytes is the file itself.
func (in *intake) place(ctx context.Context, session string, info media.Info) (string, error) {
	body, _, err := in.store.Open(ctx, info.Digest)
	if err != nil {
		return "", err
	}
	defer body.Close()
	data, err := io.ReadAll(body)
	if err != nil {
		return "", err
	}
	m, leave, err := in.visit(session)
	if err != nil {
		return "", err
	}
	defer leave()
	list, err := m.List(ctx, attachmentDir)
	if err != nil && !errors.Is(err, machine.ErrNotFound) {
		return "", err
	}
	there := make(map[string]machine.FileInfo, len(list))
	for _, f := range list {
		there[f.Name] = f
	}
	base := fileName(info.Name)
	budget := info.Size // of what is read to compare: files that differ in their last byte are not worth more
	for n := 1; n <= maxSameName; n++ {
		file := numbered(base, n)
		name := path.Join(attachmentDir, file)
		f, taken := there[file]
		switch {
		case !taken:
			return name, m.WriteFile(ctx, name, data, 0o644)
		case f.Mode.IsRegular() && f.Size == info.Size:
			same, err := sameBytes(ctx, m, name, data, &budget)
			if same || err != nil {
				return name, err
			}
		}
	}
	return "", refusal("the workspace has too many files of this name")
}

// compareFirst is how much of two files of one size is compared before the rest: they mostly differ there.
const compareFirst = 4 << 10

// sameBytes reports whether a file of the same size is the same. What is read beyond its beginning is taken off the budget, beyond
// which no file is the same.
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

// numbered is the n-th name for a file: "a.txt", "a-2.txt".
func numbered(base string, n int) string {
	if n == 1 {
		return base
	}
	ext := path.Ext(base)
	return fmt.Sprintf("%s-%d%s", strings.TrimSuffix(base, ext), n, ext)
}

// maxFileName bounds a file's name, in bytes.
const maxFileName = 100

// fileName makes a name fit for a file and for a command line: letters, digits and a few signs, not hidden, no option.
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
