//go:build unix

package plugin

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/install/folder"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/plugin/kind"
	channelkind "github.com/flynnhost/flynn/host/plugin/kind/channel"
	"github.com/flynnhost/flynn/sdk/channel"
)

// commuter is a channel to a platform of these tests. Some of its versions are bad ones.
type commuter struct {
	version string
	config  channel.Config
	conn    net.Conn
	writing sync.Mutex
}

// The faults of a version.
const (
	badCrashes  = "2.0.0" // soon after it is ready
	badHangs    = "2.1.0" // in Configure
	badStart    = "2.2.0" // exits before its handshake
	badDescribe = "2.3.0" // says that it is another version
	badConfig   = "2.4.0" // refuses settings that the others take
	badSchema   = "2.5.0" // has a schema that does not take them
)

func (c *commuter) Describe() channel.Description {
	d := channel.Description{Name: "commuter", Version: c.version}
	switch c.version {
	case badStart:
		os.Exit(3)
	case badDescribe:
		d.Version = "9.9.9"
	}
	d.Capabilities.Exclusive = os.Args[len(os.Args)-1] == "exclusive"
	d.Capabilities.Idempotent = true
	return d
}

func (c *commuter) Configure(ctx context.Context, cfg channel.Config) error {
	c.config = cfg
	switch c.version {
	case badHangs:
		<-ctx.Done()
		select {}
	case badConfig:
		return channel.FieldErrors{{Path: "address", Message: "this version wants a port"}}
	}
	return nil
}

// Run takes over what the platform sends, and acknowledges it when the host has it.
func (c *commuter) Run(ctx context.Context, in channel.Inbox) error {
	conn, err := net.Dial("unix", c.config.Settings["address"].(string))
	if err != nil {
		return err
	}
	defer conn.Close()
	c.conn = conn
	defer context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Now()) })()
	if c.version == badCrashes {
		time.AfterFunc(100*time.Millisecond, func() { panic("the train derailed") })
	}
	c.say("receive")
	in.Status(channel.StateReady, "")
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		e := channel.Event{
			ID: lines.Text(), Text: "hello", Conversation: channel.Conversation{ID: "c", Kind: channel.DM}, Sender: channel.Sender{ID: "u"},
		}
		err := in.DeliverAsync(ctx, e, func(err error) {
			if err == nil {
				c.say("ack " + e.ID)
			}
		})
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
	<-ctx.Done()
	return nil
}

func (c *commuter) say(line string) {
	c.writing.Lock()
	defer c.writing.Unlock()
	_, _ = fmt.Fprintln(c.conn, line)
}

func (c *commuter) Send(_ context.Context, s channel.Send) (channel.Sent, error) {
	conn, err := net.Dial("unix", c.config.Settings["address"].(string))
	if err != nil {
		return channel.Sent{Outcome: channel.OutcomeNotSent}, err
	}
	defer conn.Close()
	_, _ = fmt.Fprintln(conn, "send", s.Key)
	if _, err := bufio.NewReader(conn).ReadString('\n'); err != nil {
		return channel.Sent{Outcome: channel.OutcomeUnknown}, err
	}
	return channel.Sent{MessageIDs: []string{s.Key}}, nil
}

// platform sends every message until it is acknowledged, on each connection anew, as chat platforms do.
type platform struct {
	address string
	lis     net.Listener
	serving sync.WaitGroup

	mu        sync.Mutex
	waiting   []string // not acknowledged, oldest first
	listeners map[net.Conn]chan string
	most      int            // listeners at a time
	sends     map[string]int // by key
}

func newPlatform(t testing.TB) *platform {
	t.Helper()
	dir, err := os.MkdirTemp("", "fp")
	if err != nil {
		t.Fatal(err)
	}
	p := &platform{address: filepath.Join(dir, "s"), listeners: map[net.Conn]chan string{}, sends: map[string]int{}}
	if p.lis, err = net.Listen("unix", p.address); err != nil {
		t.Fatal(err)
	}
	p.serving.Go(p.serve)
	t.Cleanup(func() {
		_ = p.lis.Close()
		p.mu.Lock()
		for c := range p.listeners {
			_ = c.Close()
		}
		p.mu.Unlock()
		p.serving.Wait()
		_ = os.RemoveAll(dir)
	})
	return p
}

func (p *platform) serve() {
	for {
		conn, err := p.lis.Accept()
		if err != nil {
			return
		}
		p.serving.Go(func() { p.talk(conn) })
	}
}

func (p *platform) talk(conn net.Conn) {
	defer conn.Close()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if out := p.listeners[conn]; out != nil {
			close(out)
		}
		delete(p.listeners, conn)
	}()
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		word, rest, _ := strings.Cut(lines.Text(), " ")
		p.mu.Lock()
		switch word {
		case "receive":
			out := make(chan string, 1<<16)
			p.serving.Go(func() { p.write(conn, out) })
			p.listeners[conn] = out
			p.most = max(p.most, len(p.listeners))
			for _, id := range p.waiting {
				out <- id
			}
		case "ack":
			p.waiting = slices.DeleteFunc(p.waiting, func(id string) bool { return id == rest })
		case "send":
			p.sends[rest]++
			_, _ = fmt.Fprintln(conn, "ok")
		}
		p.mu.Unlock()
	}
}

// post makes the platform send a message.
func (p *platform) post(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting = append(p.waiting, id)
	for _, out := range p.listeners {
		out <- id
	}
}

// answered is how many messages have an answer.
func (p *platform) answered() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.sends)
}

// write sends on beside the reading of acknowledgements: neither waits for the other.
func (p *platform) write(conn net.Conn, out chan string) {
	for id := range out {
		_, _ = fmt.Fprintln(conn, id)
	}
}

// most is how many messages of a rush are without an answer at a time: what a busy machine does not come to would pile up.
const most = 200

// rush posts a message each while, until stop is called, which returns how many there were.
func (p *platform) rush(each time.Duration) (stop func() int) {
	quit, done := make(chan struct{}), make(chan int)
	go func() {
		tick := time.NewTicker(each)
		defer tick.Stop()
		for n := 0; ; {
			select {
			case <-quit:
				done <- n
				return
			case <-tick.C:
				if n-p.answered() < most {
					p.post(fmt.Sprint("m", n))
					n++
				}
			}
		}
	}()
	return func() int { close(quit); return <-done }
}

// station is a handler that keeps events and answers each of them once, as the inbox and the outbox do.
type station struct {
	mu       sync.Mutex
	taken    map[string]time.Time // by event id
	times    []time.Time          // of new events
	repeats  int
	pending  []string // keys to send
	changed  chan struct{}
	handlers int // at work
	together int // most of them at a time
}

func newStation() *station {
	return &station{taken: map[string]time.Time{}, changed: make(chan struct{}, 1)}
}

func (s *station) Serve(ctx context.Context, conn *kind.Conn) error {
	c := channelkind.NewClient(conn)
	s.enter(1)
	defer s.enter(-1)
	sending, stop := context.WithCancel(ctx)
	var sender sync.WaitGroup
	sender.Go(func() { s.send(sending, c) })
	defer sender.Wait()
	defer stop()
	return c.Receive(ctx, 32, func(e channelkind.Event, done func(error)) {
		s.take(e.Message.EventID)
		done(nil)
	})
}

func (s *station) enter(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handlers += n
	s.together = max(s.together, s.handlers)
}

func (s *station) take(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.taken[id]; ok {
		s.repeats++
		return
	}
	s.taken[id] = time.Now()
	s.times = append(s.times, s.taken[id])
	s.pending = append(s.pending, "r-"+id)
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// send answers until ctx ends. A send that is under way then is finished.
func (s *station) send(ctx context.Context, c *channelkind.Client) {
	for ctx.Err() == nil {
		s.mu.Lock()
		var key string
		if len(s.pending) > 0 {
			key = s.pending[0]
		}
		s.mu.Unlock()
		if key == "" {
			select {
			case <-s.changed:
			case <-ctx.Done():
			}
			continue
		}
		out, _ := c.Send(ctx, message.Reply{Key: key, Conversation: message.Conversation{ID: "c", Kind: message.DM}, Text: "hi"})
		if out.Outcome == message.Sent || out.Outcome == message.Duplicate {
			s.mu.Lock()
			s.pending = s.pending[1:]
			s.mu.Unlock()
		}
	}
}

// gap is the longest time without a new event since begin.
func (s *station) gap(begin time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	var longest time.Duration
	for last, i := begin, 0; i < len(s.times); i++ {
		if s.times[i].After(begin) {
			longest, last = max(longest, s.times[i].Sub(last)), s.times[i]
		}
	}
	return longest
}

// settled waits until every message was taken, acknowledged and answered.
func (s *station) settled(t testing.TB, p *platform, n int) {
	t.Helper()
	var left, taken, waiting int
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) { // a poll, not a synchronisation
		s.mu.Lock()
		left, taken = len(s.pending), len(s.taken)
		s.mu.Unlock()
		p.mu.Lock()
		waiting = len(p.waiting)
		p.mu.Unlock()
		if left == 0 && taken == n && waiting == 0 {
			return
		}
	}
	t.Fatalf("of %d messages %d were taken; %d answers are left, %d acknowledgements", n, taken, left, waiting)
}

// install puts a version of the commuter into the store.
func installCommuter(t testing.TB, s *Store, version string, exclusive bool, o Options) {
	t.Helper()
	kind := "parallel"
	if exclusive {
		kind = "exclusive"
	}
	limit := "40s"
	if version == badHangs {
		limit = "12s" // to start, which must not be what takes too long, and to configure
	}
	dir := makePack(t, "x", packOptions{schema: `{"required":["port"]}`})
	manifest := fmt.Sprintf(`manifest = 1
name = "commuter"
version = %q
kinds = ["channel"]
protocols = [1]
exec = { any = ["bin/actor", "plugin:commuter@%s", %q] }
run = { tls = "none", start_timeout = %q, stop_timeout = "1m" }
channel = { exclusive = %t, idempotent = true }
`, version, version, kind, limit, exclusive)
	if version == badSchema {
		manifest += "config = { schema = \"settings.json\" }\n"
	}
	if err := os.WriteFile(filepath.Join(dir, ManifestName), []byte(manifest), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := s.InstallFolder(dir, o); err != nil {
		t.Fatal(err)
	}
}

// commute starts a host with one instance of the commuter 1.0.0, which has 1.1.0 installed beside it. Another version has proof to prove
// itself.
func commute(t testing.TB, exclusive bool, proof time.Duration, adjust ...func(*Host)) (*stage, *platform, *station) {
	t.Helper()
	s := startPrepared(t, nil, Containment{}, func(h *Host) {
		h.timeouts.proof = proof
		for _, f := range adjust {
			f(h)
		}
	})
	t.Cleanup(func() { _ = folder.Remove(s.store.versions.Dir) })
	p, st := newPlatform(t), newStation()
	installCommuter(t, s.store, "1.1.0", exclusive, Options{})
	installCommuter(t, s.store, "1.0.0", exclusive, Options{})
	s.add(Instance{Name: "line", Plugin: "commuter", Settings: map[string]any{"address": p.address}}, st)
	s.await("line", Ready)
	return s, p, st
}

// move proposes a version and waits for the outcome of the host.
func (s *stage) move(version string) error {
	s.t.Helper()
	if err := s.store.Propose("commuter", version); err != nil {
		s.t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) { // a poll, not a synchronisation
		r, err := s.store.Record("commuter")
		if err != nil {
			s.t.Fatal(err)
		}
		if r.Next != "" {
			continue
		}
		if r.Active == version {
			return nil
		}
		if len(r.Rejected) > 0 && r.Rejected[0].Version == version {
			return errors.New(r.Rejected[0].Why)
		}
	}
	s.t.Fatalf("no outcome of %s\nhost log:\n%s", version, s.log)
	return nil
}
