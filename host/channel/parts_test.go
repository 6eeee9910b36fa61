package channel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/message"
)

// crate is a channel that takes files.
type crate struct {
	script
	can     message.Capabilities
	refuse  []error // of the next uploads
	uploads int
	got     []message.Reply
}

func (c *crate) Capabilities() message.Capabilities { return c.can }

func (c *crate) Upload(_ context.Context, a message.Attachment, body io.Reader) (string, error) {
	text, err := io.ReadAll(body)
	if err != nil {
		return "", err
	}
	c.uploads++
	if len(c.refuse) > 0 {
		err, c.refuse = c.refuse[0], c.refuse[1:]
		if err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("up-%s-%d", a.Name, len(text)), nil
}

func (c *crate) Send(ctx context.Context, r message.Reply) (message.Delivery, error) {
	c.got = append(c.got, r)
	return c.script.Send(ctx, r)
}

// shown tells each send in a line: key, what it answers, text, files, buttons.
func (c *crate) shown() []string {
	var out []string
	for _, r := range c.got {
		line := fmt.Sprintf("%s>%s %q", r.Key, r.ReplyTo, r.Text)
		for _, a := range r.Attachments {
			line += " +" + a.Handle
		}
		for _, b := range r.Buttons {
			line += " [" + b.Text + "]"
		}
		if r.PossibleDuplicate {
			line += " again?"
		}
		out = append(out, line)
	}
	return out
}

func TestParts(t *testing.T) {
	notSent, unknown := message.Delivery{Outcome: message.NotSent}, message.Delivery{Outcome: message.Unknown}
	file := func(name string, size int64) message.Attachment {
		return message.Attachment{Name: name, Size: size, Digest: strings.Repeat("d", int(size))}
	}
	for _, c := range []struct {
		name    string
		reply   message.Reply
		row     func(*mailbox.OutboxRow)
		can     message.Capabilities
		answers []any
		refuse  []error
		shown   []string
		ids     int
		end     mailbox.OutboxState
	}{
		{"what fits is sent as it is", message.Reply{Text: "0123456789"}, nil, message.Capabilities{MaxTextRunes: 10}, nil, nil,
			[]string{`k>m "0123456789"`}, 1, mailbox.OutboxSent},
		{"runes count, not bytes", message.Reply{Text: "éééééééééé"}, nil, message.Capabilities{MaxTextRunes: 10}, nil, nil,
			[]string{`k>m "éééééééééé"`}, 1, mailbox.OutboxSent},
		{"no limit", message.Reply{Text: strings.Repeat("x", 50)}, nil, message.Capabilities{}, nil, nil,
			[]string{`k>m "` + strings.Repeat("x", 50) + `"`}, 1, mailbox.OutboxSent},
		{"parts have keys of their own, buttons go with the last", message.Reply{Text: "aaaaaaaaaabbbbbbbbbbcc", Buttons: []message.Button{{Text: "yes"}}}, nil,
			message.Capabilities{MaxTextRunes: 10}, nil, nil, []string{`k>m "aaaaaaaaaa"`, `k/2> "bbbbbbbbbb"`, `k/3> "cc" [yes]`}, 3, mailbox.OutboxSent},
		{"a part that stumbles is sent again, and no other", message.Reply{Text: "aaaaaaaaaabbbbbbbbbbcc"}, nil, message.Capabilities{MaxTextRunes: 10},
			[]any{notSent, message.Delivery{Outcome: message.Sent, PlatformIDs: []string{"p"}}, unknown}, nil,
			[]string{`k>m "aaaaaaaaaa"`, `k>m "aaaaaaaaaa"`, `k/2> "bbbbbbbbbb"`, `k/2> "bbbbbbbbbb" again?`, `k/3> "cc"`}, 3, mailbox.OutboxSent},
		{"after a restart the part under way is next, cut as before", message.Reply{Text: "aaaaaaaaaabbbbbbbbbbcc"}, func(r *mailbox.OutboxRow) {
			r.Parts, r.Part, r.PlatformIDs = []string{"aaaaaaaaaa", "bbbbbbbbbb", "cc"}, 1, []string{"p1"}
		}, message.Capabilities{MaxTextRunes: 4}, nil, nil, []string{`k/2> "bbbbbbbbbb"`, `k/3> "cc"`}, 3, mailbox.OutboxSent},
		{"after a restart amid a part it is marked", message.Reply{Text: "aaaaaaaaaabb"}, func(r *mailbox.OutboxRow) {
			r.Parts, r.Part, r.PlatformIDs, r.State, r.Attempts = []string{"aaaaaaaaaa", "bb"}, 1, []string{"p1"}, mailbox.OutboxSending, 1
		}, message.Capabilities{MaxTextRunes: 10}, nil, nil, []string{`k/2> "bb" again?`}, 2, mailbox.OutboxSent},
		{"files go with the last part", message.Reply{Text: "aaaaaaaaaabb", Attachments: []message.Attachment{file("x", 3), file("y", 4)}}, nil,
			message.Capabilities{MaxTextRunes: 10, Upload: true, MaxAttachmentBytes: 5}, nil, nil, []string{`k>m "aaaaaaaaaa"`, `k/2> "bb" +up-x-3 +up-y-4`}, 2, mailbox.OutboxSent},
		{"a file that the channel does not take is named", message.Reply{Text: "see", Attachments: []message.Attachment{file("x", 3), file("big", 6)}}, nil,
			message.Capabilities{Upload: true, MaxAttachmentBytes: 5}, nil, nil, []string{`k>m "see\n[file big, 6 bytes: this channel does not accept it]" +up-x-3`}, 1, mailbox.OutboxSent},
		{"a channel without files", message.Reply{Text: "see", Attachments: []message.Attachment{file("x", 3)}}, nil, message.Capabilities{}, nil, nil,
			[]string{`k>m "see\n[file x, 3 bytes: this channel does not accept it]"`}, 1, mailbox.OutboxSent},
		{"an upload that stumbles is tried again", message.Reply{Text: "see", Attachments: []message.Attachment{file("x", 3)}}, nil,
			message.Capabilities{Upload: true, MaxAttachmentBytes: 5}, nil, []error{errors.New("pipe broke")}, []string{`k>m "see" +up-x-3`}, 1, mailbox.OutboxSent},
		{"one that is refused is named after the text", message.Reply{Text: "see", Attachments: []message.Attachment{file("x", 3), file("y", 4)}}, nil,
			message.Capabilities{Upload: true, MaxAttachmentBytes: 5}, nil, []error{fmt.Errorf("no: %w", message.ErrNotTaken)},
			[]string{`k>m "see"`, `k/2> "[file x, 3 bytes: it could not be sent]" +up-y-4`}, 2, mailbox.OutboxSent},
		{"a file that is lost is named as well", message.Reply{Text: "see", Attachments: []message.Attachment{{Name: "x", Size: 3, Digest: "gone"}}}, nil,
			message.Capabilities{Upload: true, MaxAttachmentBytes: 5}, nil, nil, []string{`k>m "see"`, `k/2> "[file x, 3 bytes: it could not be sent]"`}, 2, mailbox.OutboxSent},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.reply.Key, c.reply.Channel, c.reply.Conversation.ID, c.reply.ReplyTo = "k", "irc", "#a", "m"
				r := mailbox.OutboxRow{State: mailbox.OutboxPending, Reply: c.reply}
				if c.row != nil {
					c.row(&r)
				}
				m, s := newMemory(r), &crate{script: script{answers: c.answers}, can: c.can, refuse: c.refuse}
				ctx, cancel := context.WithCancel(t.Context())
				o := NewOutbox(OutboxConfig{Store: m, Log: slog.New(slog.DiscardHandler), Media: openMedia})
				var done sync.WaitGroup
				done.Go(func() { o.Run(ctx) })
				o.Attach("irc", s)
				time.Sleep(time.Hour)
				cancel()
				done.Wait()
				if got := s.shown(); !slices.Equal(got, c.shown) {
					t.Errorf("shown:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(c.shown, "\n"))
				}
				if got := m.rows["k"]; got.State != c.end || len(got.PlatformIDs) != c.ids {
					t.Errorf("row ends as %+v, want %s with %d ids", got, c.end, c.ids)
				}
				if n := o.Waiting()["irc"]; n != 0 {
					t.Errorf("%d replies wait", n)
				}
			})
		})
	}
}

func openMedia(digest string) (io.ReadCloser, error) {
	if digest == "gone" {
		return nil, errors.New("no such media")
	}
	return io.NopCloser(strings.NewReader(digest)), nil
}
