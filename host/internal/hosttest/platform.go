package hosttest

import (
	"context"
	"errors"
	"hash/crc32"
	"net"
	"os"
	"slices"
	"sync"
	"time"
)

// Event is a message that a person sends on the platform.
type Event struct {
	ID           string
	Conversation string
	Group        bool
	Sender       string
	Text         string
	// Kind is "edit", "delete" or "reaction" of the message Target; empty for a message.
	Kind, Target string
	Files        []File
}

// Reply is a message that the platform shows.
type Reply struct {
	Key          string
	Conversation string
	ReplyTo      string
	Text         string
	// Marked is true when the host marked it as a possible duplicate.
	Marked bool
	At     time.Time
	// Draft is true for a first text that edits complete. Shown is not called for it.
	Draft bool
	Files []File
	// Link is when the connection began over which it came.
	Link time.Time
}

// PlatformConfig says what a Platform does. The functions are called one at a time, in order; they must not block.
type PlatformConfig struct {
	// Forgetful platforms do not recognise repeated keys.
	Forgetful bool
	// Spread platforms deliver each conversation over one of their connections, as a balancer of load does; others deliver everything over each.
	Spread bool
	// Shown is called with every reply that people see.
	Shown func(Reply)
	// Acked is called when the host has taken an event over, once for each.
	Acked func(id string)
}

// Platform is a fake chat platform, the other end of examples/lines-channel. It redelivers every event that was not
// acknowledged on each new connection, in order, like a platform with durable queues.
type Platform struct {
	cfg PlatformConfig
	lis net.Listener

	mu      sync.Mutex
	events  []Event
	acked   map[string]bool
	keys    map[string]bool // shown
	repeats int             // sends that were recognised as such
	latest  *peer
	linked  []*peer
	changes int // of linked
	rich    richState
	posted  chan struct{} // closed and replaced with each event, and each change of linked

	peers sync.WaitGroup
}

// NewPlatform listens on a free port.
func NewPlatform(cfg PlatformConfig) (*Platform, error) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return &Platform{
		cfg: cfg, lis: lis, acked: map[string]bool{}, keys: map[string]bool{}, rich: newRichState(), posted: make(chan struct{}),
	}, nil
}

// Address is the address that the plugin connects to.
func (p *Platform) Address() string { return p.lis.Addr().String() }

// Run serves connections until ctx ends.
func (p *Platform) Run(ctx context.Context) error {
	defer p.peers.Wait()
	defer context.AfterFunc(ctx, func() { p.lis.Close() })()
	for {
		conn, err := p.lis.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		p.peers.Go(func() { newPeer(p, conn).run(ctx) })
	}
}

// Post adds an event. It is delivered until the host has taken it over.
func (p *Platform) Post(e Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events = append(p.events, e)
	close(p.posted)
	p.posted = make(chan struct{})
}

// Repeats is the number of sends that were recognised and not shown again.
func (p *Platform) Repeats() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.repeats
}

// ErrNoPlugin is returned while no plugin is connected.
var ErrNoPlugin = errors.New("no plugin is connected")

// KillPlugin kills the plugin process whose connection is the latest, by a handle and not by a number that another process
// may have by now.
func (p *Platform) KillPlugin() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.latest == nil || p.latest.process == nil {
		return ErrNoPlugin
	}
	return p.latest.process.Signal(os.Kill)
}

// PluginPID is the id of the process whose connection is the latest; 0 while there is none.
func (p *Platform) PluginPID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.latest == nil || p.latest.process == nil {
		return 0
	}
	return p.latest.process.Pid
}

// LinkedAt is when the latest connection began; the zero time while there is none.
func (p *Platform) LinkedAt() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.latest == nil {
		return time.Time{}
	}
	return p.latest.since
}

// Disconnect breaks every connection. The plugin connects again, and gets the events that it has not acknowledged.
func (p *Platform) Disconnect() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, q := range p.linked {
		q.conn.Close()
	}
}

// Redeliver delivers the latest n events again, whether they were acknowledged or not.
func (p *Platform) Redeliver(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	again := slices.Clone(p.events[max(0, len(p.events)-n):])
	for _, e := range again {
		delete(p.acked, e.ID)
	}
	p.events = append(p.events, again...)
	close(p.posted)
	p.posted = make(chan struct{})
}

// next returns the first event for a connection from position i on that has not been acknowledged, and the position after it. Without
// one it returns a channel that is closed when there may be.
func (p *Platform) next(q *peer, i int) (e Event, after int, wait <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cfg.Spread && q.changes != p.changes {
		i, q.changes = 0, p.changes
	}
	for ; i < len(p.events); i++ {
		if !p.acked[p.events[i].ID] && p.carries(q, p.events[i]) {
			return p.events[i], i + 1, nil
		}
	}
	return Event{}, i, p.posted
}

// carries reports whether an event is delivered over a connection; p.mu is held.
func (p *Platform) carries(q *peer, e Event) bool {
	return !p.cfg.Spread || p.linked[int(crc32.ChecksumIEEE([]byte(e.Conversation)))%len(p.linked)] == q
}

func (p *Platform) ack(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.acked[id] {
		p.acked[id] = true
		if p.cfg.Acked != nil {
			p.cfg.Acked(id)
		}
	}
}

// show shows a reply unless its key was shown before and the platform remembers keys.
func (p *Platform) show(r Reply) (fresh bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.keys[r.Key] && !p.cfg.Forgetful {
		p.repeats++
		return false
	}
	p.keys[r.Key] = true
	r.At = time.Now()
	p.rich.put(r)
	if p.cfg.Shown != nil && !r.Draft {
		p.cfg.Shown(r)
	}
	return true
}

func (p *Platform) joined(q *peer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.latest = q
	p.linked = append(p.linked, q)
	p.relinked()
}

func (p *Platform) left(q *peer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.linked = slices.DeleteFunc(p.linked, func(other *peer) bool { return other == q })
	p.relinked()
	if p.latest == q {
		p.latest = nil
	}
}

// relinked has events that are not acknowledged delivered over other connections; p.mu is held.
func (p *Platform) relinked() {
	p.changes++
	close(p.posted)
	p.posted = make(chan struct{})
}
