package channel_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/plugintest"
)

// long enough for a busy machine between two Renews, and short enough for a test.
const leased = 900 * time.Millisecond

// account is a platform that one plugin at a time may use: it hands each message to a poller until one confirms it.
type account struct {
	polls   atomic.Int32 // now
	total   atomic.Int32
	message chan string // waits; put back if it is not confirmed
	done    chan string // confirmed
}

// poller is a plugin of the account.
func (a *account) poller(refused chan<- error) *fake {
	return &fake{run: func(ctx context.Context, in channel.Inbox) error {
		a.polls.Add(1)
		a.total.Add(1)
		defer a.polls.Add(-1)
		in.Status(channel.StateReady, "polling")
		for {
			select {
			case id := <-a.message:
				if err := in.Deliver(ctx, event(id)); err != nil {
					a.message <- id
					refused <- err
					return err
				}
				a.done <- id
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}}
}

func event(id string) channel.Event {
	return channel.Event{ID: id, Conversation: channel.Conversation{ID: "c"}, Sender: channel.Sender{ID: "ann"}, Text: id}
}

// TestALeaseBoundsAPlugin: its host is suspended, it stops by itself, another one takes over, and it goes on when its host has the channel again.
func TestALeaseBoundsAPlugin(t *testing.T) {
	a, refused := &account{message: make(chan string, 4), done: make(chan string, 4)}, make(chan error, 4)
	first := plugintest.NewLeases(1, leased)
	one := plugintest.Start(t, a.poller(refused), plugintest.Config{Leases: first})
	one.WaitStatus(channel.StateReady)
	time.Sleep(2 * leased) // it is renewed
	if a.polls.Load() != 1 || a.total.Load() != 1 {
		t.Fatalf("%d polls, %d begun", a.polls.Load(), a.total.Load())
	}
	a.message <- "unacked"
	if e := one.Event(); e.ID != "unacked" {
		t.Fatalf("event %+v", e)
	}
	expired := first.Suspend()
	if err := <-refused; channel.Settled(err) {
		t.Errorf("the event that the host has not acked: %v", err)
	}
	if late := time.Since(expired); late > leaveTimeForTests {
		t.Errorf("the plugin stopped %v after its lease", late)
	}
	if sent, err := one.Send(channel.Send{Key: "k", Conversation: channel.Conversation{ID: "c"}, Text: "late"}); sent.Outcome != channel.OutcomeNotSent || err == nil || !strings.Contains(err.Error(), "lease") {
		t.Errorf("send without a lease: %+v, %v", sent, err)
	}
	if n := a.polls.Load(); n != 0 {
		t.Fatalf("%d pollers after the lease", n)
	}

	two := plugintest.Start(t, a.poller(refused), plugintest.Config{Leases: plugintest.NewLeases(2, leased)})
	if e := two.Event(); e.ID != "unacked" {
		t.Fatalf("the successor got %+v", e)
	}
	two.Ack()
	<-a.done
	if err := two.Shutdown(); err != nil {
		t.Fatal(err)
	}
	if a.polls.Load() != 0 {
		t.Fatal("both polled")
	}
	first.Grant(3, leased)
	one.WaitStatus(channel.StateReady)
	one.Ack() // what it had sent before
	a.message <- "new"
	if e := one.Event(); e.ID != "new" {
		t.Errorf("after the second lease: %+v", e)
	}
	one.Ack()
	<-a.done
	if sent, err := one.Send(channel.Send{Key: "k", Conversation: channel.Conversation{ID: "c"}, Text: "late"}); sent.Outcome != channel.OutcomeSent {
		t.Errorf("send with a lease: %+v, %v", sent, err)
	}
}

// leaveTimeForTests is a second, and what a busy machine adds.
const leaveTimeForTests = 3 * time.Second

// TestALateAnswerIsNoLease: a host that was suspended between looking at its lease and answering gives nothing, and one of an earlier epoch is refused.
func TestALateAnswerIsNoLease(t *testing.T) {
	a, refused := &account{message: make(chan string, 4), done: make(chan string, 4)}, make(chan error, 4)
	leases := plugintest.NewLeases(7, leased)
	leases.Suspend()
	h := plugintest.Start(t, a.poller(refused), plugintest.Config{Leases: leases})
	time.Sleep(leased + leased/2) // the first question waits longer than what it is answered
	leases.Grant(7, leased)
	leases.Suspend()
	time.Sleep(leased / 2)
	if n := a.total.Load(); n != 0 {
		t.Fatalf("%d polls by a lease that had expired when it came", n)
	}
	leases.Grant(7, leased)
	h.WaitStatus(channel.StateReady)
	leases.Grant(6, leased)
	if _, ok := h.EventWithin(leased); ok { // the stream ends
		t.Error("an event came")
	}
	h.Reconnect()
	h.WaitStatus(channel.StateConnecting)
	if n := a.polls.Load(); n != 0 {
		t.Errorf("%d polls by a lease of an earlier epoch", n)
	}
	leases.Grant(8, leased)
	h.Reconnect()
	h.WaitStatus(channel.StateReady)
	leases.Grant(8, 0) // the host knows that it has lost the channel
	h.WaitStatus(channel.StateConnecting)
}

// TestAPluginThatDoesNotStopEnds: its author ignores the context.
func TestAPluginThatDoesNotStopEnds(t *testing.T) {
	leases, over := plugintest.NewLeases(1, leased), make(chan struct{})
	defer close(over)
	h := plugintest.Start(t, &fake{run: func(_ context.Context, in channel.Inbox) error {
		in.Status(channel.StateReady, "")
		<-over
		return nil
	}}, plugintest.Config{Leases: leases})
	h.WaitStatus(channel.StateReady)
	expired := leases.Suspend()
	if err := h.Wait(); err == nil || !strings.Contains(err.Error(), "run has not returned") {
		t.Error(err)
	}
	if late := time.Since(expired); late > leaveTimeForTests {
		t.Errorf("the process ended %v after its lease", late)
	}
}

// TestACallUnderWayEndsWithTheLease: its wait for a turn at once, and the call itself a moment later.
func TestACallUnderWayEndsWithTheLease(t *testing.T) {
	leases, sending := plugintest.NewLeases(1, leased), make(chan struct{})
	h := plugintest.Start(t, &fake{
		run: func(ctx context.Context, in channel.Inbox) error {
			in.Status(channel.StateReady, "")
			<-ctx.Done()
			return nil
		},
		send: func(ctx context.Context, _ channel.Send) (channel.Sent, error) {
			close(sending)
			<-channel.Patience(ctx).Done()
			if ctx.Err() != nil {
				return channel.Sent{Outcome: channel.OutcomeRefused}, ctx.Err()
			}
			<-ctx.Done()
			return channel.Sent{}, context.Cause(ctx)
		},
	}, plugintest.Config{Leases: leases})
	h.WaitStatus(channel.StateReady)
	leases.Suspend()
	sent, err := h.Send(channel.Send{Key: "k", Conversation: channel.Conversation{ID: "c"}, Text: "x"})
	<-sending
	if sent.Outcome != channel.OutcomeUnknown || err == nil || !strings.Contains(err.Error(), "lease") {
		t.Errorf("%+v, %v", sent, err)
	}
}

// TestWithoutLeasesNothingWaits: a host that grants none, as every older one, gets everything at once.
func TestWithoutLeasesNothingWaits(t *testing.T) {
	a := &account{message: make(chan string, 4), done: make(chan string, 4)}
	h := plugintest.Start(t, a.poller(make(chan error, 4)), plugintest.Config{})
	h.WaitStatus(channel.StateReady)
	a.message <- "one"
	if e := h.Event(); e.ID != "one" {
		t.Errorf("%+v", e)
	}
	h.Ack()
	<-a.done
}

// apart is a plugin whose calls need nothing that Run has.
type apart struct{ *fake }

func (a apart) Describe() channel.Description {
	d := a.fake.Describe()
	d.Capabilities.SendsApart = true
	return d
}

// TestSendingNeedsNoReceivingHalf: the host of a plugin has just got the channel, and another one's may still poll.
func TestSendingNeedsNoReceivingHalf(t *testing.T) {
	a, refused := &account{message: make(chan string, 4), done: make(chan string, 4)}, make(chan error, 4)
	for name, p := range map[string]channel.Channel{"apart": apart{a.poller(refused)}, "together": a.poller(refused)} {
		t.Run(name, func(t *testing.T) {
			before := a.total.Load()
			send := func(h *plugintest.Host, key string) channel.Outcome {
				t.Helper()
				sent, _ := h.Send(channel.Send{Key: key, Conversation: channel.Conversation{ID: "c"}, Text: key})
				return sent.Outcome
			}
			leases := plugintest.NewLeases(1, 0)
			leases.GrantSending(1, leased)
			h := plugintest.Start(t, p, plugintest.Config{Leases: leases})
			if name == "together" {
				time.Sleep(leased)
				if out := send(h, "k"); out != channel.OutcomeNotSent || a.total.Load() != before {
					t.Errorf("%v, %d polls", out, a.total.Load()-before)
				}
				return
			}
			for late := time.Now().Add(time.Minute); send(h, "k") != channel.OutcomeSent; time.Sleep(10 * time.Millisecond) {
				if time.Now().After(late) {
					t.Fatal("nothing is sent")
				}
			}
			time.Sleep(2 * leased) // it is renewed
			if out := send(h, "later"); out != channel.OutcomeSent || a.total.Load() != before {
				t.Errorf("%v, %d polls", out, a.total.Load()-before)
			}
			leases.Grant(1, leased)
			h.WaitStatus(channel.StateReady)
			leases.GrantSending(2, leased)
			h.WaitStatus(channel.StateConnecting)
			if out := send(h, "alone again"); out != channel.OutcomeSent || a.polls.Load() != 0 {
				t.Errorf("%v, %d polls", out, a.polls.Load())
			}
			time.Sleep(time.Until(leases.Suspend()))
			if out := send(h, "too late"); out != channel.OutcomeNotSent {
				t.Errorf("after the lease: %v", out)
			}
		})
	}
}

// TestASendApartEndsWithItsLease: a call is under way when the lease to send expires, and nothing receives.
func TestASendApartEndsWithItsLease(t *testing.T) {
	leases, sending := plugintest.NewLeases(1, 0), make(chan struct{}, 100)
	leases.GrantSending(1, leased)
	h := plugintest.Start(t, apart{&fake{
		run: func(context.Context, channel.Inbox) error { panic("it may not receive") },
		send: func(ctx context.Context, _ channel.Send) (channel.Sent, error) {
			sending <- struct{}{}
			<-ctx.Done()
			return channel.Sent{}, context.Cause(ctx)
		},
	}}, plugintest.Config{Leases: leases})
	time.AfterFunc(leased/2, func() { leases.Suspend() })
	for late := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		sent, err := h.Send(channel.Send{Key: "k", Conversation: channel.Conversation{ID: "c"}, Text: "x"})
		if sent.Outcome == channel.OutcomeNotSent && len(sending) == 0 && time.Now().Before(late) {
			continue // the first Renew is not answered yet
		}
		if sent.Outcome != channel.OutcomeUnknown || err == nil || !strings.Contains(err.Error(), "lease") {
			t.Errorf("%+v, %v", sent, err)
		}
		return
	}
}
