package suite

import (
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/flynnhost/flynn/sdk/plugintest/fake"
	"github.com/flynnhost/flynn/sdk/plugintest/wire"
	"github.com/flynnhost/flynn/sdk/proto/channelv1"
)

// leaseChecks are about the leases of one of several hosts, whose end of the stream is suspended while the plugin goes on.
func leaseChecks() []Check {
	return []Check{
		{Name: "lease-first", Run: leaseFirst, Next: "where ConfigureRequest.lease is set, use the platform only after the first Lease"},
		{Name: "lease-late", Run: leaseLate, Next: "count a lease from the moment at which you sent its Renew, not from the answer"},
		{Name: "lease-expired", Run: leaseExpired, Next: "when a lease expires, stop receiving, close the connections, and answer Send with OUTCOME_NOT_SENT and a detail"},
		{Name: "lease-successor", Run: leaseSuccessor, Next: "when a lease expires, leave what the host has not acked to the platform, which gives it to the next host"},
		{Name: "lease-again", Run: leaseAgain, Next: "go on with the next lease, without losing what came meanwhile"},
		{Name: "lease-sending", Run: leaseSending, Next: "with channel.sends_apart, carry out calls as long as Lease.sending lasts, and receive only as long as Lease.duration does; or leave it out"},
		{Name: "lease-epoch", Run: leaseEpoch, Next: "end the stream with FAILED_PRECONDITION at a lease of a lower epoch, and do not use it"},
	}
}

const (
	leaseTime  = time.Second // of the leases of these checks
	leaveLimit = time.Second // within which a plugin has to stop after one
)

// leasing starts a process whose host is one of several. It is not connected before it has a lease.
func (t *T) leasing(leases *wire.Leases) (*process, stream) {
	p := t.unconfigured()
	if !p.describe().GetLease() {
		t.Skip("the plugin obeys no leases: where there are several hosts, none of them runs it, unless channel.shared is true")
	}
	if t.stage == nil {
		t.Skip("without a fake platform nobody sees whether it stops: name one in %s", t.plugin.Source)
	}
	r := p.good()
	r.Lease = true
	if out, err := p.plugin.Configure(t.ctx, r); err != nil || len(out.GetErrors()) > 0 {
		t.Fail("configure with a lease: %s, %s", describe(err), fieldErrors(out))
	}
	return p, stream{wire.OpenLeased(t.ctx, p.channel, 32, leases), t}
}

// long returns the length of the leases; a busy machine may not renew short ones in time.
func (t *T) long() time.Duration { return leaseTime + t.config.Slack/20 }

// silent fails if an event comes within the time, or from then on until the end of the lease.
func (s stream) silent(within time.Duration, what string) {
	e, err := s.Next(s.t.ctx, within)
	if err == nil {
		s.t.Fail("%s: event %d %q came", what, e.GetSeq(), e.GetEventId())
	}
	if !errors.Is(err, wire.ErrQuiet) {
		s.t.must(err)
	}
}

// drain drops what came while there was a lease: a platform may have delivered again what was not acked.
func (s stream) drain() {
	for {
		if _, err := s.Next(s.t.ctx, s.t.config.Quiet/10); err != nil {
			return
		}
	}
}

// refuses fails if a send is not refused, or shown.
func (c talk) refuses(text, when string) {
	ctx, cancel := c.t.soon()
	defer cancel()
	out, err := c.channel.Send(ctx, c.message(text))
	if err != nil {
		c.t.Fail("send %s: %w", when, err)
	}
	if out.GetOutcome() != channelv1.Outcome_OUTCOME_NOT_SENT || out.GetDetail() == "" {
		c.t.Fail("send %s: the outcome is %v (%q), want OUTCOME_NOT_SENT and a detail", when, out.GetOutcome(), out.GetDetail())
	}
	if n, _ := c.t.stage.count(shows(text)); n != 0 {
		c.t.Fail("send %s: the platform shows it", when)
	}
}

// sleep waits for what should not happen.
func (t *T) sleep(until time.Time) {
	late := time.NewTimer(time.Until(until))
	defer late.Stop()
	select {
	case <-late.C:
	case <-t.ctx.Done():
		t.must(t.ctx.Err())
	}
}

func leaseFirst(t *T) {
	leases := wire.NewLeases(1, t.long())
	leases.Suspend()
	p, st := t.leasing(leases)
	t.post(1)
	st.silent(max(t.config.Quiet, 2*time.Second), "the host has given no lease")
	talk{p, &channelv1.Conversation{Id: "c", Kind: channelv1.ConversationKind_CONVERSATION_KIND_DM}}.refuses("conform too early", "without a lease")
	leases.Grant(1, t.long())
	p.connected()
	st.some(1, true)
}

func leaseLate(t *T) {
	leases := wire.NewLeases(1, t.long())
	leases.Suspend()
	p, st := t.leasing(leases)
	t.post(1)
	st.silent(t.long()+t.long()/2, "the host has given no lease")
	leases.Grant(1, t.long()) // answers what is older than the lease
	leases.Suspend()
	st.silent(t.long(), "the host was suspended while it answered, and its lease had expired when the answer came")
	leases.Grant(1, t.long())
	p.connected()
	st.some(1, true)
}

// expire lets the lease expire. The plugin is connected and idle, or has an event that is not acked.
func (t *T) expire(leases *wire.Leases) {
	t.sleep(leases.Suspend().Add(leaveLimit + t.config.Slack/20))
}

func leaseExpired(t *T) {
	leases := wire.NewLeases(1, t.long())
	p, st := t.leasing(leases)
	p.connected()
	c := talk{p, st.some(1, true)[0].GetConversation()}
	c.sends("conform in time")
	t.sleep(time.Now().Add(t.long() + t.long()/2)) // it is renewed
	c.sends("conform renewed")
	t.expire(leases)
	st.drain()
	t.post(1)
	st.silent(max(t.config.Quiet, time.Second), fmt.Sprintf("the lease had expired for %v when the message was written", leaveLimit))
	c.refuses("conform too late", "after the lease")
	p.alive()
}

func leaseSuccessor(t *T) {
	if !t.plugin.Redelivers {
		t.Skip("the platform does not redeliver: set redelivers in %s if it does", t.plugin.Source)
	}
	leases := wire.NewLeases(1, t.long())
	p, st := t.leasing(leases)
	p.connected()
	before := st.some(1, false)[0].GetEventId()
	t.expire(leases)
	st.drain()
	next, heir := t.leasing(wire.NewLeases(2, t.long()))
	next.connected()
	if e := heir.next("event %q was not acked when the lease expired, and the successor does not get it", before); e.GetEventId() != before {
		t.Fail("event %q was not acked when the lease expired, and the successor gets %q", before, e.GetEventId())
	} else {
		t.must(heir.Ack(e.GetSeq()))
	}
	id := heir.some(1, true)[0].GetEventId()
	st.silent(max(t.config.Quiet, time.Second), fmt.Sprintf("event %q went to the successor", id))
	p.alive()
}

func leaseAgain(t *T) {
	leases := wire.NewLeases(1, t.long())
	p, st := t.leasing(leases)
	p.connected()
	e := st.some(1, true)[0]
	t.expire(leases)
	const text = "conform while nobody listens"
	t.must(t.stage.platform.Post(fake.Post{ID: "conform-missed", Text: text}))
	leases.Grant(2, t.long())
	p.connected()
	if t.plugin.Redelivers {
		for got := ""; got != text; {
			e := st.next("a message that was written while the plugin had no lease does not come with the next one")
			got = e.GetText()
			t.must(st.Ack(e.GetSeq()))
		}
	}
	c := talk{p, e.GetConversation()}
	c.sends("conform once more")
	st.some(1, true)
}

// leaseSending has the successor of a process send while that one could still receive.
func leaseSending(t *T) {
	leases := wire.NewLeases(1, t.long())
	p, st := t.leasing(leases)
	if t.plugin.Together || !p.describe().GetChannel().GetSendsApart() {
		t.Skip("it sends only while it receives: channel.sends_apart is not set")
	}
	p.connected()
	where := st.some(1, true)[0].GetConversation()
	t.expire(leases)
	st.drain()

	leases = wire.NewLeases(2, 0)
	leases.GrantSending(2, t.long())
	next, heir := t.leasing(leases)
	c := talk{next, where}
	c.granted("conform by the next host")
	t.post(1)
	heir.silent(t.long()+t.long()/2, "the host lets it send and not receive")
	c.sends("conform renewed by the next host")
	t.expire(leases)
	c.refuses("conform too late by the next host", "after the lease to send")
	leases.Grant(2, t.long())
	next.connected()
	heir.some(1, true)
	c.sends("conform by both halves")
}

// granted sends, again as long as the host may not have answered the first Renew.
func (c talk) granted(text string) {
	for late := time.Now().Add(c.t.config.Patience); ; c.t.sleep(time.Now().Add(10 * time.Millisecond)) {
		ctx, cancel := c.t.soon()
		out, err := c.channel.Send(ctx, c.message(text))
		cancel()
		switch {
		case err != nil:
			c.t.Fail("send: %w", err)
		case out.GetOutcome() == channelv1.Outcome_OUTCOME_SENT:
			_, err := c.t.stage.await(c.t.ctx, 1, shows(text))
			c.t.must(err)
			return
		case out.GetOutcome() != channelv1.Outcome_OUTCOME_NOT_SENT || time.Now().After(late):
			c.t.Fail("the host lets it send and not receive: the outcome is %v (%s), want OUTCOME_SENT", out.GetOutcome(), out.GetDetail())
		}
	}
}

func leaseEpoch(t *T) {
	leases := wire.NewLeases(5, t.long())
	p, st := t.leasing(leases)
	p.connected()
	st.some(1, true) // it has a lease of epoch 5: it may have said before that it is ready
	leases.Grant(4, t.long())
	err, over := st.Ended(t.config.Patience)
	if !over {
		t.Fail("a lease of epoch 4 after one of epoch 5 is accepted")
	}
	t.answers(err, "a lease of epoch 4 after one of epoch 5", codes.FailedPrecondition)
	t.sleep(time.Now().Add(t.long() + leaveLimit + t.config.Slack/20))
	t.post(1)
	leases.Grant(6, t.long())
	leases.Suspend()
	again := stream{wire.OpenLeased(t.ctx, p.channel, 32, leases), t}
	again.silent(max(t.config.Quiet, time.Second), "the only leases were of an earlier epoch")
	leases.Grant(6, t.long())
	p.connected()
	again.some(1, true)
}
