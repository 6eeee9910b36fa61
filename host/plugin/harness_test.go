//go:build unix

package plugin

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/internal/event"
	"github.com/flynnhost/flynn/host/plugin/kind"
	channelkind "github.com/flynnhost/flynn/host/plugin/kind/channel"
)

// patience bounds every wait of these tests; a correct host needs a fraction of it. It is below the longest stop_timeout.
const patience = 50 * time.Second

// logBuffer is a log that can be read while it is written.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// stage is a running host with a record of everything that it announces.
type stage struct {
	*Host
	t    testing.TB
	log  *logBuffer
	stop context.CancelFunc
	over chan error

	mu      sync.Mutex
	history []Status
	changed chan struct{}
}

// packOptions change the manifest of a test's plugin.
type packOptions struct {
	tls    string // auto
	start  string // 40s
	stop   string // 10s
	more   string // further lines
	schema string // of the settings
	secret bool
}

// makePack makes a folder with a manifest and the test binary in the part of a plugin.
func makePack(t testing.TB, mode string, o packOptions) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "bin", "actor")
	if os.Link(self, binary) != nil {
		text, err := os.ReadFile(self)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(binary, text, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	manifest := fmt.Sprintf(`manifest = 1
name = "actor"
version = "1.0.0"
kinds = ["channel"]
protocols = [1]
exec = { any = ["bin/actor", "plugin:%s"] }
run = { tls = %q, start_timeout = %q, stop_timeout = %q }
%s
`, mode, orElse(o.tls, "auto"), orElse(o.start, "40s"), orElse(o.stop, "10s"), o.more)
	if o.secret {
		manifest += "config = { secrets = [\"token\"] }\n"
	}
	if o.schema != "" {
		manifest += "config = { schema = \"settings.json\", secrets = [\"token\"] }\n"
		if err := os.WriteFile(filepath.Join(dir, "settings.json"), []byte(o.schema), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, ManifestName), []byte(manifest), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func orElse(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}

// quickTimeouts is supervision for tests: the same rules, shorter periods. A process has long to answer: the machine may have other work.
func quickTimeouts() timeouts {
	return timeouts{
		describe: 30 * time.Second, healthEvery: 50 * time.Millisecond, healthIn: 20 * time.Second, healthMiss: 3,
		statusEvery: time.Millisecond, stdin: 200 * time.Millisecond, reap: 30 * time.Second,
		lockEvery: 20 * time.Millisecond, namesEvery: 20 * time.Millisecond, proof: 500 * time.Millisecond, exitLag: time.Second,
	}
}

// start runs a host with the given development plugins until the test ends.
func start(t testing.TB, dev map[string]string) *stage {
	t.Helper()
	return startContained(t, dev, Containment{})
}

// startContained is start with plugins that are held in.
func startContained(t testing.TB, dev map[string]string, contain Containment) *stage {
	t.Helper()
	return startPrepared(t, dev, contain, func(*Host) {})
}

// startPrepared is startContained with a host that is prepared before it runs.
func startPrepared(t testing.TB, dev map[string]string, contain Containment, prepare func(*Host)) *stage {
	t.Helper()
	needProcesses(t)
	run, err := os.MkdirTemp("", "fr")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(run) })
	s := &stage{t: t, log: &logBuffer{}, over: make(chan error, 1), changed: make(chan struct{})}
	s.Host, err = New(Config{
		Dir: t.TempDir(), RunDir: run, DevPaths: dev, Events: event.Only(s.record), Contain: contain,
		Log: slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Host.timeouts = quickTimeouts()
	prepare(s.Host)
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	go func() { s.over <- s.Run(ctx) }()
	t.Cleanup(s.end)
	return s
}

// testLauncher is the test binary in the part of the launcher.
func testLauncher(t testing.TB) []string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return []string{self, "contain"}
}

// end stops the host and shows its log if the test failed.
func (s *stage) end() {
	s.stop()
	if err := <-s.over; err != nil {
		s.t.Errorf("run: %v", err)
	}
	s.over <- nil
	if s.t.Failed() {
		s.t.Logf("host log:\n%s", s.log)
	}
}

func (s *stage) record(changed StateChanged) {
	now := changed.Status
	s.mu.Lock()
	defer s.mu.Unlock()
	s.history = append(s.history, now)
	close(s.changed)
	s.changed = make(chan struct{})
}

// await waits until the instance has been in a state, and returns the status of then.
func (s *stage) await(name string, state State) Status {
	s.t.Helper()
	return s.awaitThat(name+" "+string(state), func(st Status) bool { return st.Name == name && st.State == state })
}

func (s *stage) awaitThat(what string, is func(Status) bool) Status {
	s.t.Helper()
	timeout := time.After(patience)
	for {
		s.mu.Lock()
		i := slices.IndexFunc(s.history, is)
		changed := s.changed
		var found Status
		if i >= 0 {
			found = s.history[i]
			s.history = s.history[i+1:]
		}
		s.mu.Unlock()
		if i >= 0 {
			return found
		}
		select {
		case <-changed:
		case <-timeout:
			s.t.Fatalf("waited for %s, got only %+v\nhost log:\n%s", what, s.Status(), s.log)
		}
	}
}

// awaitLog waits until the log holds text.
func (s *stage) awaitLog(text string) {
	s.t.Helper()
	s.until(fmt.Sprintf("%q in the log", text), func() bool { return strings.Contains(s.log.String(), text) })
}

// until waits until something is so.
func (s *stage) until(what string, is func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(5 * time.Millisecond) { // a poll, not a synchronisation
		if time.Now().After(deadline) {
			s.t.Fatalf("waited for %s, got only %+v\nhost log:\n%s", what, s.Status(), s.log)
		}
	}
}

// add adds an instance of the development plugin called actor.
func (s *stage) add(i Instance, use Handler) {
	s.t.Helper()
	i.Kind = channelkind.Name
	if err := s.Add(i, use); err != nil {
		s.t.Fatal(err)
	}
}

// listener takes every event and counts.
type listener struct {
	count atomic.Int64
	mu    sync.Mutex
	seen  []channelkind.Event
}

func (l *listener) Serve(ctx context.Context, c *kind.Conn) error {
	return channelkind.NewClient(c).Receive(ctx, 32, func(e channelkind.Event, done func(error)) {
		l.mu.Lock()
		if len(l.seen) < 100 {
			l.seen = append(l.seen, e)
		}
		l.mu.Unlock()
		l.count.Add(1)
		done(nil)
	})
}

// more waits until n further events have come.
func (l *listener) more(t testing.TB, n int64) {
	t.Helper()
	want := l.count.Load() + n
	for deadline := time.Now().Add(patience); l.count.Load() < want; {
		if time.Now().After(deadline) {
			t.Fatalf("only %d events came, want %d", l.count.Load(), want)
		}
		time.Sleep(time.Millisecond) // a poll, not a synchronisation
	}
}

// status is the present status of an instance.
func (s *stage) status(name string) Status {
	for _, st := range s.Status() {
		if st.Name == name {
			return st
		}
	}
	return Status{}
}

// rename gives the plugin in dir another name.
func rename(t testing.TB, dir, from, to string) {
	t.Helper()
	file := filepath.Join(dir, ManifestName)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.Replace(text, []byte(fmt.Sprintf("name = %q", from)), []byte(fmt.Sprintf("name = %q", to)), 1)
	if err := os.WriteFile(file, text, 0o644); err != nil {
		t.Fatal(err)
	}
}
