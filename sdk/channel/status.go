package channel

import (
	"context"
	"strings"
	"sync"

	"github.com/flynnhost/flynn/sdk/proto/pluginv1"
)

const maxStatusText = 1 << 10 // bytes

// board shows the latest state; who reads slowly misses the ones between, never the last.
type board struct {
	mu      sync.Mutex
	state   *pluginv1.StatusResponse
	changed chan struct{}
}

func newBoard() *board {
	return &board{
		state:   &pluginv1.StatusResponse{State: pluginv1.State_STATE_CONNECTING},
		changed: make(chan struct{}),
	}
}

// Status puts up a new state.
func (b *board) Status(s State, text string) {
	text = strings.ToValidUTF8(text[:min(len(text), maxStatusText)], "")
	b.mu.Lock()
	defer b.mu.Unlock()
	b.state = &pluginv1.StatusResponse{State: pluginv1.State(s), Text: text}
	close(b.changed)
	b.changed = make(chan struct{})
}

// watch calls show with the state now and after each change.
func (b *board) watch(ctx context.Context, show func(*pluginv1.StatusResponse) error) error {
	for {
		b.mu.Lock()
		state, changed := b.state, b.changed
		b.mu.Unlock()
		if err := show(state); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}
