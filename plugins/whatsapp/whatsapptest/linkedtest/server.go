// Package linkedtest is WhatsApp as a linked device sees it, on loopback, for tests: the server with its wire format, the phone of the
// account, and the people who write to it.
//
// The protocol is the real one: a WebSocket over TLS, the Noise handshake with a chain of certificates, frames of binary XML, linking by
// the code that the device shows, login, keys, messages in Signal's encryption, receipts, and a host for encrypted media. The
// client under test is go.mau.fi/whatsmeow as it is. It finds the fake by the HTTP client that HTTPClient returns, and believes it once
// whatsmeow.WACertPubKey is Root, which nothing but a test does.
//
// Begin with Start. Scan is what the phone does with a code; Person makes somebody who writes and reads; Group puts people together. A message is
// kept and sent again after each login until the device has confirmed it. Drop, Remove, Refuse, TurnAway and the like are what goes wrong.
//
// Not spoken: the history and the settings that a phone shares after linking, linking by a number, groups that are addressed by numbers,
// notifications (of devices, groups, names), presence of people, calls, status, newsletters, communities, business accounts, and every question
// that the client does not ask here. How WhatsApp itself behaves is not documented; what is modelled is what the client relies on, and a
// client that does anything else fails the test.
package linkedtest

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"github.com/coder/websocket"
	"go.mau.fi/whatsmeow/binary"
	"go.mau.fi/whatsmeow/types"
	"go.mau.fi/whatsmeow/util/keys"

	"github.com/flynnhost/flynn/sdk/plugintest/platform"
)

// The account by its two names.
const (
	Number = "4930111"
	Hidden = "900"
)

const (
	chatHost  = "web.whatsapp.com"
	mediaHost = "mmg.whatsapp.net"
	origin    = "https://" + chatHost
)

// Server is the fake.
type Server struct {
	t      testing.TB
	http   *httptest.Server
	static *keys.KeyPair // of the Noise handshake
	ctx    context.Context
	stop   context.CancelFunc
	work   sync.WaitGroup
	media  mediaStore

	mu         platform.State
	conns      map[*conn]bool
	phone      *Person // of the account
	devices    map[uint16]*device
	lastDevice uint16
	people     []*Person
	groups     map[types.JID]*group
	last       int // number of the latest id
	logins     int
	turnAway   []binary.Node // answers to the next logins
	refuse     []int         // codes of the answers to the next messages
	abrupt     bool          // the connection breaks right after the next linking
	swallow    int           // answers that are not given
	oldest     [3]uint32     // version that is still taken
	typing     []string
	wrong      []string
}

// Start runs a fake until the end of the test, which fails when the client has broken the protocol and Wrong has not asked for it.
func Start(t testing.TB) *Server {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	s := &Server{
		t: t, static: keys.NewKeyPair(), ctx: ctx, stop: stop, conns: map[*conn]bool{}, devices: map[uint16]*device{}, lastDevice: 6,
		groups: map[types.JID]*group{},
	}
	s.phone = s.newPerson(Number, Hidden, "Flynn's owner")
	s.people = append(s.people, s.phone)
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+chatHost+"/ws/chat", s.chat)
	mux.HandleFunc("POST "+mediaHost+"/mms/{kind}/{token}", s.media.put)
	mux.HandleFunc("GET "+mediaHost+"/v/", s.media.get)
	s.http = httptest.NewTLSServer(mux)
	t.Cleanup(func() {
		s.Close()
		for _, w := range s.Wrong() {
			t.Errorf("linkedtest: %s", w)
		}
	})
	return s
}

// HTTPClient goes to the fake, whatever the address, and trusts nobody else. The fake's certificate is that of net/http/httptest, for example.com.
func (s *Server) HTTPClient() *http.Client {
	way := s.http.Client().Transport.(*http.Transport).Clone()
	way.DisableKeepAlives, way.TLSClientConfig.ServerName = true, "example.com"
	way.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", s.http.Listener.Addr().String())
	}
	return &http.Client{Transport: way}
}

// Close ends the server; further calls do nothing.
func (s *Server) Close() {
	s.stop()
	s.Drop()
	s.http.CloseClientConnections()
	s.http.Close()
	s.work.Wait()
}

// chat takes a connection of a client.
func (s *Server) chat(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Origin") != origin {
		s.refused(fmt.Errorf("a client of %q", r.Header.Get("Origin")))
		http.Error(w, "wrong origin", http.StatusForbidden)
		return
	}
	s.work.Add(1)
	defer s.work.Done()
	ws, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	ws.SetReadLimit(maxFrame + 64)
	c := newConn(s.ctx, ws)
	defer c.cut()
	s.mu.Lock()
	s.conns[c] = true
	s.mu.Unlock()
	s.serve(s.ctx, c)
}

// gone forgets a connection.
func (s *Server) gone(c *conn) {
	defer s.mu.Change()()
	close(c.done)
	delete(s.conns, c)
	if c.device != nil && c.device.conn == c {
		c.device.conn = nil
	}
}

// Await waits until ok, which is asked whenever something has changed here.
func (s *Server) Await(what string, ok func() bool) {
	s.t.Helper()
	s.mu.Until(s.t, what, ok)
}

// refused records a connection that failed.
func (s *Server) refused(err error) {
	defer s.mu.Change()()
	s.complain("%v", err)
}

// complain records that the client broke the protocol. s.mu is held.
func (s *Server) complain(format string, args ...any) {
	s.wrong = append(s.wrong, fmt.Sprintf(format, args...))
}

// Wrong returns what clients have done against the protocol since it was last asked.
func (s *Server) Wrong() []string {
	defer s.mu.Change()()
	wrong := s.wrong
	s.wrong = nil
	return wrong
}

// Linked reports whether the phone has a linked device.
func (s *Server) Linked() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.devices) > 0
}

// Online reports whether a linked device is connected and has taken what waited for it.
func (s *Server) Online() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.devices {
		if d.conn != nil && d.conn.active {
			return true
		}
	}
	return false
}

// Logins counts the logins that were taken.
func (s *Server) Logins() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logins
}

// Typing lists what the device showed to people, such as "4915112345678 composing".
func (s *Server) Typing() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.typing)
}

// nextID makes the id of a message or a question. s.mu is held.
func (s *Server) nextID() string {
	s.last++
	return fmt.Sprintf("3A%018X", s.last)
}

// jidOf reads an attribute that is an address.
func jidOf(n *binary.Node, name string) types.JID {
	j, _ := n.Attrs[name].(types.JID)
	return j
}

func text(n *binary.Node, name string) string {
	v, _ := n.Attrs[name].(string)
	return v
}

// childOf returns the child at a path, or an empty stanza.
func childOf(n *binary.Node, path ...string) binary.Node {
	if child, ok := n.GetOptionalChildByTag(path...); ok {
		return child
	}
	return binary.Node{}
}

// bytesOf returns the content of the child at a path.
func bytesOf(n *binary.Node, path ...string) []byte {
	child := childOf(n, path...)
	b, _ := child.Content.([]byte)
	return b
}
