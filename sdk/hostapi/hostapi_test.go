package hostapi_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/hostapi"
	"github.com/flynnhost/flynn/sdk/plugintest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// guest is a plugin that lends out its view of the host.
type guest struct {
	host  chan *hostapi.Host
	serve func(ctx context.Context, h *hostapi.Host) error
}

func (g *guest) Describe() channel.Description {
	return channel.Description{Name: "guest", Version: "1.0.0"}
}

func (g *guest) Configure(_ context.Context, c channel.Config) error {
	g.host <- c.Host
	return nil
}

func (g *guest) Run(ctx context.Context, _ channel.Inbox) error {
	if g.serve != nil {
		h := <-g.host
		g.host <- h
		return g.serve(ctx, h)
	}
	<-ctx.Done()
	return nil
}

func (g *guest) Send(context.Context, channel.Send) (channel.Sent, error) { return channel.Sent{}, nil }

// start starts a plugin with permissions and returns what it sees of the host.
func start(t *testing.T, c plugintest.Config) (*plugintest.Host, *hostapi.Host) {
	t.Helper()
	g := &guest{host: make(chan *hostapi.Host, 1)}
	h := plugintest.Start(t, g, c)
	return h, <-g.host
}

func TestNothingIsGrantedUnasked(t *testing.T) {
	for _, c := range []struct {
		name    string
		granted []string
	}{{"nothing", nil}, {"something else", []string{"kv"}}} {
		t.Run(c.name, func(t *testing.T) {
			_, h := start(t, plugintest.Config{Permissions: c.granted})
			ctx := t.Context()
			_, put := h.PutMedia(ctx, hostapi.Media{Body: strings.NewReader("x")})
			_, open := h.OpenMedia(ctx, strings.Repeat("0", 64))
			calls := map[string]error{
				"put": put, "open": open, "count": h.Count(ctx, "x", 1), "webhook": h.Webhook(ctx, "", func(string) {}, http.NotFoundHandler()),
			}
			if c.granted == nil {
				calls["set"] = h.Set(ctx, "k", nil)
				calls["delete"] = h.Delete(ctx, "k")
				_, _, calls["get"] = h.Get(ctx, "k")
				_, calls["keys"] = h.Keys(ctx, "")
			}
			for name, err := range calls {
				if !errors.Is(err, hostapi.ErrNotGranted) {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
	_, err := plugintest.TryStart(t, &guest{host: make(chan *hostapi.Host, 1)}, plugintest.Config{Permissions: []string{"root"}})
	if err == nil {
		t.Error("a permission that there is not was granted")
	}
}

func TestValues(t *testing.T) {
	host, h := start(t, plugintest.Config{Permissions: []string{"kv"}})
	ctx := t.Context()
	for i := range 1500 {
		if err := h.Set(ctx, fmt.Sprintf("n/%04d", i), []byte{byte(i)}); err != nil {
			t.Fatal(err)
		}
	}
	keys, err := h.Keys(ctx, "n/")
	if err != nil || len(keys) != 1500 || !slices.IsSorted(keys) {
		t.Fatalf("%d keys (%v)", len(keys), err)
	}
	if err := errors.Join(h.Delete(ctx, "n/0001"), h.Delete(ctx, "never")); err != nil {
		t.Fatal(err)
	}
	if _, found, err := h.Get(ctx, "n/0001"); found || err != nil {
		t.Errorf("a deleted key: %v (%v)", found, err)
	}
	if status.Code(errors.Unwrap(h.Set(ctx, strings.Repeat("k", 257), nil))) != codes.InvalidArgument {
		t.Error("a key of 257 bytes was taken")
	}
	t.Run("they outlive the plugin", func(t *testing.T) {
		_, next := start(t, plugintest.Config{Permissions: []string{"kv"}, Services: host.Services()})
		value, found, err := next.Get(ctx, "n/0002")
		if err != nil || !found || !bytes.Equal(value, []byte{2}) {
			t.Errorf("%v %v (%v)", value, found, err)
		}
	})
}

func TestMedia(t *testing.T) {
	host, h := start(t, plugintest.Config{Permissions: []string{"media"}})
	for _, size := range []int{0, 1, 256 << 10, 1<<20 + 17} {
		body := bytes.Repeat([]byte("0123456789abcde"), size/15+1)[:size]
		digest, err := h.PutMedia(t.Context(), hostapi.Media{Name: "a.bin", Type: "application/x-a", Size: int64(size), Body: bytes.NewReader(body)})
		if err != nil {
			t.Fatal(err)
		}
		if m, kept, found := host.Services().Media(digest); !found || !bytes.Equal(kept, body) || m.Name != "a.bin" {
			t.Errorf("%d bytes: kept are %d, %+v", size, len(kept), m)
		}
		m, err := h.OpenMedia(t.Context(), digest)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(m.Body)
		if err != nil || !bytes.Equal(got, body) || m.Name != "a.bin" || m.Type != "application/x-a" || m.Size != int64(size) {
			t.Errorf("%d bytes: got %d, %+v (%v)", size, len(got), m, err)
		}
	}
	if _, err := h.OpenMedia(t.Context(), strings.Repeat("0", 64)); status.Code(errors.Unwrap(err)) != codes.NotFound {
		t.Errorf("unknown media: %v", err)
	}
	if _, err := h.PutMedia(t.Context(), hostapi.Media{Size: 3, Body: strings.NewReader("four")}); err == nil {
		t.Error("media of another size than said were taken")
	}
	broken := errors.New("broken")
	if _, err := h.PutMedia(t.Context(), hostapi.Media{Body: io.MultiReader(strings.NewReader("x"), failing{broken})}); !errors.Is(err, broken) {
		t.Errorf("a broken body: %v", err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestCount(t *testing.T) {
	host, h := start(t, plugintest.Config{Permissions: []string{"metric"}})
	if err := errors.Join(h.Count(t.Context(), "polls", 2), h.Count(t.Context(), "polls", 3)); err != nil {
		t.Fatal(err)
	}
	if got := host.Services().Counters()["polls"]; got != 5 {
		t.Errorf("counted %d", got)
	}
	if h.Count(t.Context(), "No Such Name", 1) == nil {
		t.Error("a wrong name was taken")
	}
}

func TestWebhook(t *testing.T) {
	mux := http.NewServeMux()
	g := &guest{host: make(chan *hostapi.Host, 1), serve: func(ctx context.Context, h *hostapi.Host) error {
		return h.Webhook(ctx, "in/box", func(string) {}, mux)
	}}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch r.URL.Query().Get("do") {
		case "echo":
			w.Header().Set("Content-Type", "text/x-echo")
			w.WriteHeader(http.StatusAccepted)
			w.Header().Set("Content-Type", "text/too-late")
			fmt.Fprintf(w, "%s %s %s", r.Method, r.Header.Get("X-Signature"), body)
		case "panic":
			panic("no")
		case "long":
			for range 5 {
				_, _ = w.Write(make([]byte, 100<<10))
			}
		case "silent":
		case "html":
			_, _ = io.WriteString(w, "<!DOCTYPE html><html>")
		}
	})
	host := plugintest.Start(t, g, plugintest.Config{Permissions: []string{"webhook"}})
	for _, c := range []struct {
		name, query, wantType, wantBody string
		want                            int
	}{
		{"method, header and body arrive", "do=echo", "text/x-echo", "POST sig data", 202},
		{"a panic is a status", "do=panic", "", "", 500},
		{"an answer that is too long is none", "do=long", "", "", 500},
		{"a handler that does nothing says yes", "do=silent", "", "", 200},
		{"the type is told from the body", "do=html", "text/html; charset=utf-8", "<!DOCTYPE html><html>", 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := httptest.NewRequest("POST", "/?"+c.query, strings.NewReader("data"))
			r.Header.Set("X-Signature", "sig")
			answer := host.Webhook("in/box", r)
			defer answer.Body.Close()
			body, err := io.ReadAll(answer.Body)
			if err != nil || answer.StatusCode != c.want || string(body) != c.wantBody || c.wantType != "" && answer.Header.Get("Content-Type") != c.wantType {
				t.Errorf("%d %s %q (%v)", answer.StatusCode, answer.Header.Get("Content-Type"), body, err)
			}
		})
	}
	t.Run("a body that is too long does not get here", func(t *testing.T) {
		answer := host.Webhook("in/box", httptest.NewRequest("POST", "/?do=echo", bytes.NewReader(make([]byte, 256<<10+1))))
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("status %d", answer.StatusCode)
		}
	})
}

// The connection to the host lasts as long as the last call, not only as Run.
func TestHostOutlivesRun(t *testing.T) {
	c := &late{begun: make(chan struct{}), ran: make(chan struct{})}
	h := plugintest.Start(t, c, plugintest.Config{Permissions: []string{"kv"}})
	sent := make(chan error, 1)
	go func() {
		_, err := h.Send(channel.Send{Key: "1", Conversation: channel.Conversation{ID: "c"}, Text: "x"})
		sent <- err
	}()
	<-c.begun
	if err := h.Shutdown(); err != nil {
		t.Fatal(err)
	}
	if err := <-sent; err != nil {
		t.Errorf("send: %v", err)
	}
	if value, found := h.Services().Value("sent"); !found || string(value) != "x" {
		t.Error("the send could not write after Run had ended")
	}
}

// late is a channel whose Send goes on when Run has ended.
type late struct {
	guest
	host       *hostapi.Host
	begun, ran chan struct{}
}

func (c *late) Configure(_ context.Context, config channel.Config) error {
	c.host = config.Host
	return nil
}

func (c *late) Run(ctx context.Context, _ channel.Inbox) error {
	<-ctx.Done()
	close(c.ran)
	return nil
}

func (c *late) Send(ctx context.Context, s channel.Send) (channel.Sent, error) {
	close(c.begun)
	<-c.ran
	return channel.Sent{MessageIDs: []string{"1"}}, c.host.Set(ctx, "sent", []byte(s.Text))
}
