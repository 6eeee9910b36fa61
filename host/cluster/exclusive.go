package cluster

import (
	"context"
	"errors"
	"time"

	"github.com/flynnhost/flynn/host/store"
)

// Exclusively runs a part of the host while the host owns a key, until ctx ends or the part returns by itself. The context of the part ends
// when the key is lost or the lease lapses: the part must then stop at once, because another host may be about to start it. Other hosts
// that call Exclusively for the key wait meanwhile, and after the death of this one until its lease is over.
func (m *Member) Exclusively(ctx context.Context, key store.OwnerKey, part func(context.Context) error) error {
	if !m.shared {
		return part(ctx)
	}
	for ctx.Err() == nil {
		over, err := m.once(ctx, key, part)
		switch {
		case over:
			return err
		case err != nil && ctx.Err() == nil && !store.Settled(err) && !errors.Is(err, store.ErrOwned):
			m.cfg.Log.Error("cannot claim a task of the host; trying again", "key", key, "error", err)
		}
		select {
		case <-time.After(m.cfg.Every / 2):
		case <-ctx.Done():
		}
	}
	return nil
}

// once runs a part once, if the host owns the key. over is true if the part ended by itself; otherwise its error has no meaning.
func (m *Member) once(ctx context.Context, key store.OwnerKey, part func(context.Context) error) (over bool, err error) {
	work, done, err := m.Enter(ctx, key, nil)
	if err != nil {
		return false, err
	}
	defer done()
	work, cancel := context.WithCancelCause(work)
	defer cancel(nil)
	if err := m.rests(work); err != nil {
		return false, nil
	}
	lapsed := make(chan struct{})
	go func() {
		defer close(lapsed)
		m.lapses(work)
		cancel(errLapsed)
	}()
	err = part(work)
	over = work.Err() == nil
	cancel(nil)
	<-lapsed
	if !over {
		err = nil
	}
	return over, err
}

// Rest returns how long a previous owner of the key of a work's context may still run what goes on without asking, such as a call to a platform.
func (m *Member) Rest(work context.Context) time.Duration {
	if h, is := work.Value(holdKey{}).(*hold); is {
		return max(0, h.rest.Sub(m.cfg.Now()))
	}
	return 0
}

// rests returns when Rest is over.
func (m *Member) rests(ctx context.Context) error {
	select {
	case <-time.After(m.Rest(ctx)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// lapses returns when the lease has lapsed or the host gets no keys any more, or ctx has ended.
func (m *Member) lapses(ctx context.Context) {
	for {
		m.mu.Lock()
		left, idle := m.until.Sub(m.cfg.Now()), m.idling.begun
		m.mu.Unlock()
		if left <= 0 {
			return
		}
		select {
		case <-time.After(left):
		case <-idle:
			return
		case <-ctx.Done():
			return
		}
	}
}
