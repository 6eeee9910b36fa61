package policy

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/internal/event"
	w "github.com/flynnhost/flynn/host/policy/meter/wasmtest"
	"github.com/flynnhost/flynn/sdk/policy/abi"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// version denies, with its number as the rule. It needs a page or more of memory.
func version(n, pages int) []byte {
	return w.Policy(pages).Hook("flynn_tool", "", w.I64(int64(abi.ToolDeny|n<<8)))
}

// tool is a policy about tools. Its time is none that a busy machine would use up.
func tool(name, path string) Source {
	return Source{Name: name, Path: path, Kinds: []string{KindTool}, Limits: Limits{Wall: unhurried}}
}

// replace puts a file in place as editors and compilers do.
func replace(t testing.TB, path string, content []byte) {
	t.Helper()
	next := path + ".new"
	if err := os.WriteFile(next, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, path); err != nil {
		t.Fatal(err)
	}
}

// watching runs the engine and returns the statuses of its loads.
func watching(t testing.TB, sources ...Source) (*Engine, <-chan Status) {
	t.Helper()
	swaps := make(chan Status, 100)
	e, err := New(context.Background(), Config{Sources: sources, Events: event.Only(func(s Status) { swaps <- s })})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-done, e.Close()); err != nil {
			t.Error(err)
		}
	})
	return e, swaps
}

func next(t testing.TB, swaps <-chan Status) Status {
	t.Helper()
	select {
	case s := <-swaps:
		return s
	case <-time.After(time.Minute):
		t.Fatal("no swap in a minute")
		return Status{}
	}
}

func TestChangedFileComesIntoForceUnderLoad(t *testing.T) {
	path := write(t, version(0, 1))
	e, swaps := watching(t, tool("p", path))
	var newest, decisions, failed, mixed atomic.Int64
	digests := sync.Map{} // digest -> rule
	stop := make(chan struct{})
	var workers sync.WaitGroup
	for range 2 {
		workers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				s := e.Pin()
				var rule uint32
				for k := range 3 { // a turn sees one version
					got, records := s.Tool(context.Background(), toolFacts())
					r := records[0]
					decisions.Add(1)
					if r.Error != "" || !got.Deny {
						failed.Add(1)
					}
					if k == 0 {
						rule = r.Rule
					}
					if known, ok := digests.LoadOrStore(r.Digest, r.Rule); ok && known != r.Rule || r.Rule != rule {
						mixed.Add(1)
					}
				}
				newest.Store(max(newest.Load(), int64(rule)))
				s.Release()
			}
		})
	}
	begin := time.Now()
	const versions = 25
	var slowest time.Duration
	for n := 1; n <= versions; n++ {
		landed := time.Now()
		replace(t, path, version(n, 1))
		if s := next(t, swaps); s.State != StateRunning {
			t.Fatalf("version %d: %+v", n, s)
		}
		slowest = max(slowest, time.Since(landed))
	}
	took := time.Since(begin)
	close(stop)
	workers.Wait()
	s := e.Pin()
	defer s.Release()
	if _, records := s.Tool(t.Context(), toolFacts()); records[0].Rule != versions {
		t.Errorf("version %d is in force, not %d", records[0].Rule, versions)
	}
	perSecond := float64(decisions.Load()) / took.Seconds()
	t.Logf("%.0f decisions/s, %d swaps, slowest in force after %v", perSecond, versions, slowest)
	if failed.Load() > 0 || mixed.Load() > 0 || newest.Load() == 0 {
		t.Errorf("%d failed, %d mixed of %d; newest seen %d", failed.Load(), mixed.Load(), decisions.Load(), newest.Load())
	}
	if n := decisions.Load(); n < 500 {
		t.Errorf("%d decisions are no load", n)
	}
}

func TestChainIsSwappedWhole(t *testing.T) {
	dir := t.TempDir()
	var files []string
	for n := range 4 {
		files = append(files, filepath.Join(dir, string(rune('0'+n))))
		if err := os.WriteFile(files[n], version(n+1, 1), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	chain := func(n int) []Source { return []Source{tool("a", files[n]), tool("b", files[n])} }
	e := engine(t, chain(0)...)
	stop, done := make(chan struct{}), make(chan int)
	go func() {
		mixed := 0
		for {
			select {
			case <-stop:
				done <- mixed
				return
			default:
			}
			s := e.Pin()
			_, r := s.Tool(context.Background(), toolFacts())
			if len(r) != 2 || r[0].Rule != r[1].Rule || r[0].Error != "" {
				mixed++
			}
			s.Release()
		}
	}()
	for n := range 40 {
		if err := e.Configure(t.Context(), chain(n%4)); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	if mixed := <-done; mixed > 0 {
		t.Errorf("%d decisions saw half a change", mixed)
	}
}

func TestBadFileLeavesTheOldModuleInForce(t *testing.T) {
	path := write(t, version(1, 1))
	e, swaps := watching(t, tool("p", path))
	for name, c := range map[string]struct {
		content []byte
		want    string
	}{
		"text":      {[]byte("not wasm"), "not a WebAssembly module"},
		"truncated": {version(2, 1)[:50], "malformed"},
		"trap": {func() []byte {
			m := w.Policy(1)
			m.Start(m.Func("", "", w.Op(0)))
			return m.Hook("flynn_tool", "", w.I64(0))
		}(), "trap"},
	} {
		t.Run(name, func(t *testing.T) {
			replace(t, path, c.content)
			st := next(t, swaps)
			if st.State != StateStale || !strings.Contains(st.Error, c.want) {
				t.Errorf("status %+v, want %q", st, c.want)
			}
			s := e.Pin()
			defer s.Release()
			if got, r := s.Tool(t.Context(), toolFacts()); !got.Deny || r[0].Rule != 1 || r[0].Error != "" {
				t.Errorf("the old module is not in force: %+v", r)
			}
		})
	}
	replace(t, path, version(3, 1))
	if st := next(t, swaps); st.State != StateRunning || st.Error != "" {
		t.Errorf("the good file is not in force: %+v", st)
	}
}

func TestConfigureIsAllOrNothing(t *testing.T) {
	good, bad := write(t, version(1, 1)), write(t, []byte("bad"))
	e := engine(t, tool("a", good))
	before := e.Pin()
	defer before.Release()
	if err := e.Configure(t.Context(), []Source{tool("a", good), tool("b", bad)}); err == nil || !strings.Contains(err.Error(), "policy b") {
		t.Errorf("a chain with a bad policy was taken: %v", err)
	}
	for name, sources := range map[string][]Source{
		"no name":      {tool("", good)},
		"same name":    {tool("a", good), tool("a", good)},
		"no kinds":     {{Name: "a", Path: good}},
		"unknown kind": {{Name: "a", Path: good, Kinds: []string{"taste"}}},
		"isolation":    {{Name: "a", Path: good, Kinds: []string{KindTool}, Isolation: "cold"}},
		"limits":       {{Name: "a", Path: good, Kinds: []string{KindTool}, Limits: Limits{Fuel: -1}}},
	} {
		if err := e.Configure(t.Context(), sources); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	after := e.Pin()
	defer after.Release()
	if before.Digest() != after.Digest() {
		t.Error("the chain changed")
	}
	limited := tool("a", good)
	limited.Limits.Fuel = 1000
	if err := e.Configure(t.Context(), []Source{limited}); err != nil {
		t.Fatal(err)
	}
	now := e.Pin()
	defer now.Release()
	if now.Digest() == before.Digest() {
		t.Error("other limits have the same digest")
	}
}

func TestGateKeepsAModuleOut(t *testing.T) {
	path := write(t, version(1, 1))
	e, err := New(t.Context(), Config{Sources: []Source{tool("p", path)}, Gate: GateFunc(func(ctx context.Context, m Candidate) error {
		if _, r := m.Tool(ctx, toolFacts()); r.Rule == 2 {
			return errors.New("two is not wanted")
		}
		return nil
	})})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	replace(t, path, version(2, 1))
	e.Refresh(t.Context())
	if st := e.Status()[0]; st.State != StateStale || !strings.Contains(st.Error, "two is not wanted") {
		t.Errorf("status %+v", st)
	}
}

func TestClosedEngineFailsClosed(t *testing.T) {
	e, err := New(t.Context(), Config{Sources: []Source{tool("p", write(t, w.Policy(1).Hook("flynn_tool", "", w.I64(0))))}})
	if err != nil {
		t.Fatal(err)
	}
	pinned := e.Pin()
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if got, r := pinned.Tool(t.Context(), toolFacts()); got.Deny || r[0].Error != "" {
		t.Errorf("what was pinned does not go on: %+v", r)
	}
	pinned.Release()
	late := e.Pin()
	defer late.Release()
	if got, _ := late.Tool(t.Context(), toolFacts()); !got.Deny {
		t.Error("what is pinned later does not deny")
	}
	if err := e.Configure(t.Context(), nil); !errors.Is(err, errClosed) {
		t.Errorf("configure a closed engine: %v", err)
	}
}

func TestSwapsLeakNothing(t *testing.T) {
	path := write(t, version(0, 12)) // large enough to be shared
	e := engine(t, tool("p", path))
	swap := func(n int) {
		replace(t, path, version(n, 12))
		e.Refresh(t.Context())
		s := e.Pin()
		defer s.Release()
		if _, r := s.Tool(t.Context(), toolFacts()); int(r[0].Rule) != n || r[0].Error != "" {
			t.Fatalf("version %d: %+v", n, r[0])
		}
	}
	for n := range 10 {
		swap(n + 1)
	}
	before := usage(t)
	const swaps = 200
	for n := range swaps {
		swap(n + 100)
	}
	bounds := used{before.files + 2, before.maps + 30, before.heap + 8<<20, before.resident + 32<<20}
	after := usage(t)
	for late := time.Now().Add(time.Minute); !after.within(bounds) && time.Now().Before(late); after = usage(t) {
		time.Sleep(10 * time.Millisecond) // machine code is unmapped some time after it was collected
	}
	t.Logf("before %+v, after %+v", before, after)
	if !after.within(bounds) {
		t.Errorf("%d swaps leak: %+v became %+v", swaps, before, after)
	}
}

type used struct{ files, maps, heap, resident int }

func (u used) within(bounds used) bool {
	return u.files <= bounds.files && u.maps <= bounds.maps && u.heap <= bounds.heap && u.resident <= bounds.resident
}

func usage(t *testing.T) (u used) {
	t.Helper()
	for range 3 { // machine code is unmapped by finalizers
		runtime.GC()
	}
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skipf("no /proc: %v", err)
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	pages := 0
	for _, c := range strings.Fields(string(statm))[1] {
		pages = pages*10 + int(c-'0')
	}
	return used{len(files), bytes.Count(maps, []byte("\n")), int(m.HeapAlloc), pages * os.Getpagesize()}
}

func TestToolPoliciesOnlyAdd(t *testing.T) {
	decision := func(v int64) string { return write(t, w.Policy(1).Hook("flynn_tool", "", w.I64(v))) }
	sandbox := func(name string) string {
		m := w.Policy(1)
		m.Data(100, output(abi.OutSandbox, name))
		return write(t, m.Hook("flynn_tool", "", w.I32(4096), w.I32(100), w.I32(int32(28+len(name))), w.Op(0xfc, 10, 0, 0), w.I64(int64(abi.ToolSandbox|(28+len(name))<<32))))
	}
	none, ask, deny, plain, trap := decision(0), decision(abi.ToolAsk), decision(abi.ToolDeny|7<<8), decision(abi.ToolSandbox), write(t, w.Policy(1).Hook("flynn_tool", "", w.Op(0)))
	strict, loose := sandbox("strict"), sandbox("loose")
	for name, c := range map[string]struct {
		chain []string
		want  Restrictions
	}{
		"nobody":                 {nil, Restrictions{}},
		"none":                   {[]string{none, none}, Restrictions{}},
		"ask stays":              {[]string{ask, none}, Restrictions{Ask: true}},
		"ask and sandbox":        {[]string{none, ask, plain}, Restrictions{Ask: true, Sandbox: true, Sandboxes: []string{""}}},
		"named sandbox":          {[]string{plain, strict, strict}, Restrictions{Sandbox: true, Sandboxes: []string{"", "strict"}}},
		"two sandboxes":          {[]string{strict, loose}, Restrictions{Deny: true, Sandbox: true, Sandboxes: []string{"strict", "loose"}}},
		"deny stays":             {[]string{deny, none, ask}, Restrictions{Deny: true, Ask: true}},
		"failure denies":         {[]string{none, trap, none}, Restrictions{Deny: true}},
		"missing file denies":    {[]string{none, "/nonexistent.wasm"}, Restrictions{Deny: true}},
		"failure loosens nobody": {[]string{strict, trap}, Restrictions{Deny: true, Sandbox: true, Sandboxes: []string{"strict"}}},
	} {
		t.Run(name, func(t *testing.T) {
			var sources []Source
			for i, path := range c.chain {
				sources = append(sources, tool(string(rune('a'+i)), path))
			}
			s := engine(t, sources...).Pin()
			defer s.Release()
			got, records := s.Tool(t.Context(), toolFacts())
			if got.Deny != c.want.Deny || got.Ask != c.want.Ask || got.Sandbox != c.want.Sandbox || strings.Join(got.Sandboxes, ",") != strings.Join(c.want.Sandboxes, ",") {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			if len(records) != len(c.chain) {
				t.Errorf("%d records of %d policies", len(records), len(c.chain))
			}
		})
	}
}

// output is an output frame of one string.
func output(id abi.Field, s string) []byte {
	const values = abi.HeaderSize + abi.EntrySize
	frame := make([]byte, values+len(s))
	cursor{entry: abi.HeaderSize, at: values}.string(frame, id, s)
	copy(frame, []byte{0x46, 0x4c, 0x4e, 0x31, abi.FrameOutput, 0, 1, 0, byte(len(frame)), byte(len(frame) >> 8)})
	return frame
}

func TestRouteChain(t *testing.T) {
	decision := func(v int64) string { return write(t, w.Policy(1).Hook("flynn_route", "", w.I64(v))) }
	agent := func(name string) string {
		m := w.Policy(1)
		m.Data(100, output(abi.OutAgent, name))
		return write(t, m.Hook("flynn_route", "", w.I32(4096), w.I32(100), w.I32(int32(28+len(name))), w.Op(0xfc, 10, 0, 0), w.I64(int64(abi.RouteAgent|3<<8|(28+len(name))<<32))))
	}
	abstain, drop, trap := decision(0), decision(abi.RouteDrop), write(t, w.Policy(1).Hook("flynn_route", "", w.Op(0)))
	main, stranger := agent("main"), agent("stranger")
	for name, c := range map[string]struct {
		chain   []string
		onError string
		want    RouteAnswer
		asked   int
	}{
		"nobody":             {nil, "", RouteAnswer{}, 0},
		"all abstain":        {[]string{abstain, abstain}, "", RouteAnswer{}, 2},
		"first decides":      {[]string{abstain, main, drop}, "", RouteAnswer{Decided: true, Agent: "main", Policy: "b", Reason: "rule 3"}, 2},
		"drop":               {[]string{drop, main}, "", RouteAnswer{Decided: true, Policy: "a"}, 1},
		"unknown agent":      {[]string{stranger, main}, "errors", RouteAnswer{Decided: true, Agent: "errors", Policy: "a", Failed: true, Reason: `agent: it chose the agent "stranger", which may not be chosen here`}, 1},
		"failure, nobody":    {[]string{trap, main}, "", RouteAnswer{Decided: true, Policy: "a", Failed: true}, 1},
		"failure, forbidden": {[]string{trap, main}, "stranger", RouteAnswer{Decided: true, Policy: "a", Failed: true}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var sources []Source
			for i, path := range c.chain {
				sources = append(sources, Source{Name: string(rune('a' + i)), Path: path, Kinds: []string{KindRoute}, OnErrorAgent: c.onError})
			}
			s := engine(t, sources...).Pin()
			defer s.Release()
			got, records := s.Route(t.Context(), routeFacts())
			if c.want.Failed && c.want.Reason == "" {
				got.Reason = ""
			}
			if got != c.want || len(records) != c.asked {
				t.Errorf("got %+v of %d records, want %+v of %d", got, len(records), c.want, c.asked)
			}
		})
	}
}

func TestFailedDecisionLeavesNothingBehind(t *testing.T) {
	// It counts in memory, and traps at each third decision.
	m := w.Policy(1)
	wasm := m.Hook("flynn_tool", "", w.I32(8), w.I32(8), w.Load(0x28, 0), w.I32(1), w.Op(0x6a), w.Load(0x36, 0),
		w.I32(8), w.Load(0x28, 0), w.I32(3), w.Op(0x46), w.If(w.Op(0)), w.I32(8), w.Load(0x28, 0), w.Op(0xad), w.I64(8), w.Op(0x86))
	path := write(t, wasm)
	const trap = 0 // in place of a count; the made-up decision counted one
	for isolation, want := range map[string][]uint32{IsolationPure: {2, 2, 2, 2, 2}, IsolationWarm: {2, trap, 2, trap, 2}} {
		t.Run(isolation, func(t *testing.T) {
			source := tool("p", path)
			source.Isolation = isolation
			e := engine(t, source)
			e.slots[0].module.pool.most = 1 // so that one instance makes all decisions
			s := e.Pin()
			defer s.Release()
			for k, n := range want {
				_, r := s.Tool(t.Context(), toolFacts())
				if r[0].Rule != n || (r[0].Error != "") != (n == trap) {
					t.Errorf("decision %d: rule %d, error %q, want %d", k, r[0].Rule, r[0].Error, n)
				}
			}
		})
	}
}

func TestHiddenStateIsFound(t *testing.T) {
	wasm := w.Policy(1).Hook("flynn_tool", "", w.I32(8), w.I32(8), w.Load(0x28, 0), w.I32(1), w.Op(0x6a), w.Load(0x36, 0),
		w.I32(8), w.Load(0x28, 0), w.Op(0xad), w.I64(8), w.Op(0x86))
	source := tool("p", write(t, wasm))
	source.Isolation = IsolationWarm
	e := engine(t, source)
	s := e.Pin()
	defer s.Release()
	for range sampleEvery + 1 {
		s.Tool(t.Context(), toolFacts())
	}
	if st := e.Status()[0]; st.Stateful == 0 {
		t.Errorf("a policy that counts is not found to be stateful: %+v", st)
	}
}

// TestStage: what is staged counts from its commit on, and never after a rollback.
func TestStage(t *testing.T) {
	a, b := write(t, version(1, 1)), write(t, version(2, 1))
	e, _ := watching(t, tool("a", a))
	digest := func() string {
		s := e.Pin()
		defer s.Release()
		return s.Digest()
	}
	before := digest()
	_, rollback, err := e.Stage(t.Context(), []Source{tool("a", a), tool("b", b)})
	if err != nil {
		t.Fatal(err)
	}
	if digest() != before {
		t.Error("a staged chain is in force")
	}
	rollback()
	if digest() != before {
		t.Error("a chain that was rolled back is in force")
	}
	commit, _, err := e.Stage(t.Context(), []Source{tool("b", b)})
	if err != nil {
		t.Fatal(err)
	}
	commit()
	if digest() == before {
		t.Error("a chain that was committed is not in force")
	}
	if len(e.Status()) != 1 {
		t.Errorf("%d policies", len(e.Status()))
	}
}
