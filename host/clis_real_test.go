package host

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/model/modeltest"
	"github.com/flynnhost/flynn/host/sandbox/fleet"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
)

// apiAddr is where the name of every API leads; connections to it end at a server of the test's own.
var apiAddr = netip.MustParseAddr("93.184.216.34")

// apiNetwork leads to one listener.
type apiNetwork struct{ listener string }

func (apiNetwork) Resolve(context.Context, string) ([]netip.Addr, error) {
	return []netip.Addr{apiAddr}, nil
}

func (n apiNetwork) Dial(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
	if addr.Addr() != apiAddr {
		return nil, fmt.Errorf("the test reaches only %v, not %v", apiAddr, addr)
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", n.listener)
}

// serveAs serves names by TLS, and has the host's proxies lead there.
func serveAs(t *testing.T, handler http.Handler, names ...string) func(*Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: names[0]}, DNSNames: names, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, about, about, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(handler)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	s.StartTLS()
	t.Cleanup(s.Close)
	roots := x509.NewCertPool()
	roots.AddCert(made)
	return func(c *Config) {
		c.Outside = fleet.Outside{Network: apiNetwork{s.Listener.Addr().String()}, Roots: roots}
	}
}

// realCLI is a host whose agent is a program from npm.
func realCLI(t *testing.T, preset, apiName string, api http.Handler) (*cliHome, func() *cliHome) {
	t.Helper()
	engine := sandboxtest.Engine(t)
	image := engine.CLIAgent(t, preset)
	t.Setenv("FLYNN_TEST_MODEL_KEY", modeltest.Key)
	dir, reach := t.TempDir(), serveAs(t, api, apiName)
	start := func() *cliHome {
		return startCLI(t, dir, fmt.Sprintf("preset = %q\nimage = %q\napi_key_env = \"FLYNN_TEST_MODEL_KEY\"\ntimeout_seconds = 300", preset, image), reach)
	}
	s := start()
	s.sweepVolumes(engine)
	return s, start
}

// TestClaude runs the real program against the fake of its API, in a container without a network and without the key.
func TestClaude(t *testing.T) {
	api := modeltest.New(t)
	api.Script(modeltest.Reply{Text: "hello from the model", Input: 11, Output: 3})
	s, start := realCLI(t, "claude", "api.anthropic.com", api)
	s.expect(s.ask("say hello"), "hello from the model")
	s.end()
	s = start()
	s.expect(s.ask("and again"), "hello from the model")
	last := api.Requests()
	if body := string(last[len(last)-1].Body); !strings.Contains(body, "say hello") || !strings.Contains(body, "and again") {
		t.Errorf("the second run does not go on with the first: %.2000s", body)
	}
	for _, r := range last {
		if r.Header.Get("X-Api-Key") != modeltest.Key {
			t.Errorf("%s came with the key %q", r.Path, r.Header.Get("X-Api-Key"))
		}
	}
}

// responses is the part of OpenAI's Responses API that a program needs for an answer.
type responses struct {
	mu   sync.Mutex
	seen []string // bodies
	keys []string
}

func (f *responses) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/responses") {
		http.NotFound(w, r)
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, 16<<20))
	if err != nil {
		return
	}
	f.mu.Lock()
	f.seen, f.keys = append(f.seen, string(body)), append(f.keys, r.Header.Get("Authorization"))
	f.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range []string{
		`{"type":"response.created","response":{"id":"r1"}}`,
		`{"type":"response.output_item.done","item":{"type":"message","role":"assistant","id":"i1","content":[{"type":"output_text","text":"hello from the model"}]}}`,
		`{"type":"response.completed","response":{"id":"r1","usage":{"input_tokens":20,"input_tokens_details":{"cached_tokens":5},"output_tokens":4,"output_tokens_details":null,"total_tokens":24}}}`,
	} {
		fmt.Fprintf(w, "data: %s\n\n", e)
	}
}

func TestCodex(t *testing.T) {
	api := &responses{}
	s, start := realCLI(t, "codex", "api.openai.com", api)
	s.expect(s.ask("say hello"), "hello from the model")
	s.end()
	s = start()
	s.expect(s.ask("and again"), "hello from the model")
	api.mu.Lock()
	defer api.mu.Unlock()
	if n := len(api.seen); n != 2 || !strings.Contains(api.seen[1], "say hello") || !strings.Contains(api.seen[1], "and again") {
		t.Errorf("the second of %d requests does not go on with the first", n)
	}
	for _, key := range api.keys {
		if key != "Bearer "+modeltest.Key {
			t.Errorf("a request came with the key %q", key)
		}
	}
}

func TestGemini(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, 16<<20))
		if err != nil {
			return
		}
		if r.Header.Get("X-Goog-Api-Key") != modeltest.Key {
			t.Errorf("%s came with the key %q", r.URL.Path, r.Header.Get("X-Goog-Api-Key"))
		}
		const usage = `"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":2,"totalTokenCount":11}`
		const answer = `{"candidates":[{"content":{"role":"model","parts":[{"text":%q}]},"finishReason":"STOP","index":0}],` + usage + `}`
		if strings.Contains(r.URL.Path, ":generateContent") { // it asks which model is to answer
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, answer, `{"complexity_reasoning":"none","complexity_score":1}`)
			return
		}
		mu.Lock()
		seen = append(seen, string(body))
		mu.Unlock()
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: "+answer+"\n\n", "hello from the model")
	})
	s, start := realCLI(t, "gemini", "generativelanguage.googleapis.com", api)
	s.expect(s.ask("say hello"), "hello from the model")
	s.end()
	s = start()
	s.expect(s.ask("and again"), "hello from the model")
	mu.Lock()
	defer mu.Unlock()
	if n := len(seen); n < 2 || !strings.Contains(seen[n-1], "say hello") || !strings.Contains(seen[n-1], "and again") {
		t.Errorf("the last of %d requests does not go on with the first", n)
	}
}
