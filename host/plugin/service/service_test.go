package service

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/flynnhost/flynn/host/internal/event"
	"github.com/flynnhost/flynn/host/store/media"
	"github.com/flynnhost/flynn/host/store/sqlite"
	"github.com/flynnhost/flynn/sdk/hostapi"
	"github.com/flynnhost/flynn/sdk/proto/handshake"
	"github.com/flynnhost/flynn/sdk/proto/hostv1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a server with everything behind it.
type rig struct {
	*Server
	t      *testing.T
	dir    string
	store  *sqlite.Store
	stop   func()
	mu     sync.Mutex
	counts map[string]uint64
	calls  map[string]int // by method and code
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir()}
	r.start()
	t.Cleanup(func() { r.stop() })
	return r
}

// start opens the store and serves; after stop it does so again, as the next start of a host.
func (r *rig) start() {
	t := r.t
	t.Helper()
	r.counts, r.calls = map[string]uint64{}, map[string]int{}
	db, err := sqlite.Open(t.Context(), r.dir)
	if err != nil {
		t.Fatal(err)
	}
	r.store = db
	m, err := media.New(media.Config{Dir: filepath.Join(r.dir, "media"), MaxObject: 2 << 20})
	if err != nil {
		t.Fatal(err)
	}
	var events event.Bus
	event.On(&events, func(e Counted) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.counts[e.Instance+" "+e.Name] += e.N
	})
	event.On(&events, func(e Called) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.calls[e.Instance+" "+e.Method[strings.LastIndex(e.Method, "/")+1:]+" "+e.Code.String()]++
	})
	r.Server, err = New(Config{
		Values: db, Media: m, MediaPerHour: 8 << 20, PublicURL: "https://example.com/flynn",
		Events: &events,
	})
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "flynn") // a test's own folder has too long a name for a socket
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Listen(filepath.Join(dir, "host")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := errors.Join(db.Close(), os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
	})
}

// process is a running process of an instance.
func (r *rig) process(instance string, granted ...string) (h *hostapi.Host, revoke func()) {
	r.t.Helper()
	endpoint, token, revoke := r.Admit(instance, granted, 0)
	h, err := hostapi.Dial(endpoint, token)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = h.Close() })
	return h, revoke
}

// raw is a client without a token, and a context that has one.
func (r *rig) raw(ctx context.Context, instance string, granted ...string) (hostv1.HostClient, context.Context) {
	r.t.Helper()
	endpoint, token, revoke := r.Admit(instance, granted, 0)
	r.t.Cleanup(revoke)
	if endpoint == "" {
		endpoint = "unix:" + r.listener.Addr().String()
	}
	conn, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = conn.Close() })
	return hostv1.NewHostClient(conn), metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
}

func code(err error) codes.Code {
	for ; err != nil; err = errors.Unwrap(err) {
		if s, ok := status.FromError(err); ok {
			return s.Code()
		}
	}
	return codes.OK
}

func TestWhoMayCall(t *testing.T) {
	r := newRig(t)
	c, right := r.raw(t.Context(), "one", Values)
	token := func(values ...string) context.Context {
		ctx := t.Context()
		for _, v := range values {
			ctx = metadata.AppendToOutgoingContext(ctx, "authorization", v)
		}
		return ctx
	}
	md, _ := metadata.FromOutgoingContext(right)
	good := md.Get("authorization")[0]
	for _, k := range []struct {
		name string
		ctx  context.Context
		want codes.Code
	}{
		{"the right token", right, codes.OK},
		{"no token", token(), codes.Unauthenticated},
		{"an empty token", token("Bearer "), codes.Unauthenticated},
		{"another token", token("Bearer " + strings.Repeat("A", 52)), codes.Unauthenticated},
		{"a beginning of the token", token(good[:len(good)-1]), codes.Unauthenticated},
		{"a longer token", token(good + "A"), codes.Unauthenticated},
		{"two tokens", token(good, "Bearer x"), codes.Unauthenticated},
	} {
		t.Run(k.name, func(t *testing.T) {
			if _, err := c.SetValue(k.ctx, &hostv1.SetValueRequest{Key: "k"}); code(err) != k.want {
				t.Errorf("got %v, want %v", err, k.want)
			}
			stream, err := c.Webhook(k.ctx)
			if err == nil {
				_, err = stream.Recv()
			}
			want := k.want
			if want == codes.OK {
				want = codes.PermissionDenied // it was granted values alone
			}
			if code(err) != want {
				t.Errorf("a stream: got %v, want %v", err, want)
			}
		})
	}
	t.Run("every method needs its own permission", func(t *testing.T) {
		for _, info := range hostv1.Host_ServiceDesc.Methods {
			if name := "/" + hostv1.Host_ServiceDesc.ServiceName + "/" + info.MethodName; !slices.Contains(Names(), needs(name)) {
				t.Errorf("%s needs %q", name, needs(name))
			}
		}
		for _, info := range hostv1.Host_ServiceDesc.Streams {
			if name := "/" + hostv1.Host_ServiceDesc.ServiceName + "/" + info.StreamName; !slices.Contains(Names(), needs(name)) {
				t.Errorf("%s needs %q", name, needs(name))
			}
		}
		if slices.Contains(Names(), needs("/flynn.host.v1.Host/Shell")) {
			t.Error("an unknown method can be granted")
		}
	})
}

func TestTheTokenDiesWithTheProcess(t *testing.T) {
	r := newRig(t)
	h, revoke := r.process("one", Values)
	if err := h.Set(t.Context(), "k", []byte("v")); err != nil {
		t.Fatal(err)
	}
	revoke()
	if err := h.Set(t.Context(), "k", []byte("w")); code(err) != codes.Unauthenticated {
		t.Errorf("got %v", err)
	}
	next, _ := r.process("one", Values)
	if value, found, err := next.Get(t.Context(), "k"); err != nil || !found || string(value) != "v" {
		t.Errorf("the next process: %q %v (%v)", value, found, err)
	}
	if endpoint, token, _ := r.Admit("none", nil, 0); endpoint != "" || token != "" {
		t.Errorf("who asks for nothing got %s %s", endpoint, token)
	}
}

func TestValues(t *testing.T) {
	r := newRig(t)
	one, _ := r.process("one", Values)
	two, _ := r.process("two", Values)
	ctx := t.Context()
	for _, k := range []struct {
		name, key string
		size      int
		want      codes.Code
	}{
		{"a value", "a", 3, codes.OK},
		{"nothing", "b", 0, codes.OK},
		{"the longest", strings.Repeat("k", maxKey), maxValue, codes.OK},
		{"no key", "", 1, codes.InvalidArgument},
		{"a key that is too long", strings.Repeat("k", maxKey+1), 1, codes.InvalidArgument},
		{"a value that is too long", "c", maxValue + 1, codes.InvalidArgument},
		{"more than a frame", "c", handshake.MaxFrame + 1, codes.ResourceExhausted},
	} {
		t.Run(k.name, func(t *testing.T) {
			if err := one.Set(ctx, k.key, make([]byte, k.size)); code(err) != k.want {
				t.Fatalf("got %v, want %v", err, k.want)
			}
			if value, found, err := one.Get(ctx, k.key); k.want == codes.OK && (err != nil || !found || len(value) != k.size) {
				t.Errorf("got %d bytes, %v (%v)", len(value), found, err)
			}
			if _, found, err := two.Get(ctx, k.key); k.want == codes.OK && (found || err != nil) {
				t.Errorf("the other instance sees it: %v (%v)", found, err)
			}
		})
	}
	if keys, err := one.Keys(ctx, ""); err != nil || len(keys) != 3 {
		t.Errorf("%d keys (%v)", len(keys), err)
	}
	if err := errors.Join(one.Delete(ctx, "a"), one.Delete(ctx, "a"), two.Delete(ctx, "b")); err != nil {
		t.Error(err)
	}
	if keys, err := one.Keys(ctx, ""); err != nil || len(keys) != 2 {
		t.Errorf("%d keys (%v)", len(keys), err)
	}
	if r.calls["one SetValue InvalidArgument"] != 3 || r.calls["two DeleteValue OK"] != 1 {
		t.Errorf("observed: %v", r.calls)
	}
	t.Run("they survive the host", func(t *testing.T) {
		r.stop()
		r.start()
		again, _ := r.process("one", Values)
		if _, found, err := again.Get(ctx, "b"); !found || err != nil {
			t.Errorf("%v (%v)", found, err)
		}
	})
}

func TestTooMuch(t *testing.T) {
	r := newRig(t)
	h, _ := r.process("greedy", Names()...)
	other, _ := r.process("modest", Names()...)
	ctx := t.Context()
	for _, k := range []struct {
		name string
		do   func(i int) error
		most int
	}{
		{"writes", func(i int) error { return h.Set(ctx, "k", nil) }, 10},
		{"names of counters", func(i int) error { return h.Count(ctx, fmt.Sprint("n", i), 1) }, maxCounters + 1},
		{"media", func(i int) error {
			_, err := h.PutMedia(ctx, hostapi.Media{Body: bytes.NewReader(bytes.Repeat([]byte{byte(i)}, 1<<20))})
			return err
		}, 10},
		{"calls", func(i int) error { _, _, err := h.Get(ctx, "k"); return err }, 10},
	} {
		t.Run(k.name, func(t *testing.T) {
			if k.name == "writes" || k.name == "calls" {
				// The calls that a second allows depend on the machine: here it allows none, and the account is all but empty.
				r.mu.Lock()
				a := r.accounts["greedy"]
				r.mu.Unlock()
				l := a.writes
				if k.name == "calls" {
					l = a.calls
				}
				l.ReserveN(time.Now(), l.Burst()-5)
				l.SetLimit(0.01)
			}
			for i := range k.most {
				err := k.do(i)
				if err == nil {
					continue
				}
				if wait, ok := hostapi.RetryAfter(err); code(err) != codes.ResourceExhausted || !ok || wait <= 0 {
					t.Errorf("got %v, retry after %v", err, wait)
				}
				return
			}
			t.Error("it never was too much")
		})
	}
	if err := errors.Join(other.Set(ctx, "k", nil), other.Count(ctx, "n", 1)); err != nil {
		t.Errorf("the other instance: %v", err)
	}
}

func TestMedia(t *testing.T) {
	r := newRig(t)
	h, _ := r.process("one", Media)
	other, _ := r.process("two", Media)
	for _, size := range []int{0, 1, 256 << 10, 1<<20 + 5} {
		body := bytes.Repeat([]byte("abcdefg"), size/7+1)[:size]
		digest, err := h.PutMedia(t.Context(), hostapi.Media{Name: "../x.txt", Type: "text/x-notes", Size: int64(size), Body: bytes.NewReader(body)})
		if err != nil {
			t.Fatal(err)
		}
		m, err := other.OpenMedia(t.Context(), digest)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(m.Body)
		if err != nil || !bytes.Equal(got, body) || m.Name != "x.txt" || m.Type != "text/x-notes" || m.Size != int64(size) {
			t.Errorf("%d bytes: got %d, %+v (%v)", size, len(got), m, err)
		}
	}
	for _, k := range []struct {
		name string
		m    hostapi.Media
		want codes.Code
	}{
		{"another size", hostapi.Media{Size: 3, Body: strings.NewReader("four")}, codes.InvalidArgument},
		{"too large", hostapi.Media{Body: io.LimitReader(zeros{}, 2<<20+1)}, codes.ResourceExhausted},
		{"too large, and it says so", hostapi.Media{Size: 1 << 60, Body: zeros{}}, codes.ResourceExhausted},
	} {
		t.Run(k.name, func(t *testing.T) {
			_, err := h.PutMedia(t.Context(), k.m)
			if _, again := hostapi.RetryAfter(err); code(err) != k.want || again {
				t.Errorf("got %v, try again: %v", err, again)
			}
		})
	}
	for _, digest := range []string{"", "../../flynn.db", strings.Repeat("0", 64)} {
		if _, err := h.OpenMedia(t.Context(), digest); code(err) != codes.NotFound {
			t.Errorf("%q: %v", digest, err)
		}
	}
	t.Run("spoiled on disk", func(t *testing.T) {
		digest, err := h.PutMedia(t.Context(), hostapi.Media{Body: strings.NewReader("as it was")})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(r.dir, "media", digest[:2], digest), []byte("as it is"), 0o600); err != nil {
			t.Fatal(err)
		}
		m, err := h.OpenMedia(t.Context(), digest)
		if err == nil {
			_, err = io.ReadAll(m.Body)
		}
		if code(err) != codes.DataLoss {
			t.Errorf("got %v", err)
		}
	})
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestFramesOfMediaInDisorder(t *testing.T) {
	r := newRig(t)
	c, ctx := r.raw(t.Context(), "one", Media)
	head := &hostv1.PutMediaRequest{Frame: &hostv1.PutMediaRequest_Head{Head: &hostv1.MediaHead{}}}
	chunk := func(n int) *hostv1.PutMediaRequest {
		return &hostv1.PutMediaRequest{Frame: &hostv1.PutMediaRequest_Chunk{Chunk: make([]byte, n)}}
	}
	for _, k := range []struct {
		name   string
		frames []*hostv1.PutMediaRequest
		want   codes.Code
	}{
		{"no head", []*hostv1.PutMediaRequest{chunk(1)}, codes.InvalidArgument},
		{"nothing known", []*hostv1.PutMediaRequest{{}}, codes.InvalidArgument},
		{"two heads", []*hostv1.PutMediaRequest{head, head}, codes.InvalidArgument},
		{"a chunk that is too long", []*hostv1.PutMediaRequest{head, chunk(handshake.MaxChunk + 1)}, codes.InvalidArgument},
		{"a frame of later", []*hostv1.PutMediaRequest{head, {}, chunk(1), {}}, codes.OK},
	} {
		t.Run(k.name, func(t *testing.T) {
			stream, err := c.PutMedia(ctx)
			for _, f := range k.frames {
				if err == nil {
					err = stream.Send(f)
				}
			}
			if err == nil || errors.Is(err, io.EOF) {
				_, err = stream.CloseAndRecv()
			}
			if code(err) != k.want {
				t.Errorf("got %v", err)
			}
		})
	}
}

// A plugin that stops in the middle of a stream holds nothing beyond its process.
func TestStreamsEndWithTheProcess(t *testing.T) {
	r := newRig(t)
	endpoint, token, revoke := r.Admit("hung", []string{Media, Webhooks}, 0)
	conn, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c, ctx := hostv1.NewHostClient(conn), metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token)
	put, err := c.PutMedia(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := put.Send(&hostv1.PutMediaRequest{Frame: &hostv1.PutMediaRequest_Head{Head: &hostv1.MediaHead{}}}); err != nil {
		t.Fatal(err)
	}
	hook, err := c.Webhook(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := hook.Send(&hostv1.WebhookRequest{Frame: &hostv1.WebhookRequest_Path{Path: "a"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := hook.Recv(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { // the media are admitted too
		r.mu.Lock()
		defer r.mu.Unlock()
		for g := range r.guests {
			if len(g.mediaSlots) == 1 {
				return true
			}
		}
		return false
	})
	revoke()
	if _, err := hook.Recv(); code(err) != codes.Aborted {
		t.Errorf("the webhook: %v", err)
	}
	if err := put.RecvMsg(&hostv1.PutMediaResponse{}); code(err) != codes.Aborted {
		t.Errorf("the media: %v", err)
	}
}

func TestTooManyTransfers(t *testing.T) {
	r := newRig(t)
	c, ctx := r.raw(t.Context(), "one", Media)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	head := &hostv1.PutMediaRequest{Frame: &hostv1.PutMediaRequest_Head{Head: &hostv1.MediaHead{}}}
	refused := make(chan error, maxMediaStreams+1)
	for range maxMediaStreams + 1 {
		stream, err := c.PutMedia(ctx)
		if err == nil {
			err = stream.Send(head)
		}
		if err != nil {
			t.Fatal(err)
		}
		go func() { refused <- stream.RecvMsg(&hostv1.PutMediaResponse{}) }()
	}
	err := <-refused
	if wait, ok := hostapi.RetryAfter(err); code(err) != codes.ResourceExhausted || !ok || wait <= 0 {
		t.Errorf("got %v", err)
	}
	cancel()
	for range maxMediaStreams {
		<-refused
	}
}

func TestTooManyConnections(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := bounded(lis).(*limited)
	defer l.Close()
	for i := range maxPerProcess + 3 {
		if got := l.enter(7); got != (i < maxPerProcess) {
			t.Errorf("connection %d of a process: %v", i, got)
		}
	}
	if !l.enter(8) {
		t.Error("another process is kept out")
	}
	l.leave(7)
	if !l.enter(7) {
		t.Error("a place that was given back is gone")
	}
	for i := range maxConnections {
		l.enter(100 + i)
	}
	if l.enter(9) || l.all != maxConnections {
		t.Errorf("%d connections", l.all)
	}
}

func TestCount(t *testing.T) {
	r := newRig(t)
	h, _ := r.process("one", Counters)
	ctx := t.Context()
	for _, k := range []struct {
		name string
		add  uint64
		want codes.Code
	}{{"polls", 1, codes.OK}, {"polls", maxCount, codes.OK}, {"a_1", 2, codes.OK}, {"polls", 0, codes.InvalidArgument},
		{"polls", maxCount + 1, codes.InvalidArgument}, {"", 1, codes.InvalidArgument}, {"Polls", 1, codes.InvalidArgument},
		{"a b", 1, codes.InvalidArgument}, {strings.Repeat("a", 41), 1, codes.InvalidArgument}} {
		if err := h.Count(ctx, k.name, k.add); code(err) != k.want {
			t.Errorf("%q + %d: %v", k.name, k.add, err)
		}
	}
	if r.counts["one polls"] != maxCount+1 || r.counts["one a_1"] != 2 || len(r.counts) != 2 {
		t.Errorf("counted %v", r.counts)
	}
}

func TestListenReplacesASocket(t *testing.T) {
	r := newRig(t)
	path := r.listener.Addr().String()
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v (%v)", info.Mode(), err)
	}
	second := &Server{}
	if err := second.Listen(path); err != nil {
		t.Fatal(err)
	}
	_ = second.listener.Close()
}
