package channel

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/flynnhost/flynn/host/message"
)

// upload uploads the files of a message and returns the message with their handles. Files that the channel does not accept were named
// in the text when the reply was prepared. later reports that the row has to wait or has changed.
func (d *delivery) upload(ctx context.Context, s Sender, r message.Reply) (_ message.Reply, later bool, err error) {
	var given []message.Attachment
	for i, a := range r.Attachments {
		to, takes := uploader(s, a)
		if !takes {
			continue
		}
		handle, err := d.uploadOne(ctx, to, a)
		if err == nil {
			a.Handle = handle
			given = append(given, a)
			continue
		}
		if ctx.Err() != nil {
			return r, false, ctx.Err()
		}
		d.logger().Warn("cannot upload a file to the channel", "file", a.Digest, "error", err)
		if errors.Is(err, message.ErrNotTaken) || d.row.Attempts >= maxUploads {
			return r, true, d.without(ctx, i)
		}
		next := d.row
		next.Attempts++
		d.after(&next, pauseAfter(next.Attempts))
		return r, true, d.save(ctx, next)
	}
	r.Attachments = given
	return r, false, nil
}

// maxUploads bounds the attempts of an upload; with the back-off they take about a quarter of an hour.
const maxUploads = 15

func (d *delivery) uploadOne(ctx context.Context, to Uploader, a message.Attachment) (string, error) {
	if d.cfg.Media == nil {
		return "", message.ErrNotTaken
	}
	body, err := d.cfg.Media(a.Digest)
	if err != nil {
		return "", errors.Join(message.ErrNotTaken, err)
	}
	defer body.Close()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.cfg.SendTimeout)
	defer cancel()
	return to.Upload(ctx, a, body)
}

// without removes a file from a reply and names it in the text of the part that was to carry it.
func (d *delivery) without(ctx context.Context, file int) error {
	next := d.row
	line := missing(next.Reply.Attachments[file], "it could not be sent")
	parts := slices.Clone(next.Parts)
	if len(parts) == 0 {
		parts = []string{next.Reply.Text}
	}
	if last := len(parts) - 1; parts[last] == "" {
		parts[last] = line
	} else {
		parts = append(parts, line)
	}
	next.Parts, next.Attempts, next.NextTry, next.Pause = parts, 0, time.Time{}, 0
	next.Reply.Attachments = slices.Delete(slices.Clone(next.Reply.Attachments), file, file+1)
	return d.save(ctx, next)
}
