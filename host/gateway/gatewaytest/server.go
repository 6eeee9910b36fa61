package gatewaytest

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/rest"
	"github.com/flynnhost/flynn/sdk/need"
)

// Server is a gateway before an in-memory host, for tests of clients. It can be stopped, and started again at its address.
type Server struct {
	*Backend
	URL, Token string
	// Stop stops the gateway; the host goes on.
	Stop func()

	t   testing.TB
	cfg gateway.Config
}

// Serve starts a gateway that ends with the test.
func Serve(t testing.TB, agent Agent) *Server {
	t.Helper()
	s := &Server{Backend: New(agent), t: t}
	s.cfg = gateway.Config{Listen: need.Address(t), TokenFile: filepath.Join(t.TempDir(), "token")} // that stays free while it is stopped
	s.URL = "http://" + s.cfg.Listen
	t.Cleanup(s.Close)
	s.Start()
	t.Cleanup(func() { s.Stop() })
	token, err := gateway.ReadToken(s.cfg.TokenFile)
	if err != nil {
		t.Fatal(err)
	}
	s.Token = token
	return s
}

// Start starts the gateway again.
func (s *Server) Start() {
	s.t.Helper()
	s.cfg.API = rest.New(s.Subjects(), "test", nil)
	server, err := gateway.New(s.cfg, s.Subjects())
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := server.Run(ctx); err != nil {
			s.t.Errorf("Run: %v", err)
		}
	})
	s.Stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
}

// AwaitFinal waits until the conversation main of the terminal has so many entries, of which the last ends its turn.
func (s *Server) AwaitFinal(entries int) {
	s.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		list, err := s.History(s.t.Context(), gateway.ChannelTerminal, "main", 100)
		if err != nil {
			s.t.Fatal(err)
		}
		if len(list) == entries && list[entries-1].Final() {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("the turn does not end: %+v", list)
		}
	}
}
