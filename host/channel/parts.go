package channel

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/sdk/markdown"
)

// split splits text into parts of at most limit code points.
func split(text string, limit int) []string {
	if limit <= 0 || utf8.RuneCountInString(text) <= limit {
		return []string{text}
	}
	if parts := markdown.Split(text, limit, utf8.RuneCountInString); len(parts) > 0 {
		return parts
	}
	return []string{text}
}

// takes reports whether a channel accepts a file.
func takes(s Sender, a message.Attachment) bool {
	_, can := uploader(s, a)
	return can
}

// due is the next message to send of a row. Attachments and buttons go with the last one.
func due(row mailbox.OutboxRow) message.Reply {
	r := row.Reply
	if len(row.Parts) == 0 {
		return r
	}
	r.Text = row.Parts[row.Part]
	if row.Part > 0 {
		r.Key, r.ReplyTo = fmt.Sprintf("%s/%d", r.Key, row.Part+1), ""
	}
	if row.Part < len(row.Parts)-1 {
		r.Attachments, r.Buttons = nil, nil
	}
	return r
}

// prepare splits a reply into messages before the first of them is sent. The parts are committed unless the reply is sent as it is: they
// must be the same after a restart, even if the channel's limits have changed.
func (d *delivery) prepare(ctx context.Context, s Sender, drafted bool) error {
	if len(d.row.Parts) > 0 || d.row.Part > 0 || d.row.State != mailbox.OutboxPending {
		return nil
	}
	r := d.row.Reply
	text := withNames(r.Text, slices.DeleteFunc(slices.Clone(r.Attachments), func(a message.Attachment) bool { return takes(s, a) }))
	parts := split(text, s.Capabilities().MaxTextRunes)
	if drafted && slices.ContainsFunc(r.Attachments, func(a message.Attachment) bool { return takes(s, a) }) {
		parts = append(parts, "") // a draft cannot get files; they follow it
	}
	if len(parts) == 1 && parts[0] == r.Text {
		return nil
	}
	prepared := d.row
	prepared.Parts = parts
	return d.save(ctx, prepared)
}

// withNames adds a line for each file that the channel does not accept, so that people know about it.
func withNames(text string, files []message.Attachment) string {
	lines := []string{text}
	for _, a := range files {
		lines = append(lines, missing(a, "this channel does not accept it"))
	}
	return strings.TrimPrefix(strings.Join(lines, "\n"), "\n")
}

// missing returns the line that stands for a file.
func missing(a message.Attachment, why string) string {
	return fmt.Sprintf("[file %s, %d bytes: %s]", a.Name, a.Size, why)
}
