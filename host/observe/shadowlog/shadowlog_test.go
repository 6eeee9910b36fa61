package shadowlog

import (
	"context"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/internal/event"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/policy/journal"
	w "github.com/flynnhost/flynn/host/policy/meter/wasmtest"
	"github.com/flynnhost/flynn/host/store/sqlite"
	"github.com/flynnhost/flynn/sdk/policy/abi"
)

// TestShadowsEndInATable runs an engine with a shadow over a real store and reads the table beside it.
func TestShadowsEndInATable(t *testing.T) {
	dir := t.TempDir()
	s, err := sqlite.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	counted := map[string]int64{}
	l := New(Config{Store: s, Log: slog.New(slog.DiscardHandler), Events: event.Only(func(e Lost) { counted["lost "+e.Policy]++ })})
	module := func(name string, answer int64) policy.Source {
		path := filepath.Join(dir, name+".wasm")
		if err := os.WriteFile(path, w.Policy(1).Hook("flynn_tool", "", w.I64(answer)), 0o600); err != nil {
			t.Fatal(err)
		}
		return policy.Source{Name: name, Path: path, Kinds: []string{policy.KindTool}}
	}
	live, next, same := module("live", abi.ToolDeny|1<<8), module("next", abi.ToolAsk|2<<8), module("same", abi.ToolDeny|1<<8)
	next.Shadow, next.ShadowOf, same.Shadow = true, "live", true
	var told atomic.Int64
	engine, err := policy.New(t.Context(), policy.Config{Sources: []policy.Source{live, next, same}, Events: event.Only(func(s policy.Shadowed) {
		counted[string(s.Outcome)+" "+s.Policy]++
		l.Shadowed(s)
		told.Add(1)
	})})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	begin := func(run func(context.Context) error) (end func()) {
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- run(ctx) }()
		return func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}
	endLog, endShadows := begin(l.Run), begin(engine.RunShadows)
	set := engine.Pin()
	defer set.Release()
	at := time.Now()
	// Until the shadows run, decisions are not theirs; and they are given time for each, since what they cannot keep up with is dropped.
	const n = 10
	for heard := int64(0); heard < 2*n; heard = told.Load() {
		f := policy.ToolFacts{Agent: "main", Tool: "shell.run"}
		f.Message.Channel, f.Message.Sender.ID, f.Now = "irc", "alice", at
		set.Tool(t.Context(), f)
		for late := time.Now().Add(100 * time.Millisecond); told.Load() < heard+2 && time.Now().Before(late); {
			time.Sleep(time.Millisecond)
		}
	}
	endShadows() // before the log: what they tell is to be written
	endLog()
	reports, err := Reports(t.Context(), s, journal.ShadowFilter{}, 1)
	if err != nil || len(reports) != 2 {
		t.Fatalf("%v: %+v", err, reports)
	}
	r := reports[0]
	if r.Policy != "next" || r.Against != "live" || r.Compared < n || r.Changed != r.Compared || r.Looser != r.Changed || len(r.Groups) != 1 || r.File == "" {
		t.Errorf("%+v", r)
	}
	if g := r.Groups[0]; g.Was != "deny" || g.Is != "ask" || g.IsWhy != "rule 2" || len(g.Examples) != 1 || g.Examples[0].Sender != "irc:alice" || g.Examples[0].Tool != "shell.run" {
		t.Errorf("%+v", g)
	}
	if r := reports[1]; r.Policy != "same" || r.Compared < n || r.Changed != 0 || r.Against != "" {
		t.Errorf("%+v", r)
	}
	if got := counted["changed next"]; got != r.Changed {
		t.Errorf("%d changes were counted", got)
	}
}

// counted is a log of counts alone.
type counted []journal.ShadowCount

func (c counted) ShadowCounts(context.Context, journal.ShadowFilter) ([]journal.ShadowCount, error) {
	return c, nil
}

func (counted) ShadowDifferences(context.Context, journal.ShadowFilter) iter.Seq2[journal.ShadowDifference, error] {
	return func(func(journal.ShadowDifference, error) bool) {}
}

// TestReportsAreInOrder: of one policy's modules that which was asked last is the first, whenever another policy's of the same file was.
func TestReportsAreInOrder(t *testing.T) {
	count := func(policy, digest string, day int) journal.ShadowCount {
		return journal.ShadowCount{Day: time.Date(2026, 3, day, 0, 0, 0, 0, time.UTC), Policy: policy, Digest: digest, Outcome: "same", Count: 1}
	}
	log := counted{count("one", "a", 1), count("one", "b", 2), count("two", "a", 3)}
	for range 50 {
		reports, err := Reports(t.Context(), log, journal.ShadowFilter{}, 1)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range reports {
			got = append(got, r.Policy+" "+r.Digest)
		}
		if want := []string{"one b", "one a", "two a"}; !slices.Equal(got, want) {
			t.Fatalf("%q, want %q", got, want)
		}
	}
}
