package gateway_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/gatewaytest"
	"github.com/flynnhost/flynn/host/gateway/rest"
	"github.com/flynnhost/flynn/sdk/need"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(closing{m}) }

// closing ends the browser behind the tests.
type closing struct{ *testing.M }

// Run implements goleak.TestingM.
func (m closing) Run() int {
	code := m.M.Run()
	if err := closeBrowser(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	return code
}

// fixture is a gateway that runs, and can be stopped; one that was opened with again can be started again on the same port.
type fixture struct {
	t       testing.TB
	cfg     gateway.Config
	backend *gatewaytest.Backend
	front   gateway.Backend // the backend, or what a test has put before it
	server  *gateway.Server
	stop    func()
}

// again has a gateway listen where nobody else is given the port while it is stopped.
func again(t testing.TB) func(*gateway.Config) {
	t.Helper()
	address := need.Address(t)
	return func(c *gateway.Config) { c.Listen = address }
}

// open starts a gateway before the given agent. Everything ends with the test.
func open(t testing.TB, agent gatewaytest.Agent, edit ...func(*gateway.Config)) *fixture {
	t.Helper()
	d := &fixture{t: t, backend: gatewaytest.New(agent)}
	d.front = d.backend.Subjects()
	d.cfg = gateway.Config{Listen: "127.0.0.1:0", TokenFile: filepath.Join(t.TempDir(), "gateway.token")}
	for _, e := range edit {
		e(&d.cfg)
	}
	t.Cleanup(d.backend.Close)
	d.start()
	d.cfg.Listen = d.server.Addr().String()
	t.Cleanup(func() { d.stop() })
	return d
}

func (d *fixture) start() {
	d.t.Helper()
	d.cfg.API = rest.New(d.front, "v1.2.3", nil)
	server, err := gateway.New(d.cfg, d.front)
	if err != nil {
		d.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	d.server = server
	d.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			d.t.Errorf("Run: %v", err)
		}
	})
}

func (d *fixture) base() string { return "http://" + d.server.Addr().String() }

func (d *fixture) token() string {
	d.t.Helper()
	tok, err := gateway.ReadToken(d.cfg.TokenFile)
	if err != nil {
		d.t.Fatal(err)
	}
	return tok
}

// client keeps no idle connections, so that goleak sees none.
func client() *http.Client {
	return &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		Timeout:       time.Minute,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
