package process

import (
	"context"
	"strings"
	"sync"

	"github.com/flynnhost/flynn/sdk/cut"
	"github.com/flynnhost/flynn/sdk/proto/pluginv1"
)

const maxStatusText = 1 << 10 // bytes

// Board publishes the latest state. A slow reader may miss states in between, but never the last.
type Board struct {
	mu      sync.Mutex
	state   *pluginv1.StatusResponse
	changed chan struct{}
}

func newBoard() *Board {
	return &Board{
		state:   &pluginv1.StatusResponse{State: pluginv1.State_STATE_CONNECTING},
		changed: make(chan struct{}),
	}
}

// Status sets a new state.
func (b *Board) Status(s State, text string) {
	b.put(&pluginv1.StatusResponse{State: pluginv1.State(s), Text: statusText(text)})
}

func statusText(text string) string {
	return strings.ToValidUTF8(cut.Head(text, maxStatusText), "")
}

func (b *Board) put(s *pluginv1.StatusResponse) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.state = s
	close(b.changed)
	b.changed = make(chan struct{})
}

// LoginCode sets the code that a person has to scan.
func (b *Board) LoginCode(code, text string) {
	b.put(&pluginv1.StatusResponse{State: pluginv1.State_STATE_AUTH_REQUIRED, Text: statusText(text), LoginCode: utf8(code)})
}

// watch calls show with the current state and after each change.
func (b *Board) watch(ctx context.Context, show func(*pluginv1.StatusResponse) error) error {
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
