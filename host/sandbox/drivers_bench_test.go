package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/selftest"
)

// driverRounds is how often each figure is taken from each column, in turn. The first warms the caches; of the others the median counts.
const driverRounds = 4

// BenchmarkDrivers prints one table with a column for each driver that this machine has, and for what people use instead.
//
//	go test ./host/sandbox -run - -bench Drivers -benchtime 1x
//
// With a cluster of .ci/kube, it has columns for Kubernetes and kubectl exec too.
func BenchmarkDrivers(b *testing.B) {
	beside(b, nil, []adder{
		{"host", onHost}, {"docker", onDocker}, {"docker exec", dockerAlone}, {"plugin", onPlugin}, {"podman", onPodman}, {"native", onNative},
		{"bubblewrap", bubblewrap}, {"kubernetes", onKubernetes}, {"kubectl exec", kubectlAlone},
	})
}

type adder struct {
	name string
	add  func(*testing.B) column
}

// beside compares columns with those that can be added. The rest runs inside the benchmark of a column, at whose end its sandboxes go.
func beside(b *testing.B, columns []column, rest []adder) {
	if len(rest) == 0 {
		compare(b, columns, 1)
		compare(b, columns, 16)
		attack(b, columns)
		return
	}
	added := false
	b.Run(rest[0].name, func(b *testing.B) {
		c := rest[0].add(b)
		c.name, added = rest[0].name, true
		beside(b, append(columns, c), rest[1:])
	})
	if !added { // it is missing here
		beside(b, columns, rest[1:])
	}
}

// column is one way to run commands. Each figure is for n sessions at the same time.
type column struct {
	name string
	// figures has an error of errNone or errNever, or nothing, for what a column does not have.
	figures map[string]func(ctx context.Context, n int) (time.Duration, error)
	// idle is the memory of a sandbox without a command, in bytes; nil if nothing is left between commands.
	idle func(ctx context.Context) (uint64, error)
	// config is of the driver that is attacked; nil for what is none.
	config *sandbox.Config
}

// The figures, as they are named in the table.
const (
	figureWarm   = "warm command"
	figureFirst  = "first command, no pool"
	figurePool   = "first command, from a pool"
	figureWrite  = "write of 1 MiB"
	figureOutput = "output of 1 GiB together"
	figureAbort  = "abort to nothing left"
)

// errNever is the error of an abort that leaves the command running.
var errNever = errors.New("the command goes on")

// compare takes all figures.
func compare(b *testing.B, columns []column, sessions int) {
	t := newDriverTable(fmt.Sprintf("%d at a time", sessions), columns)
	for _, name := range []string{figureWarm, figureFirst, figurePool, figureWrite, figureOutput, figureAbort} {
		took := make([][]time.Duration, len(columns))
		errs := make([]error, len(columns))
		for range driverRounds {
			for i, c := range columns {
				take := c.figures[name]
				if take == nil || errs[i] != nil {
					continue
				}
				var d time.Duration
				d, errs[i] = take(b.Context(), sessions)
				took[i] = append(took[i], d)
			}
		}
		t.row(name, func(i int) string {
			switch {
			case columns[i].figures[name] == nil:
				return "-"
			case errors.Is(errs[i], errNever):
				return "never"
			case errs[i] != nil:
				b.Errorf("%s: %s: %v", name, columns[i].name, errs[i])
				return "failed"
			}
			return fmt.Sprintf("%.2f ms", quantile(took[i][1:], 0.5))
		})
	}
	t.row("memory of an idle one", func(i int) string {
		if columns[i].idle == nil {
			return "-"
		}
		bytes, err := columns[i].idle(b.Context())
		if err != nil {
			b.Errorf("memory of an idle one: %s: %v", columns[i].name, err)
			return "failed"
		}
		return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20))
	})
	t.print()
}

// attack tries the self-test's attacks on each driver, once.
func attack(b *testing.B, columns []column) {
	reports := make([]selftest.Report, len(columns))
	for i, c := range columns {
		if c.config == nil {
			continue
		}
		attacked := selftest.Config{Driver: c.config.Driver, Spec: c.config.Spec, Supervisor: c.config.Supervisor, Dir: b.TempDir()}
		// As [sandbox] has it by default, and memory for as many processes as a cluster allows.
		attacked.Spec.DiskBytes, attacked.Spec.MemoryBytes = 2<<30, 1<<30
		err := selftest.FindPrograms(&attacked, c.config.Log)
		var s *selftest.Suite
		if err == nil {
			s, err = selftest.New(attacked)
		}
		if err == nil {
			reports[i], err = s.Run(b.Context())
		}
		if err != nil {
			b.Errorf("attacks: %s: %v", c.name, err)
		}
		for _, o := range reports[i].Outcomes {
			if o.Status != selftest.Pass {
				fmt.Printf("%s: %s: %s: %s\n", c.name, o.Status, o.Name, o.Detail)
			}
		}
	}
	t := newDriverTable("attacks", columns)
	for _, row := range []struct {
		name  string
		count func(selftest.Report) int
	}{
		{"held", func(r selftest.Report) int { return r.Passed }},
		{"weak", func(r selftest.Report) int { return r.Weak }},
		{"failed", func(r selftest.Report) int { return r.Failed }},
	} {
		t.row(row.name, func(i int) string {
			if columns[i].config == nil {
				return "-"
			}
			return fmt.Sprint(row.count(reports[i]))
		})
	}
	t.print()
}

// driverTable has a column for each driver.
type driverTable struct {
	columns []column
	w       *tabwriter.Writer
}

func newDriverTable(name string, columns []column) driverTable {
	t := driverTable{columns, tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)}
	fmt.Fprintln(t.w)
	t.row(name, func(i int) string { return columns[i].name })
	return t
}

func (t driverTable) row(name string, cell func(i int) string) {
	fmt.Fprintf(t.w, "%s\t", name)
	for i := range t.columns {
		fmt.Fprintf(t.w, "%s\t", cell(i))
	}
	fmt.Fprintln(t.w)
}

func (t driverTable) print() { _ = t.w.Flush() }

// timed is how long all take that begin at the same time.
func timed(n int, do func(i int) error) (time.Duration, error) {
	began := time.Now()
	err := together(n, do)
	return time.Since(began), err
}
