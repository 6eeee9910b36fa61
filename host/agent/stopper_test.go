package agent

import (
	"context"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/agent/children"
	"github.com/flynnhost/flynn/host/message"
)

// A message that was said after /stop is not what somebody wanted stopped, however late the command is looked at; and what is stopped is
// the turn that ran then, not the next one.
func TestStopperEndsWhatRanThen(t *testing.T) {
	said := time.Date(2026, 11, 23, 8, 0, 0, 0, time.UTC)
	begin := func(r *registry, received time.Time) context.Context {
		ctx, cancel := context.WithCancelCause(t.Context())
		r.running["place"] = &active{cancel: cancel, origin: message.Message{ReceivedAt: received}}
		return ctx
	}
	r := &registry{running: map[string]*active{}, children: children.New(children.Config{})}
	if r.Stopper("place", said) != nil {
		t.Error("where nothing runs, there is something to stop")
	}
	later := begin(r, said.Add(time.Millisecond))
	if r.Stopper("place", said) != nil || later.Err() != nil {
		t.Error("what was said after /stop is stopped")
	}
	earlier := begin(r, said.Add(-time.Second))
	stop := r.Stopper("place", said)
	next := begin(r, said.Add(-time.Millisecond))
	if stop == nil {
		t.Fatal("the running turn is not found")
	}
	stop()
	if context.Cause(earlier) != errStopped || next.Err() != nil {
		t.Errorf("stopped with %v, and the next with %v", context.Cause(earlier), next.Err())
	}
}
