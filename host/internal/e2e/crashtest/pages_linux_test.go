package crashtest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/internal/hosttest"
	"github.com/flynnhost/flynn/host/message"
)

// page shows a conversation of the platform as the console of a host does. It connects again whenever it is cut off.
type page struct {
	host         *hosttest.Program
	conversation string

	mu      sync.Mutex
	replies map[string]string // texts of answers by their keys, since the last history
	wrong   []string
	deltas  int // parts of answers that were shown while these were written
	changed chan struct{}
}

// pageOn opens a page until the test ends.
func pageOn(t *testing.T, host *hosttest.Program, conversation string) *page {
	v := &page{host: host, conversation: conversation, replies: map[string]string{}, changed: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	var over sync.WaitGroup
	over.Go(func() {
		for ctx.Err() == nil {
			v.once(ctx)
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	})
	t.Cleanup(func() { cancel(); over.Wait() })
	return v
}

// silentPage is how long a page hears nothing, not even a ping, before it connects again.
const silentPage = 2 * gateway.PingInterval

// once shows the conversation until the connection ends.
func (v *page) once(ctx context.Context) {
	token, err := os.ReadFile(filepath.Join(v.host.Dir, "store", "gateway.token"))
	if err != nil {
		return // the host has yet to start
	}
	dialing, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	conn, _, err := websocket.Dial(dialing, strings.Replace(v.host.URL, "http", "ws", 1)+gateway.SocketPath, &websocket.DialOptions{Subprotocols: []string{gateway.Subprotocol}})
	if err != nil {
		return
	}
	defer conn.CloseNow()
	conn.SetReadLimit(-1)
	hello, err := json.Marshal(gateway.ClientFrame{Type: gateway.TypeHello, Token: strings.TrimSpace(string(token)), Channel: "platform", Conversation: v.conversation})
	if err != nil || conn.Write(dialing, websocket.MessageText, hello) != nil {
		return
	}
	for {
		reading, done := context.WithTimeout(ctx, silentPage)
		_, data, err := conn.Read(reading)
		done()
		if err != nil {
			return
		}
		v.take(data)
	}
}

// take shows a frame: a history replaces what is shown.
func (v *page) take(data []byte) {
	v.mu.Lock()
	defer v.mu.Unlock()
	var f gateway.ServerFrame
	switch err := json.Unmarshal(data, &f); {
	case err != nil:
		v.wrong = append(v.wrong, err.Error())
	case f.Type == gateway.TypeHistory:
		clear(v.replies)
		for _, e := range f.Entries {
			v.show(e.Key, e.Text)
		}
	case f.Type == gateway.TypeEvent && f.Event.Kind == message.TextDelta:
		v.deltas++
	case f.Type == gateway.TypeEvent && f.Event.Kind == message.ReplyReady:
		v.show(f.Event.Key, f.Event.Text)
	}
}

// show shows an answer, which must not be there under another key; v.mu is held. A page knows an answer that comes again by its key.
func (v *page) show(key, text string) {
	if _, again := v.replies[key]; !again && strings.HasPrefix(text, "You said:") {
		for other, shown := range v.replies {
			if shown == text {
				v.wrong = append(v.wrong, fmt.Sprintf("%q is shown as %s and %s", text, other, key))
			}
		}
	}
	v.replies[key] = text
	close(v.changed)
	v.changed = make(chan struct{})
}

// has reports whether the answer to a message is shown, and returns what is closed when it may be.
func (v *page) has(id int) (bool, <-chan struct{}) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, text := range v.replies {
		if strings.Contains(text, tag(id)) {
			return true, nil
		}
	}
	return false, v.changed
}

// live returns how many parts of answers were shown while these were written.
func (v *page) live() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.deltas
}

// latestIn returns the message of a conversation that was answered last with a text that names it; 0 if none was.
func (l *journal) latestIn(conversation string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range slices.Backward(l.replies) {
		if r.Conversation != conversation {
			continue
		}
		if ms := l.answeredBy(r); len(ms) > 0 && !ms[0].kind.tool() {
			return ms[0].id
		}
	}
	return 0
}
