// Package attachments fetches the files of messages and stores those of replies.
//
// Start with Files.Take: a file is fetched from its channel into the media store, accepted or refused by the type of its bytes
// (types.go), and written into the workspace of its session (take.go). The package uploads nothing: the outbox does, with Files.Open.
package attachments

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/message"
	channelkind "github.com/flynnhost/flynn/host/plugin/kind/channel"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/quota"
	"github.com/flynnhost/flynn/host/store/media"
	"github.com/flynnhost/flynn/host/tool/builtin"
)

// Source is a channel from which attachments are fetched by their handles; *channelkind.Client implements it.
type Source interface {
	Fetch(ctx context.Context, handle string, limit int64) (channelkind.Media, error)
}

// Workspaces hold the files of sessions, and bound those of a sender.
type Workspaces interface {
	// Visit returns a machine in the workspace of a session, which the host uses until it calls leave.
	Visit(session message.WorkspaceKey) (m machine.Machine, leave func(), err error)
	// MediaRoom bounds a sender's bytes in the media store, where 0 means no bound, and returns the refusal of more.
	MediaRoom(sender message.SenderKey) (most int64, why error)
}

// Store returns the messages and replies whose files must be kept.
type Store interface {
	PendingInbox(ctx context.Context) ([]mailbox.InboxRow, error)
	UnsentOutbox(ctx context.Context) ([]mailbox.OutboxRow, error)
}

// Config configures Files.
type Config struct {
	Dir        string // of the media store
	Media      config.Media
	Store      Store
	Workspaces Workspaces
	// InTurns returns the digests of the files that running turns need.
	InTurns func(ctx context.Context) (map[string]bool, error)
	// Kept are frontends of the host, which store files before their messages: the handles of their files are digests.
	Kept     []string
	MaxImage int64 // largest image that models are shown, in bytes
	// Others have the files that this host has not; nil if no other host shares the store.
	Others Others
	Log    *slog.Logger
}

// Files are the attachments of messages and replies. Files can be used by many goroutines.
type Files struct {
	cfg   Config
	media *media.Store

	wake chan struct{} // capacity 1: other hosts may want files

	mu      sync.Mutex
	sources map[string]Source // by channel
}

// Open opens the media store.
func Open(cfg Config) (*Files, error) {
	f := &Files{cfg: cfg, wake: make(chan struct{}, 1), sources: map[string]Source{}}
	var err error
	f.media, err = media.New(media.Config{
		Dir: cfg.Dir, MaxObject: int64(cfg.Media.MaxObject), MaxTotal: int64(cfg.Media.MaxTotal), MaxAge: time.Duration(cfg.Media.MaxAge),
		Share: f.share, Keep: f.needed, Log: cfg.Log,
	})
	for _, channel := range cfg.Kept {
		f.sources[channel] = kept{f}
	}
	return f, err
}

// Media returns the media store.
func (f *Files) Media() *media.Store { return f.media }

// Attach makes s the source of a channel's attachments until detach is called.
func (f *Files) Attach(channel string, s Source) (detach func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sources[channel] = s
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.sources[channel] == s {
			delete(f.sources, channel)
		}
	}
}

func (f *Files) source(channel string) (Source, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, ok := f.sources[channel]
	return s, ok
}

// Keep puts a file of a sender, or of an answer to a sender, into the media store. The error wraps builtin.ErrNotKept if there is no room.
func (f *Files) Keep(ctx context.Context, sender message.SenderKey, name string, body io.Reader) (message.Attachment, error) {
	info, err := f.media.Put(ctx, media.Head{Name: name, Owner: sender}, body)
	var full quota.Refusal
	if errors.As(err, &full) {
		err = full
	}
	if errors.As(err, &full) || errors.Is(err, media.ErrTooLarge) || errors.Is(err, media.ErrFull) {
		return message.Attachment{}, fmt.Errorf("%w: %w", builtin.ErrNotKept, err)
	}
	if err == nil {
		f.give(ctx, info.Digest) // another host may send it, even if this one has died
	}
	return message.Attachment{Digest: info.Digest, Name: info.Name, Type: message.MediaType(info.Type()), Size: info.Size}, err
}

// Open opens a file for its delivery.
func (f *Files) Open(digest string) (io.ReadCloser, error) {
	body, _, err := f.open(context.Background(), digest)
	return body, err
}

// Image reads an image for a model.
func (f *Files) Image(ctx context.Context, digest string) ([]byte, error) {
	body, info, err := f.open(ctx, digest)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	if info.Size > f.cfg.MaxImage {
		return nil, fmt.Errorf("image %.12s is larger than models accept", digest)
	}
	return io.ReadAll(body)
}

// headRoom is more than an object takes in the media store besides its bytes.
const headRoom = 8 << 10

// share bounds the bytes of one sender in the media store: a quarter of the store or one file of the largest size, if that is more, and
// no more than limits.sender_disk leaves beside the sender's workspaces. The owner on this machine may use the whole store.
func (f *Files) share(sender message.SenderKey) (most int64, why error) {
	share := max(int64(f.cfg.Media.MaxTotal)/4, int64(f.cfg.Media.MaxObject)+headRoom)
	left, why := f.cfg.Workspaces.MediaRoom(sender)
	if route.Local(sender.Channel()) || left > 0 && left < share {
		return left, why
	}
	return share, quota.Refusal(fmt.Sprintf("this host keeps %s of files for one sender, and your files use all of it: try again in an hour", quota.Size(share)))
}

// needed returns the files of waiting messages, running turns and undelivered replies, in this order: what moves on meanwhile is found in a
// later step.
func (f *Files) needed(ctx context.Context) (map[string]bool, error) {
	waiting, err := f.cfg.Store.PendingInbox(ctx)
	if err != nil {
		return nil, err
	}
	needed, err := f.cfg.InTurns(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := f.cfg.Store.UnsentOutbox(ctx)
	if err != nil {
		return nil, err
	}
	for _, row := range waiting {
		if !slices.Contains(f.cfg.Kept, row.Message.Channel) {
			continue // its platform has the file
		}
		for _, a := range row.Message.Attachments {
			needed[a.Handle] = true
		}
	}
	for _, r := range rows {
		for _, a := range r.Reply.Attachments {
			needed[a.Digest] = true
		}
	}
	return needed, nil
}

// kept is the source of files that are already in the media store.
type kept struct{ files *Files }

// Fetch implements Source.
func (k kept) Fetch(ctx context.Context, handle string, limit int64) (channelkind.Media, error) {
	body, info, err := k.files.open(ctx, handle)
	if err != nil {
		return channelkind.Media{}, err
	}
	if info.Size > limit {
		return channelkind.Media{}, errors.Join(media.ErrTooLarge, body.Close())
	}
	return channelkind.Media{Name: info.Name, Type: info.Type(), Size: info.Size, Body: body}, nil
}
