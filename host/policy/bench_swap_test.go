package policy

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/flynnhost/flynn/host/internal/event"
)

// benchRate is the load, in decisions a second, while modules are replaced.
const benchRate = 10_000

// swaps prints what happens to decisions while a module's file is replaced, and how long the new one takes until it is in force: the first time,
// when it has to be compiled, and later, when its code is in the cache. A decision is mixed when module and answer
// are not of the same version, or when two in one pinned chain differ.
func (t *table) swaps() {
	fmt.Printf("\nreplacing a module under %d decisions/s: milliseconds from the file to the force, the watch's %v of quiet included\n", benchRate, settleTime)
	w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "decisions\t/s\tswaps\tfailed\tmixed\tfirst\tlater p50\tslowest\tdecision p50 us\tp99\t ")
	defer w.Flush()
	for _, language := range t.languages() {
		t.swap(w, language)
	}
}

// swapLoad asks at a rate, and looks at every answer.
type swapLoad struct {
	t             *table
	e             *Engine
	agents        sync.Map // how the agents' names begin, by the module's file
	done          atomic.Bool
	failed, mixed atomic.Int64
	mu            sync.Mutex
	took          []time.Duration
}

func (t *table) swap(w *tabwriter.Writer, language string) {
	versions := t.versions(language)
	path := filepath.Join(t.b.TempDir(), "policy.wasm")
	replace(t.b, path, versions[0])
	inForce := make(chan Status, 100)
	e, err := New(context.Background(), Config{Sources: []Source{{Name: "rules", Path: path, Kinds: []string{KindRoute}}}, CacheDir: t.b.TempDir() + "/cache",
		Events: event.Only(func(s Status) { inForce <- s })})
	if err != nil {
		t.b.Fatal(err)
	}
	l := &swapLoad{t: t, e: e}
	l.agents.Store(fileDigest(versions[0]), "agent-")
	l.agents.Store(fileDigest(versions[1]), "other-")
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() {
		if err := e.Run(ctx); err != nil {
			t.b.Error(err)
		}
	})
	all.Go(l.run)
	all.Go(l.run)
	began := time.Now()
	var later []time.Duration
	first := t.land(path, versions[1], inForce)
	for n := range 10 {
		later = append(later, t.land(path, versions[n%2], inForce))
	}
	span := time.Since(began)
	l.done.Store(true)
	cancel()
	all.Wait()
	if err := e.Close(); err != nil {
		t.b.Fatal(err)
	}
	ms := func(d time.Duration) float64 { return 1e3 * d.Seconds() }
	p50 := median(later)
	slowest := max(first, later[len(later)-1])
	decision := median(l.took)
	fmt.Fprintf(w, "%d\t%.0f\t%d\t%d\t%d\t%.0f\t%.0f\t%.0f\t%.1f\t%.1f\t  %s\n", len(l.took), float64(len(l.took))/span.Seconds(), 1+len(later),
		l.failed.Load(), l.mixed.Load(), ms(first), ms(p50), ms(slowest), 1e6*decision.Seconds(), 1e6*quantile(l.took, 0.99).Seconds(), language)
}

// versions are two modules that choose among different agents.
func (t *table) versions(language string) [2][]byte {
	wasm, err := os.ReadFile(t.paths[language])
	if err != nil {
		t.b.Fatal(err)
	}
	wide := func(s string) []byte { return []byte(strings.Join(strings.Split(s, ""), "\x00")) } // AssemblyScript's texts are UTF-16
	other := bytes.ReplaceAll(bytes.ReplaceAll(wasm, []byte("agent-"), []byte("other-")), wide("agent-"), wide("other-"))
	return [2][]byte{wasm, other}
}

func (t *table) land(path string, wasm []byte, inForce <-chan Status) time.Duration {
	began := time.Now()
	replace(t.b, path, wasm)
	select {
	case s := <-inForce:
		if s.State != StateRunning {
			t.b.Fatalf("%+v", s)
		}
	case <-time.After(2 * compileWall):
		t.b.Fatal("the new module did not come into force")
	}
	return time.Since(began)
}

// run is half of the load: a pinned chain each millisecond, and as many decisions by it as the rate asks for.
func (l *swapLoad) run() {
	messages, _ := ruleMessages()
	for k := range messages {
		for n := range 20 {
			messages[k].Agents = append(messages[k].Agents, fmt.Sprintf("other-%02d", n+1))
		}
	}
	var took []time.Duration
	const every = time.Millisecond
	n := 0
	for next := time.Now(); !l.done.Load(); next = next.Add(every) {
		time.Sleep(time.Until(next))
		s := l.e.Pin()
		file := ""
		for range benchRate * int(every) / int(time.Second) / 2 {
			began := time.Now()
			a, records := s.Route(context.Background(), messages[n%len(messages)])
			took = append(took, time.Since(began))
			l.look(a, &records[0], &file)
			n++
		}
		s.Release()
	}
	l.mu.Lock()
	l.took = append(l.took, took...)
	l.mu.Unlock()
}

func (l *swapLoad) look(a RouteAnswer, r *Record, file *string) {
	if a.Failed {
		l.failed.Add(1)
	}
	agents, known := l.agents.Load(r.File)
	if !known || a.Agent != "" && !strings.HasPrefix(a.Agent, agents.(string)) || *file != "" && *file != r.File {
		l.mixed.Add(1)
	}
	*file = r.File
}
