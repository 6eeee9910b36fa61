//go:build unix

package plugin

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/flynnhost/flynn/host/message"
	channelkind "github.com/flynnhost/flynn/host/plugin/kind/channel"
	"github.com/flynnhost/flynn/host/plugin/testdata/pulse"
	"github.com/flynnhost/flynn/sdk/channel"
)

// figures are those of one channel, run in one way.
type figures struct {
	starts                []time.Duration // to ready
	resident, private     int64           // bytes; 0 for none of its own
	acked                 float64         // messages a second
	here, back, roundtrip []time.Duration // from the channel to the host; until the channel has the ack; a reply, there and back
}

// How much is measured.
const (
	figureStarts   = 20
	figureMessages = 2000
	figureFlood    = 2 * time.Second
)

// BenchmarkFigures prints what a channel costs as a plugin, held in and not, beside the same channel within the process of the host, which
// is how other hosts have theirs.
func BenchmarkFigures(b *testing.B) {
	dir := buildPulse(b)
	held, plain, within := figures{}, figures{}, figures{}
	for b.Loop() {
		held = figuresOfPlugin(b, dir, Containment{Launcher: testLauncher(b)})
		plain = figuresOfPlugin(b, dir, Containment{})
		within = figuresWithin(b)
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\nto ready p50\tp99 ms\tresident\tprivate MiB\tacked/s\tto host p50\tp99 us\tacked p50\tp99 us\treply p50\tp99 us\t ")
	held.print(w, "a process, held in")
	plain.print(w, "a process, not held in")
	within.print(w, "the same channel within the host")
	if err := w.Flush(); err != nil {
		b.Fatal(err)
	}
	fmt.Println("No other host that we have measured runs a channel as a process of its own: the last row is how theirs are built.")
}

func (f figures) print(w *tabwriter.Writer, name string) {
	percentile := func(d []time.Duration, p int) time.Duration {
		sorted := slices.Sorted(slices.Values(d))
		return sorted[min(len(sorted)-1, len(sorted)*p/100)]
	}
	us := func(d []time.Duration, p int) float64 { return float64(percentile(d, p)) / float64(time.Microsecond) }
	fmt.Fprintf(w, "%.2f\t%.2f\t%.1f\t%.1f\t%.0f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t  %s\n", us(f.starts, 50)/1e3, us(f.starts, 99)/1e3,
		float64(f.resident)/(1<<20), float64(f.private)/(1<<20), f.acked, us(f.here, 50), us(f.here, 99), us(f.back, 50), us(f.back, 99),
		us(f.roundtrip, 50), us(f.roundtrip, 99), name)
}

// buildPulse builds the plugin as a release is built.
func buildPulse(b *testing.B) string {
	b.Helper()
	dir := b.TempDir()
	manifest, err := os.ReadFile("testdata/pulse/plugin.toml")
	if err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, ManifestName), manifest, 0o644); err != nil {
		b.Fatal(err)
	}
	build := exec.Command("go", "build", "-buildvcs=false", "-trimpath", "-ldflags=-s -w", "-o", filepath.Join(dir, "bin", "pulse"), "./testdata/pulse/program")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("build the plugin: %v\n%s", err, out)
	}
	return dir
}

// meter takes what a channel delivers, and measures.
type meter struct{ f figures }

func (m *meter) take(text string, now time.Time) {
	at, took, _ := strings.Cut(text, " ")
	began, _ := strconv.ParseInt(at, 10, 64)
	acked, _ := strconv.ParseInt(took, 10, 64)
	m.f.here = append(m.f.here, now.Sub(time.Unix(0, began)))
	if acked > 0 {
		m.f.back = append(m.f.back, time.Duration(acked))
	}
}

func figuresOfPlugin(b *testing.B, dir string, contain Containment) figures {
	s := startContained(b, map[string]string{"pulse": dir}, contain)
	m := meter{}
	for i := range figureStarts {
		name := fmt.Sprint("start", i)
		began := time.Now()
		s.add(Instance{Name: name, Plugin: "pulse"}, &listener{})
		s.await(name, Ready)
		m.f.starts = append(m.f.starts, time.Since(began))
		if err := s.Remove(name); err != nil {
			b.Fatal(err)
		}
	}
	over := make(chan error, 1)
	s.add(Instance{Name: "latency", Plugin: "pulse"}, handlerFunc(func(ctx context.Context, c client) error {
		until, enough := context.WithCancel(ctx)
		err := c.Receive(until, 32, func(e channelkind.Event, done func(error)) {
			m.take(e.Text, time.Now())
			done(nil)
			if len(m.f.here) == figureMessages {
				enough()
			}
		})
		if ctx.Err() != nil {
			return err
		}
		m.f.resident, m.f.private = memoryOf(s.status("latency").PID)
		over <- m.sends(func(key string) error {
			_, err := c.Send(ctx, message.Reply{Key: key, Text: "hello"})
			return err
		})
		<-ctx.Done()
		return nil
	}))
	if err := <-over; err != nil {
		b.Fatal(err)
	}
	if err := s.Remove("latency"); err != nil {
		b.Fatal(err)
	}
	l := &listener{}
	s.add(Instance{Name: "flood", Plugin: "pulse", Settings: map[string]any{"flood": true}}, l)
	s.await("flood", Ready)
	m.f.acked = rate(l.count.Load)
	s.end() // nothing of it runs beside what is measured next
	return m.f
}

// sends measures replies, one after the other.
func (m *meter) sends(send func(key string) error) error {
	for i := range figureMessages {
		began := time.Now()
		if err := send(fmt.Sprint("k", i)); err != nil {
			return err
		}
		m.f.roundtrip = append(m.f.roundtrip, time.Since(began))
	}
	return nil
}

// rate is how much a count grows in a second, once it grows.
func rate(count func() int64) float64 {
	for count() == 0 {
		time.Sleep(time.Millisecond) // a poll, not a synchronisation
	}
	before, began := count(), time.Now()
	time.Sleep(figureFlood) // the time that is measured
	return float64(count()-before) / time.Since(began).Seconds()
}

// memoryOf is what the kernel says about a process, in bytes.
func memoryOf(pid int) (resident, private int64) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0, 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 {
			continue
		}
		kib, _ := strconv.ParseInt(fields[1], 10, 64)
		switch fields[0] {
		case "Rss:":
			resident = kib << 10
		case "Private_Clean:", "Private_Dirty:":
			private += kib << 10
		}
	}
	return resident, private
}

// within is the inbox of a channel within the host: events go over a Go channel, in which as many wait as a window has room for.
type within struct {
	events chan insideEvent
}

type insideEvent struct {
	event channel.Event
	done  func(error)
}

func (w within) Deliver(ctx context.Context, e channel.Event) error {
	done := make(chan error, 1)
	if err := w.DeliverAsync(ctx, e, func(err error) { done <- err }); err != nil {
		return err
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w within) DeliverAsync(ctx context.Context, e channel.Event, done func(error)) error {
	select {
	case w.events <- insideEvent{e, done}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (within) Status(channel.State, string) {}

func (within) LoginCode(string, string) {}

func figuresWithin(b *testing.B) figures {
	m := meter{}
	for range figureStarts {
		began := time.Now()
		stop := runWithin(b, nil, func(channel.Event) {})
		m.f.starts = append(m.f.starts, time.Since(began))
		stop()
	}
	enough := make(chan struct{})
	stop := runWithin(b, nil, func(e channel.Event) {
		if m.take(e.Text, time.Now()); len(m.f.here) == figureMessages {
			close(enough)
		}
	})
	<-enough
	stop()
	c := &pulse.Channel{}
	if err := m.sends(func(key string) error {
		_, err := c.Send(b.Context(), channel.Send{Key: key, Text: "hello"})
		return err
	}); err != nil {
		b.Fatal(err)
	}
	l := &listener{}
	stop = runWithin(b, map[string]any{"flood": true}, func(channel.Event) { l.count.Add(1) })
	m.f.acked = rate(l.count.Load)
	stop()
	return m.f
}

// runWithin runs the channel in this process until stop.
func runWithin(b *testing.B, settings map[string]any, take func(channel.Event)) (stop func()) {
	c, in := &pulse.Channel{}, within{make(chan insideEvent, 32)}
	if err := c.Configure(b.Context(), channel.Config{Settings: settings}); err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	over := make(chan error, 2)
	go func() { over <- c.Run(ctx, in) }()
	go func() {
		for {
			select {
			case e := <-in.events:
				take(e.event)
				e.done(nil)
			case <-ctx.Done():
				over <- nil
				return
			}
		}
	}()
	return func() {
		cancel()
		<-over
		<-over
	}
}
