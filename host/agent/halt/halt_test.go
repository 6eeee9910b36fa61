package halt_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/agent/halt"
	"github.com/flynnhost/flynn/host/agent/turnlog"
)

// kept is a store of one switch.
type kept struct {
	halt turnlog.Halt
	err  error
}

func (k *kept) Halt(context.Context) (turnlog.Halt, error) { return k.halt, k.err }

func (k *kept) SetHalt(_ context.Context, h turnlog.Halt) error {
	if k.err == nil {
		k.halt = h
	}
	return k.err
}

// turns records what the switch asks for.
type turns []string

func (t *turns) Halt()   { *t = append(*t, "halt") }
func (t *turns) Resume() { *t = append(*t, "resume") }

func open(t *testing.T, k *kept) (*halt.Switch, *turns) {
	t.Helper()
	s, err := halt.Open(t.Context(), k, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	stopped := &turns{}
	s.Govern(stopped)
	return s, stopped
}

func TestSwitch(t *testing.T) {
	rows := &kept{}
	s, stopped := open(t, rows)
	if s.Why() != "" || s.State().On {
		t.Fatalf("a new switch is %+v", s.State())
	}
	set := func(on bool, reason string) {
		t.Helper()
		if err := s.Set(t.Context(), on, reason, "web:owner"); err != nil {
			t.Fatal(err)
		}
	}
	thrown := s.Thrown()
	select {
	case <-thrown:
		t.Error("a new switch is thrown")
	default:
	}
	set(true, strings.Repeat("x", 600))
	<-thrown
	<-s.Thrown()
	if got := s.State(); len(got.Reason) != 500 || got.By != "web:owner" || got.Since.IsZero() {
		t.Errorf("thrown: %+v", got)
	}
	set(true, "twice") // changes nothing
	if again, _ := open(t, rows); again.Why() != s.Why() || !strings.HasPrefix(again.Why(), "stopped by web:owner: xxx") {
		t.Errorf("after a restart: %q", again.Why())
	}
	again, _ := open(t, rows)
	<-again.Thrown()
	set(false, "")
	select {
	case <-s.Thrown():
		t.Error("the switch is off and thrown")
	default:
	}
	if s.Why() != "" || !slices.Equal(*stopped, turns{"halt", "resume"}) {
		t.Errorf("taken back: %q, the turns were asked to %v", s.Why(), *stopped)
	}
}

func TestChangeThatIsNotKept(t *testing.T) {
	rows := &kept{}
	s, stopped := open(t, rows)
	rows.err = errors.New("disk full")
	if err := s.Set(t.Context(), true, "", "web:owner"); !errors.Is(err, rows.err) || s.Why() != "" || len(*stopped) != 0 {
		t.Errorf("a change that cannot be kept took effect: %v, %q", err, s.Why())
	}
	if _, err := halt.Open(t.Context(), rows, slog.New(slog.DiscardHandler)); !errors.Is(err, rows.err) {
		t.Errorf("opened without knowing: %v", err)
	}
}
