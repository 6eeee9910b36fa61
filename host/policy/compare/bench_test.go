//go:build unix

package compare_test

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/policy/compare"
	"github.com/flynnhost/flynn/host/policy/decisionlog"
	"github.com/flynnhost/flynn/host/policy/journal"
	"github.com/flynnhost/flynn/host/store/sqlite"
	"github.com/flynnhost/flynn/sdk/need"
)

// BenchmarkReplay replays a log in a real store on a candidate in C: read from the disk, asked from a first state each time, compared.
func BenchmarkReplay(b *testing.B) {
	path := rulesC(b)
	log := openStore(b)
	const n = 100_000
	record(b, log, path, n)
	for name, c := range map[string]struct {
		isolation string
		exact     bool
	}{"warm": {policy.IsolationWarm, false}, "pure": {policy.IsolationPure, false}, "exact": {policy.IsolationPure, true}} {
		b.Run(name, func(b *testing.B) {
			m := openModule(b, path, c.isolation)
			decisions, used := int64(0), cpu(b)
			for b.Loop() {
				f := journal.DecisionFilter{Policy: "rules", WithoutCalls: !c.exact}
				r, err := compare.Run(b.Context(), decisionlog.Read(b.Context(), log, f), m, compare.Options{Exact: c.exact})
				if err != nil || r.Compared != n || r.Changed != 0 {
					b.Fatalf("%v: %+v", err, r)
				}
				decisions += r.Read
			}
			b.ReportMetric(float64(decisions)/b.Elapsed().Seconds(), "decisions/s")
			b.ReportMetric(float64(cpu(b)-used)/float64(decisions), "cpu-ns/decision")
		})
	}
}

// BenchmarkReplayRead is the reading alone.
func BenchmarkReplayRead(b *testing.B) {
	log := openStore(b)
	const n = 100_000
	record(b, log, rulesC(b), n)
	read := 0
	for b.Loop() {
		for _, err := range decisionlog.Read(b.Context(), log, journal.DecisionFilter{Policy: "rules", WithoutCalls: true}) {
			if err != nil {
				b.Fatal(err)
			}
			read++
		}
	}
	b.ReportMetric(float64(read)/b.Elapsed().Seconds(), "decisions/s")
}

// cpu is the time that the process has computed on all cores. Unlike the rate it says the same on a machine with other work.
func cpu(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// rulesC compiles a policy of twenty rules. The linker is called by itself, because the compiler would run any wasm-opt that it finds.
func rulesC(b *testing.B) string {
	b.Helper()
	out := filepath.Join(b.TempDir(), "rules.wasm")
	for _, args := range [][]string{
		{"clang", "--target=wasm32", "-O2", "-ffreestanding", "-mbulk-memory", "-mmutable-globals", "-I../../../sdk/policy/c", "-c", "-o", out + ".o",
			"../author/testdata/rules-c/policy.c"},
		{"wasm-ld", "--no-entry", "-z", "stack-size=16384", "--stack-first", "-o", out, out + ".o"},
	} {
		tool, err := exec.LookPath(args[0])
		need.Part(b, "clang", err)
		if said, err := exec.Command(tool, args[1:]...).CombinedOutput(); err != nil {
			b.Fatalf("%s: %v\n%s", args[0], err, said)
		}
	}
	return out
}

func openModule(b *testing.B, path, isolation string) *policy.Module {
	b.Helper()
	m, err := policy.Open(context.Background(), policy.Source{Name: "rules", Path: path, Kinds: []string{policy.KindRoute}, Isolation: isolation})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := m.Close(); err != nil {
			b.Error(err)
		}
	})
	return m
}

func openStore(b *testing.B) *sqlite.Store {
	b.Helper()
	s, err := sqlite.Open(context.Background(), b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	return s
}

// record fills the log with decisions of both isolations alike.
func record(b *testing.B, log *sqlite.Store, path string, n int) {
	b.Helper()
	m := openModule(b, path, policy.IsolationPure)
	facts := messages()
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for done := 0; done < n; {
		var rows []journal.Decision
		for range 1000 {
			f := facts[done%len(facts)]
			f.Seed = int64(done)
			_, r := m.Route(b.Context(), f)
			at = at.Add(time.Millisecond)
			rows = append(rows, decisionlog.Rows(at, []policy.Record{r})...)
			done++
		}
		if err := log.AddDecisions(b.Context(), rows); err != nil {
			b.Fatal(err)
		}
	}
}

// messages match first, in the middle, last and not at all.
func messages() []policy.RouteFacts {
	var agents []string
	for i := range 20 {
		agents = append(agents, fmt.Sprintf("agent-%02d", i+1))
	}
	var list []policy.RouteFacts
	for _, m := range [][2]string{
		{"telegram", "10055"}, {"discord", "30019"}, {"slack", "U0299"}, {"irc", "alice"}, {"irc", "zoe"}, {"web", "x"}, {"matrix", "@a:b"}, {"signal", "+1"},
	} {
		f := policy.RouteFacts{Agents: agents}
		f.Message.Channel, f.Message.Sender.ID, f.Message.Text = m[0], m[1], strings.Repeat("word ", 40)
		f.Role, f.Door, f.Now = "guest", "channel", time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		list = append(list, f)
	}
	return list
}
