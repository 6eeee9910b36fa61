package suite

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/flynnhost/flynn/sdk/plugintest/wire"
	"github.com/flynnhost/flynn/sdk/proto/channelv1"
)

// sendChecks are about everything outbound except media.
func sendChecks() []Check {
	return []Check{
		{Name: "before-configure", Run: beforeConfigure, Next: "answer calls before Configure with FAILED_PRECONDITION"},
		{Name: "send", Run: func(t *T) { t.talking().sends("conform send") },
			Next: "answer OUTCOME_SENT with the platform's message id when the platform took it"},
		{Name: "send-duplicate", Run: duplicate, Next: "remember idempotency keys and answer a repeated one with OUTCOME_DUPLICATE"},
		{Name: "send-grease", Run: sendGrease, Next: "take unknown formats as plain text and unknown conversations as groups; ignore unknown fields"},
		{Name: "send-cancel", Run: sendCancel, Next: "stop working on a call when its context ends, and go on with the next"},
		{Name: "capabilities", Run: capabilities, Next: "answer UNIMPLEMENTED exactly for what plugin.toml does not name under [channel]"},
		{Name: "edit-stale", Run: editStale, Next: "drop an edit whose revision is not above the last one: applied = false"},
		{Name: "typing", Run: typing, Next: "show typing once for each call; the host repeats it"},
	}
}

// talk is a conversation in which the plugin can send.
type talk struct {
	*process
	where *channelv1.Conversation
}

func (t *T) talking() talk { return t.ready().talk() }

// talk returns a conversation, which a person has to begin.
func (p *process) talk() talk {
	return talk{p, p.receive(32).some(1, true)[0].GetConversation()}
}

func (c talk) message(text string) *channelv1.SendRequest {
	return &channelv1.SendRequest{
		IdempotencyKey: "key of " + text, Conversation: c.where, Text: text, Format: channelv1.TextFormat_TEXT_FORMAT_PLAIN,
	}
}

func (c talk) sends(text string) *channelv1.SendResponse { return c.delivers(c.message(text)) }

// delivers makes a send that must be delivered and, if there is a fake platform, shown.
func (c talk) delivers(r *channelv1.SendRequest) *channelv1.SendResponse {
	ctx, cancel := c.t.soon()
	defer cancel()
	out, err := c.channel.Send(ctx, r)
	if err != nil {
		c.t.Fail("send: %w", err)
	}
	if out.GetOutcome() != channelv1.Outcome_OUTCOME_SENT {
		c.t.Fail("send: the outcome is %v (%s), want OUTCOME_SENT", out.GetOutcome(), out.GetDetail())
	}
	if c.t.stage != nil {
		if _, err := c.t.stage.await(ctx, 1, shows(r.GetText())); err != nil {
			c.t.Fail("send: the outcome is OUTCOME_SENT, but the fake platform shows nothing: %w", err)
		}
	}
	return out
}

func beforeConfigure(t *T) {
	p := t.start(false)
	_, err := p.channel.Send(t.ctx, talk{p, &channelv1.Conversation{Id: "c"}}.message("too early"))
	t.answers(err, "Send before Configure", codes.FailedPrecondition)
	p.alive()
}

func duplicate(t *T) {
	const text = "conform once"
	c := t.talking()
	first := c.sends(text)
	again := c.message(text)
	again.PossibleDuplicate = true
	out, err := c.channel.Send(t.ctx, again)
	if err != nil {
		t.Fail("send the same key again: %w", err)
	}
	if out.GetOutcome() != channelv1.Outcome_OUTCOME_DUPLICATE {
		t.Fail("send the same key again: the outcome is %v, want OUTCOME_DUPLICATE", out.GetOutcome())
	}
	if ids := out.GetMessageIds(); len(ids) > 0 && !slices.Equal(ids, first.GetMessageIds()) {
		t.Fail("send the same key again: it names the messages %q, the first time %q", ids, first.GetMessageIds())
	}
	if t.stage == nil {
		return
	}
	c.sends("conform end") // it is shown after a message that was shown twice, if any
	if n, _ := t.stage.count(shows(text)); n != 1 {
		t.Fail("the platform shows the message %d times", n)
	}
}

func sendGrease(t *T) {
	c := t.talking()
	r := wire.Grease(c.message("conform grease"))
	r.Format = 77
	wire.Grease(r.Conversation)
	c.delivers(r)
}

// cutOff makes calls whose deadlines pass at different moments.
func (t *T) cutOff(what string, call func(ctx context.Context, i int) error) {
	for i := range 20 {
		ctx, cancel := context.WithTimeout(t.ctx, time.Duration(i*i)*100*time.Microsecond)
		err := call(ctx, i)
		cancel()
		t.answers(err, what, codes.OK, codes.DeadlineExceeded, codes.Canceled)
	}
}

func sendCancel(t *T) {
	c := t.talking()
	t.cutOff("a send with a deadline that passes", func(ctx context.Context, i int) error {
		_, err := c.channel.Send(ctx, c.message(fmt.Sprint("conform cancelled ", i)))
		return err
	})
	c.alive()
	ctx, cancel := context.WithTimeout(t.ctx, 2*t.config.Patience) // the platform may ask to slow down
	defer cancel()
	if _, err := c.channel.Send(ctx, c.message("conform after all")); err != nil {
		t.Fail("after sends that were cut off: %w", err)
	}
}

// capabilities makes every optional call: declared ones must work, and others must be refused.
func capabilities(t *T) {
	p := t.ready()
	c, has := p.channel, p.describe().GetChannel()
	where := &channelv1.Conversation{Id: "conform-no-such-conversation"}
	for _, m := range []struct {
		name     string
		declared bool
		call     func(context.Context) error
	}{
		{"edit", has.GetEdit() != channelv1.EditLevel_EDIT_LEVEL_UNSPECIFIED, func(ctx context.Context) error {
			_, err := c.Edit(ctx, &channelv1.EditRequest{Conversation: where, MessageId: "1", Revision: 1, Text: "x"})
			return err
		}},
		{"delete", has.GetDelete(), func(ctx context.Context) error {
			_, err := c.Delete(ctx, &channelv1.DeleteRequest{Conversation: where, MessageId: "1"})
			return err
		}},
		{"react", has.GetReact(), func(ctx context.Context) error {
			_, err := c.React(ctx, &channelv1.ReactRequest{Conversation: where, MessageId: "1", Reaction: "👍"})
			return err
		}},
		{"typing", has.GetTyping(), func(ctx context.Context) error {
			_, err := c.SetTyping(ctx, &channelv1.SetTypingRequest{Conversation: where, Typing: true, Ttl: durationpb.New(time.Second)})
			return err
		}},
		{"resolve", has.GetResolve(), func(ctx context.Context) error {
			_, err := c.Resolve(ctx, &channelv1.ResolveRequest{Query: "conform"})
			return err
		}},
		{"reconcile", has.GetReconcile(), func(ctx context.Context) error {
			_, err := c.Reconcile(ctx, &channelv1.ReconcileRequest{IdempotencyKey: "never sent", Conversation: where})
			return err
		}},
		{"fetch", has.GetFetch(), func(ctx context.Context) error {
			_, err := wire.Fetch(ctx, c, "conform-no-such-handle")
			return err
		}},
		{"upload", has.GetUpload(), func(ctx context.Context) error {
			_, err := wire.Upload(ctx, c, &channelv1.MediaHead{}, nil)
			return err
		}},
	} {
		ctx, cancel := t.soon()
		err := m.call(ctx)
		cancel()
		if served := status.Code(err) != codes.Unimplemented; served != m.declared {
			t.Fail("channel.%s is %v in plugin.toml and Describe, but the call answers %s", m.name, m.declared, describe(err))
		}
		p.alive()
	}
}

func editStale(t *T) {
	c := t.able("edit", func(c *channelv1.Capabilities) bool { return c.GetEdit() != channelv1.EditLevel_EDIT_LEVEL_UNSPECIFIED }).talk()
	draft := c.message("conform draft")
	draft.Draft = true
	sent := c.delivers(draft)
	if len(sent.GetMessageIds()) == 0 {
		t.Fail("a draft was sent and has no message id to edit it by")
	}
	applied := func(revision uint64) bool {
		out, err := c.channel.Edit(t.ctx, wire.Grease(&channelv1.EditRequest{
			Conversation: c.where, MessageId: sent.GetMessageIds()[0], Revision: revision, Text: fmt.Sprint("conform revision ", revision),
		}))
		if err != nil {
			t.Fail("edit to revision %d: %w", revision, err)
		}
		return out.GetApplied()
	}
	if !applied(5) {
		t.Fail("the edit to revision 5 was not applied")
	}
	if applied(4) {
		t.Fail("the edit to revision 4 was applied after that to revision 5")
	}
}

// typingWatch is longer than the time for which typing was to show.
const typingWatch = 2 * time.Second

func typing(t *T) {
	c := t.able("typing", (*channelv1.Capabilities).GetTyping).talk()
	show := &channelv1.SetTypingRequest{Conversation: c.where, Typing: true, Ttl: durationpb.New(time.Second)}
	if _, err := c.channel.SetTyping(t.ctx, wire.Grease(show)); err != nil {
		t.Fail("show typing: %w", err)
	}
	if t.stage != nil {
		watch, cancel := context.WithTimeout(t.ctx, max(typingWatch, t.config.Quiet))
		defer cancel()
		if n, err := t.stage.await(watch, 2, types); err == nil {
			t.Fail("one call shows typing %d times", n)
		}
	}
	_, err := c.channel.SetTyping(t.ctx, &channelv1.SetTypingRequest{Conversation: c.where})
	t.must(err)
}
