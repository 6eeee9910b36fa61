package sandbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/pool"
)

// settle makes sure that a box, if it is one, is gone, so that nothing in it writes to the workspace any more.
func (b *box) settle() error {
	if b == nil {
		return nil
	}
	<-b.gone
	if b.removal == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), removeTimeout)
	defer cancel()
	if err := errors.Join(b.project.remove(), b.reaper.Remove(ctx, b.id)); err != nil {
		return err
	}
	b.isRemoved()
	return nil
}

// whyLost is the error that people see when the container's stream has ended by itself.
func (b *box) whyLost() error {
	if err := b.driver.Ping(context.Background()); err != nil {
		return errors.New(machine.Reason(err))
	}
	where := ""
	if l, ok := b.driver.(driver.Locator); ok {
		where = " on engine " + l.Address()
	}
	return fmt.Errorf("its container ended%s: the next command gets a new one", where)
}

// errPaused is why a container that somebody else has paused answers nothing.
var errPaused = errors.New("somebody has paused its container on the engine")

// whyHung is errPaused where the engine has the container paused, which this host never asks for.
func (b *box) whyHung() error {
	d, can := b.driver.(driver.Services)
	if !can {
		return nil
	}
	if c, err := d.Condition(context.Background(), b.id); err == nil && c.Paused {
		return errPaused
	}
	return nil
}

// answerTime is how long a warm container may take to answer before the engine is asked about it.
const answerTime = time.Second

// takeWarm takes a container from its pool, and another one where that is paused.
func (m *Manager) takeWarm(kind string) (*box, pool.Miss) {
	for {
		b, miss := m.pools.Take(kind)
		if b == nil || !m.isPaused(b) {
			return b, miss
		}
		m.log.Warn("replacing a warm sandbox", "container", b.id, "error", errPaused)
		m.discard(b)
	}
}

// isPaused reports whether a container stands still; one that answers does not.
func (m *Manager) isPaused(b *box) bool {
	answered := make(chan struct{})
	m.work.Go(func() {
		defer close(answered)
		_, _ = b.link.Stat(context.Background(), ".") // a container that has died is found out by its user
	})
	late := time.NewTimer(answerTime)
	defer late.Stop()
	select {
	case <-answered:
		return false
	case <-late.C:
		return b.whyHung() != nil
	}
}
