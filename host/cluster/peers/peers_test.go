package peers

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/flynnhost/flynn/host/internal/selfsigned"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// town is a store that knows some hosts, the first of which owns everything.
type town struct {
	mu    sync.Mutex
	peers []store.Peer
	fails error
}

func (s *town) Peers(context.Context) ([]store.Peer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.peers), s.fails
}

func (s *town) Owner(context.Context, store.OwnerKey) (store.Owner, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return store.Owner{Host: "a", Incarnation: "1"}, s.fails
}

func (s *town) set(peers ...store.Peer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.peers = peers
}

// stage is what happens at the owner.
type stage struct {
	mu     sync.Mutex
	holds  bool
	told   []message.Event
	events chan message.Event
	said   []message.Event
}

func (s *stage) Holds(store.OwnerKey) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.holds
}

func (s *stage) set(holds bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holds = holds
}

func (s *stage) Local(channel, id string) ([]message.Event, <-chan message.Event, func()) {
	return s.told, s.events, func() {}
}

func (s *stage) Publish(e message.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said = append(s.said, e)
}

const talk = message.ConversationKey("irc:#flynn/é:x")

func delta(text string) message.Event {
	return message.Event{Kind: message.TextDelta, Channel: "irc", Conversation: "#flynn/é:x", Turn: "t", Agent: "a", Text: text}
}

// host starts a host of a town.
func (s *town) host(t testing.TB, name string, v *stage) *Network {
	n, err := New(Config{Listen: "127.0.0.1:0", Store: s, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- n.Run(ctx, v, v) }()
	t.Cleanup(func() {
		stop()
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
	return n
}

// of is what a town knows of a host.
func of(n *Network, name string) store.Peer {
	address, fingerprint := n.Self()
	return store.Peer{Host: name, Incarnation: "1", Address: address, Fingerprint: fingerprint}
}

// two returns an owner and another host.
func two(t testing.TB) (s *town, v *stage, a, b *Network) {
	s, v = &town{}, &stage{holds: true, events: make(chan message.Event, 256)}
	a, b = s.host(t, "a", v), s.host(t, "b", &stage{})
	s.set(of(a, "a"), of(b, "b"))
	return s, v, a, b
}

func join(t *testing.T, n *Network) Stream {
	t.Helper()
	s, err := n.Join(t.Context(), talk)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// next returns the next event, without beats.
func next(t *testing.T, s Stream) message.Event {
	t.Helper()
	for {
		e, lost, err := s.Next()
		switch {
		case err != nil:
			t.Fatal(err)
		case lost:
			return message.Event{Kind: "lost"}
		case e != nil:
			return *e
		}
	}
}

func TestWatchersSeeWhatHappens(t *testing.T) {
	_, v, _, b := two(t)
	begin := delta("")
	begin.Kind, begin.Answers = message.TurnStarted, []string{"é"}
	v.told = []message.Event{begin, delta(strings.Repeat("é", maxText))}
	s := join(t, b)
	past := ""
	if got := s.Past(); len(got) < 2 || !reflect.DeepEqual(got[0], begin) {
		t.Fatalf("the past is %d events", len(got))
	}
	for _, e := range s.Past()[1:] {
		past += e.Text
	}
	if past != v.told[1].Text {
		t.Errorf("the text has %d bytes, want %d", len(past), len(v.told[1].Text))
	}
	call := delta("")
	call.Kind, call.Call, call.Args, call.Reasons = message.ToolCall, "c", []byte(`{"a":[1,"é"]}`), []string{"why"}
	for _, e := range []message.Event{delta("one"), call, delta("\x00\u2028🦆")} {
		v.events <- e
		if got := next(t, s); !reflect.DeepEqual(got, e) {
			t.Errorf("got %+v, want %+v", got, e)
		}
	}
	large := delta(strings.Repeat("x", maxFrame))
	large.Kind = message.ReplyReady
	v.events <- large
	if got := next(t, s); got.Kind != "lost" {
		t.Errorf("an event that is too large comes as %s", got.Kind)
	}
	if !s.Owned(t.Context()) {
		t.Error("the owner is another one")
	}
	v.set(false)
	for { // beats may be under way
		if _, _, err := s.Next(); err != nil {
			if !strings.Contains(err.Error(), notOwned) {
				t.Errorf("it ends with %v", err)
			}
			break
		}
	}
	if _, err := b.Join(t.Context(), talk); err == nil || !strings.Contains(err.Error(), notOwned) {
		t.Errorf("a host that does not own it: %v", err)
	}
}

func TestCommandsAreTold(t *testing.T) {
	_, v, a, b := two(t)
	e := delta("Stopping.")
	e.Kind = message.ReplyReady
	if err := b.Tell(t.Context(), talk, []message.Event{e}); err != nil {
		t.Fatal(err)
	}
	if len(v.said) != 1 || !reflect.DeepEqual(v.said[0], e) {
		t.Errorf("said is %+v", v.said)
	}
	if err := b.Tell(t.Context(), talk, []message.Event{delta("an answer of somebody else's")}); err == nil {
		t.Error("a part of an answer was told")
	}
	if err := b.Tell(t.Context(), talk, slices.Repeat([]message.Event{e}, maxTold+1)); err == nil {
		t.Error("too many events were told")
	}
	v.set(false)
	if err := b.Tell(t.Context(), talk, []message.Event{e}); err == nil {
		t.Error("one that does not own it was told")
	}
	if err := a.Tell(t.Context(), talk, []message.Event{e}); !errors.Is(err, errNobody) {
		t.Errorf("the owner tells itself: %v", err)
	}
	if len(v.said) != 1 {
		t.Errorf("said is %+v", v.said)
	}
}

// A watcher that reads nothing is cut off, and what it watches does not wait.
func TestASlowWatcherIsCutOff(t *testing.T) {
	t.Parallel()
	_, v, _, b := two(t)
	s := join(t, b)
	text := strings.Repeat("x", maxText)
	late, sent := time.After(30*time.Second), 0
	for full := false; !full; {
		select {
		case v.events <- delta(text): // the hub would not wait
			sent++
		case <-time.After(writeTimeout + time.Second):
			full = true
		case <-late:
			t.Fatal("the watcher reads on and on")
		}
	}
	close(v.events) // as the hub does
	got := 0
	for {
		if e, _, err := s.Next(); err != nil {
			break
		} else if e != nil {
			got++
		}
	}
	if got >= sent {
		t.Errorf("all %d events arrived", sent)
	}
}

// Only a host that is alive, in its current incarnation, is accepted and dialed.
func TestOtherKeysAreRefused(t *testing.T) {
	s, v, a, b := two(t)
	ofA, ofB := of(a, "a"), of(b, "b")
	refused := func(what, why string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", what, err)
		}
	}
	held := join(t, b)
	s.set(ofA)
	_, err := b.Join(t.Context(), talk)
	refused("a host that is not alive", "no host which is alive", err)
	refused("its ping", "no host which is alive", b.ping(t.Context(), ofA))
	a.keep([]store.Peer{ofA})
	for err = nil; err == nil; {
		_, _, err = held.Next()
	}
	refused("the connection that it had", "", err)

	again := s.host(t, "a", v) // a new incarnation, at another address
	s.set(of(again, "a"), ofB)
	old := ofA
	old.Address = of(again, "a").Address
	refused("a key of an earlier incarnation", "another program or host", b.ping(t.Context(), old))
	refused("a host of another incarnation", "no host which is alive", a.ping(t.Context(), of(again, "a")))
	if err := b.ping(t.Context(), of(again, "a")); err != nil {
		t.Errorf("the new one: %v", err)
	}
	s.mu.Lock()
	s.peers[0].Incarnation = "2"
	s.mu.Unlock()
	_, err = b.Join(t.Context(), talk)
	refused("an owner of another incarnation", errNobody.Error(), err)
	s.mu.Lock()
	s.fails = errors.New("away")
	s.mu.Unlock()
	refused("while the store is away", "the store cannot be read", b.ping(t.Context(), of(again, "a")))

	// Anything that does not prove a key does not get as far.
	cert, err := selfsigned.New("x", "x", x509.ExtKeyUsageClientAuth)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]*tls.Config{
		"no certificate":   {NextProtos: []string{protocol}},
		"another protocol": {NextProtos: []string{"h2"}, Certificates: []tls.Certificate{cert}},
		"TLS 1.2":          {NextProtos: []string{protocol}, Certificates: []tls.Certificate{cert}, MaxVersion: tls.VersionTLS12},
		"a stranger":       {NextProtos: []string{protocol}, Certificates: []tls.Certificate{cert}},
	} {
		c.InsecureSkipVerify = true
		conn, err := tls.Dial("tcp", of(again, "a").Address, c)
		if err != nil {
			continue
		}
		conn.SetDeadline(time.Now().Add(30 * time.Second))
		conn.Write(appendFrame(nil, ping, nil))
		if f, err := readFrame(conn); err == nil && f.kind != refusal {
			t.Errorf("%s: the answer is %q", name, f.kind)
		}
		conn.Close()
	}
}

// Those that say nothing keep no host out.
func TestSilentConnectionsKeepNobodyOut(t *testing.T) {
	_, _, a, b := two(t)
	for range 3 * maxHalf {
		c, err := net.Dial("tcp", of(a, "a").Address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	if err := b.ping(t.Context(), of(a, "a")); err != nil {
		t.Error(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.half) > maxHalf {
		t.Errorf("%d connections are kept", len(a.half))
	}
}

func TestReachIsKnown(t *testing.T) {
	s, _, a, b := two(t)
	gone := of(a, "gone")
	gone.Address, gone.Fingerprint = "127.0.0.1:1", "f"
	all := []store.Peer{of(a, "a"), of(b, "b"), gone}
	s.set(all...)
	b.look(t.Context(), all)
	if _, problem, known := b.Reach("a"); !known || problem != "" {
		t.Errorf("a: %q, %t", problem, known)
	}
	if _, _, known := b.Reach("b"); known {
		t.Error("it looks at itself")
	}
	if at, problem, known := b.Reach("gone"); !known || at != gone.Address || problem == "" {
		t.Errorf("gone: %q, %q, %t", at, problem, known)
	}
}

func TestWithoutAnAddressThereIsNoWay(t *testing.T) {
	n, err := New(Config{Store: &town{}})
	if err != nil {
		t.Fatal(err)
	}
	address, fingerprint := n.Self()
	if n.On() || address != "" || fingerprint != "" {
		t.Errorf("it is on: %q, %q", address, fingerprint)
	}
	if _, err := n.dial(t.Context(), store.Peer{}, ping, nil); !errors.Is(err, errNobody) {
		t.Error(err)
	}
	n.Close()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	if _, err := New(Config{Listen: taken.Addr().String()}); err == nil || !strings.Contains(err.Error(), "[cluster] listen") {
		t.Errorf("an address that is taken: %v", err)
	}
	n, err = New(Config{Listen: "127.0.0.1:0", Advertise: "a.example.com:7650"})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	if address, _ := n.Self(); address != "a.example.com:7650" {
		t.Errorf("it is dialed at %q", address)
	}
}

// rogue is a host that the store knows, and that answers whatever it likes.
func rogue(t *testing.T, s *town, b *Network, answers func(c net.Conn)) {
	n, err := New(Config{Listen: "127.0.0.1:0", Store: s})
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	work.Go(func() {
		for {
			plain, err := n.net.Accept()
			if err != nil {
				return
			}
			work.Go(func() {
				defer plain.Close()
				plain.SetDeadline(time.Now().Add(30 * time.Second))
				c := tls.Server(plain, n.settings())
				if _, err := readFrame(c); err == nil {
					answers(c)
				}
			})
		}
	})
	t.Cleanup(func() { n.Close(); work.Wait() })
	s.set(of(n, "a"), of(b, "b"))
}

// A host that was taken over can end the connections with it, and nothing else.
func TestAHostileHostIsCutOff(t *testing.T) {
	event1 := func(e message.Event) []byte { return appendEvent(nil, e) }
	raw := func(k kind, body string) []byte { return appendFrame(nil, k, []byte(body)) }
	huge := binary.BigEndian.AppendUint32([]byte{byte(event)}, 1<<31)
	noise := make([]byte, 1<<16)
	rand.Read(noise)
	for name, c := range map[string]struct {
		first   []byte
		endless []byte
	}{
		"noise":                   {first: noise},
		"endless noise":           {endless: noise},
		"nothing":                 {},
		"a frame that is too big": {first: huge},
		"another kind":            {first: raw('x', "")},
		"beats before it begins":  {endless: raw(beat, "")},
		"an endless past":         {endless: event1(delta(strings.Repeat("x", maxText)))},
		"a past of many events":   {endless: event1(delta(""))},
		"gaps without end":        {endless: raw(gap, "")},
		"a broken event":          {first: append(raw(ok, ""), raw(event, `{"kind":"text_delta"`)...)},
		"two values":              {first: append(raw(ok, ""), raw(event, `{"kind":"said"}{}`)...)},
		"an unknown key":          {first: append(raw(ok, ""), raw(event, `{"kind":"said","by":"x"}`)...)},
		"another conversation":    {first: append(raw(ok, ""), raw(event, `{"kind":"said","conversation":"other"}`)...)},
		"an unknown event":        {first: append(raw(ok, ""), raw(event, `{"kind":"grant"}`)...)},
		"an event of no turn":     {first: append(raw(ok, ""), raw(event, `{"kind":"text_delta"}`)...)},
		"a long name":             {first: append(raw(ok, ""), raw(event, `{"kind":"said","key":"`+strings.Repeat("k", maxName+1)+`"}`)...)},
		"a long list":             {first: append(raw(ok, ""), raw(event, `{"kind":"said","files":[`+strings.Repeat(`"",`, maxList)+`""]}`)...)},
		"silence":                 {first: raw(ok, "")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &town{}
			b := s.host(t, "b", &stage{})
			rogue(t, s, b, func(conn net.Conn) {
				conn.Write(c.first)
				for c.endless != nil {
					if _, err := conn.Write(c.endless); err != nil {
						return
					}
				}
				if name != "nothing" {
					io.Copy(io.Discard, conn)
				}
			})
			began := time.Now()
			stream, err := b.Join(t.Context(), talk)
			if err == nil {
				for err == nil {
					_, _, err = stream.Next()
				}
				stream.Close()
			}
			if took := time.Since(began); took > 2*handshake+10*time.Second {
				t.Errorf("it took %s: %v", took, err)
			}
		})
	}
}

// FuzzFrames reads frames as either end does: what is accepted is bounded, and comes out as it went in.
func FuzzFrames(f *testing.F) {
	f.Add(appendEvent(nil, delta("é")))
	f.Add(appendFrame(appendEvent(nil, delta(strings.Repeat("x", 100))), ok, nil))
	f.Add(appendFrame(nil, watch, []byte(`{"channel":"irc","conversation":"x"}`)))
	f.Add(appendFrame(nil, refusal, []byte(notOwned)))
	f.Add([]byte{byte(event), 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, data []byte) {
		r := bytes.NewReader(data)
		for {
			fr, err := readFrame(r)
			if err != nil {
				break
			}
			if len(fr.body) > maxFrame {
				t.Fatalf("a frame has %d bytes", len(fr.body))
			}
			if p, err := readPlace(fr.body); err == nil && (p.Channel == "" || p.Conversation == "") {
				t.Fatalf("a conversation is %+v", p)
			}
			e, err := readEvent(fr.body, placeOf(talk))
			if err != nil {
				continue
			}
			if message.NewConversationKey(e.Channel, e.Conversation) != talk {
				t.Fatalf("an event is of %s:%s", e.Channel, e.Conversation)
			}
			all, err := readEvents(bytes.NewReader(appendFrame(appendEvent(nil, e), ok, nil)), placeOf(talk), maxPastEvents)
			if err != nil {
				t.Fatal(err)
			}
			text := ""
			for _, v := range all {
				text += v.Text
			}
			if len(all) > 0 && (text != e.Text || all[0].Kind != e.Kind || all[0].Turn != e.Turn) {
				t.Fatalf("%+v came back as %+v", e, all)
			}
		}
		readEvents(bytes.NewReader(data), placeOf(talk), 3)
	})
}

func BenchmarkEvent(b *testing.B) {
	e := delta("about as much as a model says at a time")
	var buf []byte
	for b.Loop() {
		buf = appendEvent(buf[:0], e)
		f, err := readFrame(bytes.NewReader(buf))
		if err == nil {
			_, err = readEvent(f.body, placeOf(talk))
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
