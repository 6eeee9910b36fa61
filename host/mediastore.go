package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/agent"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway/door"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/sandbox/quota"
	"github.com/flynnhost/flynn/host/store/media"
	"github.com/flynnhost/flynn/host/tool/builtin"
)

// openMedia opens the store of attachments.
func (h *Host) openMedia(c *config.Config) (*media.Store, error) {
	return media.New(media.Config{
		Dir:       filepath.Join(c.Store.Dir, "media"),
		MaxObject: int64(c.Media.MaxObject), MaxTotal: int64(c.Media.MaxTotal), MaxAge: time.Duration(c.Media.MaxAge),
		Share: h.mediaShare(c.Media), Keep: h.neededMedia, Log: h.log,
	})
}

// mediaShare bounds what one sender brings into the media store: a quarter of it or one file of the largest size, if that is more, and no
// more than limits.sender_disk leaves beside his workspaces. The owner at this machine has the whole store.
func (h *Host) mediaShare(c config.Media) func(sender string) (most int64, why error) {
	share := max(int64(c.MaxTotal)/4, int64(c.MaxObject)+headRoom)
	return func(sender string) (int64, error) {
		left, why := h.fleet.Quota().MediaRoom(sender)
		if instance, _, _ := strings.Cut(sender, ":"); route.Local(instance) || left > 0 && left < share {
			return left, why
		}
		return share, quota.Refusal(fmt.Sprintf("this host keeps %s of files for one sender, and yours take all of it: try again in an hour", quota.Size(share)))
	}
}

// headRoom is more than the media store takes for an object besides its bytes.
const headRoom = 8 << 10

// takeFiles puts what came with a message into the session's workspace, by the configuration in force.
func (h *Host) takeFiles(ctx context.Context, session string, m message.Message) []agent.File {
	c := h.current.Load().config.Media
	accept := c.Accept
	if len(accept) == 0 {
		accept = usual
	}
	in := intake{
		fetchers: h.fetchers, store: h.media, visit: h.fleet.Visit, maxSize: min(int64(c.MaxObject), maxFetch), maxFiles: c.MaxFiles,
		accept: accept, log: h.log.Warn,
	}
	return in.take(ctx, session, m)
}

// keepFile puts a file of a sender, or one that goes with an answer to him, into the media store.
func (h *Host) keepFile(ctx context.Context, sender, name string, body io.Reader) (message.Attachment, error) {
	info, err := h.media.Put(ctx, media.Head{Name: name, Owner: sender}, body)
	var full quota.Refusal
	if errors.As(err, &full) {
		err = full
	}
	if errors.As(err, &full) || errors.Is(err, media.ErrTooLarge) || errors.Is(err, media.ErrFull) {
		return message.Attachment{}, fmt.Errorf("%w: %w", builtin.ErrNotKept, err)
	}
	return message.Attachment{Digest: info.Digest, Name: info.Name, Type: message.MediaType(info.Type()), Size: info.Size}, err
}

// openFile opens media for a delivery.
func (h *Host) openFile(digest string) (io.ReadCloser, error) {
	body, _, err := h.media.Open(context.Background(), digest)
	return body, err
}

// openImage reads an image that a model is to be shown.
func (h *Host) openImage(ctx context.Context, digest string) ([]byte, error) {
	body, info, err := h.media.Open(ctx, digest)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	if info.Size > model.MaxImage {
		return nil, fmt.Errorf("image %.12s is larger than models take", digest)
	}
	return io.ReadAll(body)
}

// neededMedia are the files of replies that are not delivered yet, and of turns that have attached some or show some and run on.
func (h *Host) neededMedia(ctx context.Context) (map[string]bool, error) {
	needed := map[string]bool{}
	add := func(list []message.Attachment) {
		for _, a := range list {
			needed[a.Digest] = true
		}
	}
	waiting, err := h.store.PendingInbox(ctx) // before the turns that they become
	if err != nil {
		return nil, err
	}
	for _, row := range waiting {
		if row.Message.Channel != door.OpenAI {
			continue // has it on its platform
		}
		for _, a := range row.Message.Attachments {
			needed[a.Handle] = true
		}
	}
	turns, err := h.store.RunningTurns(ctx)
	if err != nil {
		return nil, err
	}
	for _, t := range turns { // before the outbox: what ends in between is in one of the two
		steps, err := h.store.Steps(ctx, t.ID)
		if err != nil {
			return nil, err
		}
		attached, err := agent.Attached(steps)
		if err != nil {
			return nil, err
		}
		add(attached)
		shown, err := agent.Images(steps)
		if err != nil {
			return nil, err
		}
		for _, digest := range shown {
			needed[digest] = true
		}
	}
	rows, err := h.store.UnsentOutbox(ctx)
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		add(r.Reply.Attachments)
	}
	return needed, nil
}
