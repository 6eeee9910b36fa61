package channel

import (
	"context"
	"sync"
)

// maxKeys bounds the remembered sends. The host repeats a key within minutes or after a restart, never after thousands of others.
const maxKeys = 4096

// recent remembers sends by idempotency key, including those in progress, so that a repeated key is sent once.
type recent struct {
	mu    sync.Mutex
	sends map[string]*sending
	order []*sending // oldest first
	// stopped is the position at which sends of this process have stopped, by key.
	stopped map[string]string
}

// sending is one key's send; sent and err are set before done is closed.
type sending struct {
	key  string
	done chan struct{}
	sent Sent
	err  error
}

// once calls send unless key was delivered before, in which case it returns OutcomeDuplicate with the message ids of that send. A send that
// did not succeed may be tried again, and continues where it stopped.
func (r *recent) once(ctx context.Context, key string, send func(resume string) (Sent, error)) (Sent, error) {
	if key == "" {
		return send("")
	}
	for {
		s, mine := r.claim(key)
		if mine {
			s.sent, s.err = send(r.resume(key))
			if outcome := outcomeToWire(s.sent.Outcome, s.err); outcome != outcomes[OutcomeSent] && outcome != outcomes[OutcomeDuplicate] {
				r.stop(key, s.sent.Resume)
				r.forget(s)
			}
			close(s.done)
			return s.sent, s.err
		}
		select {
		case <-s.done:
		case <-ctx.Done():
			return Sent{Outcome: OutcomeUnknown}, ctx.Err()
		}
		if r.holds(key, s) {
			return Sent{Outcome: OutcomeDuplicate, MessageIDs: s.sent.MessageIDs, ThreadID: s.sent.ThreadID}, nil
		}
	}
}

// claim returns the send of key and whether the caller has to make it.
func (r *recent) claim(key string) (s *sending, mine bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s, ok := r.sends[key]; ok {
		return s, false
	}
	if r.sends == nil {
		r.sends = map[string]*sending{}
	}
	s = &sending{key: key, done: make(chan struct{})}
	r.sends[key] = s
	r.order = append(r.order, s)
	if len(r.order) > maxKeys {
		r.drop(r.order[0])
		r.order = r.order[1:]
	}
	return s, true
}

func (r *recent) resume(key string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stopped[key]
}

// stop records where a send has stopped, unless it has made no progress.
func (r *recent) stop(key, at string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at == "" {
		return
	}
	if r.stopped == nil || len(r.stopped) >= maxKeys {
		r.stopped = map[string]string{}
	}
	r.stopped[key] = at
}

func (r *recent) holds(key string, s *sending) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sends[key] == s
}

func (r *recent) forget(s *sending) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(s)
}

// drop forgets s, unless its key has been claimed again. r.mu is held.
func (r *recent) drop(s *sending) {
	if r.sends[s.key] == s {
		delete(r.sends, s.key)
	}
}
