//go:build unix

package plugin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/message"
	channelkind "github.com/flynnhost/flynn/host/plugin/kind/channel"
)

func TestEventsAndReplies(t *testing.T) {
	t.Parallel()
	s := start(t, map[string]string{"actor": makePack(t, "good", packOptions{})})
	type answer struct {
		result message.Delivery
		err    error
	}
	answers := make(chan answer, 1)
	l := &listener{}
	s.add(Instance{Name: "one", Plugin: "actor"}, handlerFunc(func(ctx context.Context, c client) error {
		result, err := c.Send(ctx, message.Reply{Key: "k1", Conversation: message.Conversation{ID: "c"}, Text: "hi \xff"})
		answers <- answer{result, err}
		return l.Serve(ctx, c.Conn)
	}))
	st := s.await("one", Ready)
	if st.Version != "1.0.0" || !st.Dev || st.PID == 0 {
		t.Errorf("status is %+v", st)
	}
	a := <-answers
	if a.err != nil || a.result.Outcome != message.Sent || fmt.Sprint(a.result.PlatformIDs) != "[p-k1]" {
		t.Errorf("send: %+v, %v", a.result, a.err)
	}
	l.more(t, 5)
	l.mu.Lock()
	e := l.seen[0]
	l.mu.Unlock()
	if e.Channel != "one" || e.EventID != "e1" || e.Sender.ID != "u" || e.Text != "hello" || !e.Addressed || e.Kind != channelkind.EventMessage {
		t.Errorf("event is %+v", e)
	}
}

func TestMalformedEventsAreDroppedAndAcked(t *testing.T) {
	t.Parallel()
	s := start(t, map[string]string{"actor": makePack(t, "malformed-events", packOptions{tls: "none"})})
	l := &listener{}
	s.add(Instance{Name: "one", Plugin: "actor"}, l)
	l.more(t, 1)
	e := l.seen[0]
	if e.EventID != "e6" || len(e.Text) != message.MaxText || !e.Cut || e.Sender.Name != "a\uFFFDb" {
		t.Errorf("the first event is %s with %d bytes from %q", e.EventID, len(e.Text), e.Sender.Name)
	}
}

func TestWrongSettingsQuarantineAtOnce(t *testing.T) {
	s := start(t, map[string]string{"actor": makePack(t, "bad-config", packOptions{secret: true})})
	s.add(Instance{Name: "one", Plugin: "actor", Secrets: map[string]string{"token": "s3cr3t-t0ken"}}, &listener{})
	st := s.await("one", Quarantined)
	want := "configure: channels.one.server.port: want 1 to 65535; the token is [redacted]"
	if st.LastError != want || st.Restarts != 0 {
		t.Errorf("got %q after %d restarts, want %q at once", st.LastError, st.Restarts, want)
	}
	if strings.Contains(s.log.String(), "s3cr3t-t0ken") {
		t.Error("the secret stands in the log")
	}
}

func TestSecretsAreMaskedInTheLog(t *testing.T) {
	s := start(t, map[string]string{"actor": makePack(t, "log-secret", packOptions{secret: true})})
	s.add(Instance{Name: "one", Plugin: "actor", Secrets: map[string]string{"token": `a "quoted" s3cr3t`}}, &listener{})
	s.awaitLog("signing in")
	if log := s.log.String(); strings.Contains(log, "s3cr3t") || !strings.Contains(log, "fields.with=[redacted]") {
		t.Errorf("the log is not masked:\n%s", log)
	}
}

func TestOutputCannotHarmTheHost(t *testing.T) {
	t.Parallel()
	for mode, says := range map[string]string{
		"flood-stderr": "plugin logs too much",
		"flood-stdout": "plugin logs too much",
		"log-bomb":     "still here",
	} {
		t.Run(mode, func(t *testing.T) {
			s := start(t, map[string]string{"actor": makePack(t, mode, packOptions{})})
			l := &listener{}
			s.add(Instance{Name: "one", Plugin: "actor"}, l)
			s.awaitLog(says)
			l.more(t, 5)
			if st := s.status("one"); st.Restarts > 0 {
				t.Errorf("status is %+v", st)
			}
		})
	}
}

func TestEnvironmentIsScrubbed(t *testing.T) {
	t.Setenv("FLYNN_HOST_SECRET", "must-not-leak")
	t.Setenv("GRANTED", "may-pass")
	pack := makePack(t, "environment", packOptions{more: "permissions = { env = [\"GRANTED\"] }"})
	s := start(t, map[string]string{"actor": pack})
	s.add(Instance{Name: "one", Plugin: "actor"}, &listener{})
	s.awaitLog("GRANTED=may-pass")
	if log := s.log.String(); strings.Contains(log, "must-not-leak") {
		t.Errorf("the host's environment leaks:\n%s", log)
	}
}

func TestSendOutcomes(t *testing.T) {
	t.Parallel()
	for mode, test := range map[string]struct {
		within time.Duration
		want   message.Delivery
	}{
		"hang-send":  {5 * time.Second, message.Delivery{Outcome: message.Unknown}},
		"flood-wait": {patience, message.Delivery{Outcome: message.NotSent, RetryAfter: 7 * time.Second}},
	} {
		t.Run(mode, func(t *testing.T) {
			s := start(t, map[string]string{"actor": makePack(t, mode, packOptions{stop: "1s"})})
			results := make(chan message.Delivery, 1)
			s.add(Instance{Name: "one", Plugin: "actor"}, handlerFunc(func(ctx context.Context, c client) error {
				call, cancel := context.WithTimeout(ctx, test.within)
				defer cancel()
				r, err := c.Send(call, message.Reply{Key: "k"})
				if err == nil {
					t.Error("send returned no error")
				}
				results <- r
				<-ctx.Done()
				return nil
			}))
			if got := <-results; got.Outcome != test.want.Outcome || got.RetryAfter != test.want.RetryAfter {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestSendsInFlightFinishBeforeTheEnd(t *testing.T) {
	t.Parallel()
	s := start(t, map[string]string{"actor": makePack(t, "slow-send", packOptions{})})
	sending, sent := make(chan struct{}), make(chan error, 1)
	s.add(Instance{Name: "one", Plugin: "actor"}, handlerFunc(func(ctx context.Context, c client) error {
		close(sending)
		_, err := c.Send(ctx, message.Reply{Key: "k"})
		sent <- err
		<-ctx.Done()
		return nil
	}))
	<-sending
	s.end()
	if err := <-sent; err != nil {
		t.Errorf("the send in flight failed: %v", err)
	}
}

func TestDegradedIsShown(t *testing.T) {
	s := start(t, map[string]string{"actor": makePack(t, "degraded", packOptions{})})
	s.add(Instance{Name: "one", Plugin: "actor"}, &listener{})
	const want = "a credential must be renewed: token expired"
	s.awaitThat("one degraded", func(st Status) bool { return st.State == Degraded && st.Detail == want }) // it may be connecting before
}

func TestOrderlyEndIsQuick(t *testing.T) {
	t.Parallel()
	s := start(t, map[string]string{"actor": makePack(t, "good", packOptions{stop: "60s"})})
	s.add(Instance{Name: "one", Plugin: "actor"}, &listener{})
	pid := s.await("one", Ready).PID
	begin := time.Now()
	s.end()
	if took := time.Since(begin); took > patience {
		t.Errorf("the end took %v", took)
	}
	if alive(pid) {
		t.Error("the process is still there")
	}
	if left, _ := filepath.Glob(s.config.RunDir + "/plugin-dir*"); len(left) > 0 {
		t.Errorf("sockets are left: %v", left)
	}
}

func TestStubbornPluginsEndWithinTheBound(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"ignore-shutdown", "never-exits"} {
		t.Run(mode, func(t *testing.T) {
			options := packOptions{stop: "500ms"}
			if mode == "never-exits" {
				options.tls = "none"
			}
			s := start(t, map[string]string{"actor": makePack(t, mode, options)})
			s.add(Instance{Name: "one", Plugin: "actor"}, &listener{})
			pid := s.await("one", Ready).PID
			begin := time.Now()
			s.end()
			if took := time.Since(begin); took > patience {
				t.Errorf("the end took %v", took)
			}
			if alive(pid) {
				t.Error("the process is still there")
			}
		})
	}
}

func TestGrandchildrenGoWithThePlugin(t *testing.T) {
	s := start(t, map[string]string{"actor": makePack(t, "grandchild", packOptions{})})
	s.add(Instance{Name: "one", Plugin: "actor"}, &listener{})
	s.awaitLog("grandchild ")
	_, rest, _ := strings.Cut(s.log.String(), `"grandchild `)
	pid, err := strconv.Atoi(rest[:strings.IndexByte(rest, '"')])
	if err != nil || !alive(pid) {
		t.Fatalf("no grandchild: %d, %v", pid, err)
	}
	s.end()
	for deadline := time.Now().Add(patience); alive(pid); {
		if time.Now().After(deadline) {
			t.Fatal("the grandchild is still there")
		}
		time.Sleep(time.Millisecond) // a poll, not a synchronisation
	}
}

func TestAddRemoveRestart(t *testing.T) {
	t.Parallel()
	s := start(t, map[string]string{"actor": makePack(t, "good", packOptions{})})
	s.add(Instance{Name: "one", Plugin: "actor"}, &listener{})
	first := s.await("one", Ready).PID
	if err := s.Add(Instance{Name: "one", Plugin: "actor", Kind: channelkind.Name}, &listener{}); err == nil {
		t.Error("a second instance of one name was added")
	}
	if err := s.Restart("one"); err != nil {
		t.Fatal(err)
	}
	if second := s.await("one", Ready).PID; second == first || alive(first) {
		t.Errorf("pid %d after the restart, %d before", second, first)
	}
	pid := s.status("one").PID
	if err := s.Remove("one"); err != nil {
		t.Fatal(err)
	}
	if alive(pid) || len(s.Status()) > 0 {
		t.Errorf("after the removal: alive %t, status %+v", alive(pid), s.Status())
	}
	for name, err := range map[string]error{"remove": s.Remove("one"), "restart": s.Restart("one")} {
		if err == nil {
			t.Errorf("%s of nothing succeeded", name)
		}
	}
}

func TestNothingRunsThatIsNotLocked(t *testing.T) {
	s := start(t, nil)
	s.add(Instance{Name: "one", Plugin: "actor"}, &listener{})
	if st := s.await("one", Quarantined); !strings.Contains(st.LastError, `plugin "actor" is not installed: run flynn plugin install DIR`) {
		t.Errorf("the host says %q", st.LastError)
	}
}

func TestInstalledPluginRunsUntilItIsTamperedWith(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	installed, err := s.store.Install(makePack(t, "good", packOptions{}))
	if err != nil {
		t.Fatal(err)
	}
	l := &listener{}
	s.add(Instance{Name: "one", Plugin: "actor", Critical: true}, l)
	if err := s.WaitCritical(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.more(t, 1)
	if s.status("one").Dev {
		t.Error("an installed plugin shows as a development folder")
	}
	binary := filepath.Join(s.store.versions.Path(installed.dir()), "bin", "actor")
	if err := os.Remove(binary); err != nil { // the running process holds the old file
		t.Fatal(err)
	}
	if err := os.WriteFile(binary, []byte("#!/bin/sh\nexec sleep 1000\n"), 0o500); err != nil {
		t.Fatal(err)
	}
	if err := s.Restart("one"); err != nil {
		t.Fatal(err)
	}
	if st := s.await("one", Quarantined); !strings.Contains(st.LastError, "bin/actor is not the file that was installed") {
		t.Errorf("the host says %q", st.LastError)
	}
	if err := s.WaitCritical(t.Context()); err == nil {
		t.Error("a quarantined critical instance counts as ready")
	}
}

// A script may remove a quarantined plugin and install it again before the host looks at the lock.
func TestAReinstalledPluginLeavesQuarantine(t *testing.T) {
	t.Parallel()
	s := startPrepared(t, nil, Containment{}, func(h *Host) { h.timeouts.lockEvery = time.Hour })
	source := makePack(t, "good", packOptions{})
	installed, err := s.store.Install(source)
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(s.store.versions.Path(installed.dir()), "bin", "actor")
	if err := errors.Join(os.Remove(binary), os.WriteFile(binary, []byte("#!/bin/sh\n"), 0o500)); err != nil {
		t.Fatal(err)
	}
	l := &listener{}
	s.add(Instance{Name: "one", Plugin: "actor"}, l)
	s.await("one", Quarantined)
	before, err := s.store.lock.Read()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.store.Remove("actor"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.store.Install(source); err != nil {
		t.Fatal(err)
	}
	now, err := s.store.lock.Read()
	if err != nil {
		t.Fatal(err)
	}
	s.comply(t.Context(), before, now)
	s.await("one", Ready)
}

func TestRunFolder(t *testing.T) {
	t.Run("too long", func(t *testing.T) {
		_, err := claimRunDir("/tmp/"+strings.Repeat("x", 100), slog.New(slog.DiscardHandler))
		if err == nil || !strings.Contains(err.Error(), "leaves no room for a socket's name") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("one for each host", func(t *testing.T) {
		dir := t.TempDir()
		at := func(state string) string {
			h, err := New(Config{Dir: dir, StateDir: state})
			if err != nil {
				t.Fatal(err)
			}
			return h.config.RunDir
		}
		if one, again, other := at(dir+"/one"), at(dir+"/x/../one"), at(dir+"/two"); one != again || one == other {
			t.Errorf("run folders %s, %s, %s", one, again, other)
		}
	})
	t.Run("used by another host", func(t *testing.T) {
		dir, err := os.MkdirTemp("", "fr")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		release, err := claimRunDir(dir, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		defer release()
		if _, err := claimRunDir(dir, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "another host uses") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("open to others", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "r")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := privateDir(dir); err == nil {
			t.Error("a folder that others can read was accepted")
		}
	})
	t.Run("swept at boot", func(t *testing.T) {
		dir, err := os.MkdirTemp("", "fr")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		left := filepath.Join(dir, "plugin-dir123")
		if err := os.Mkdir(left, 0o700); err != nil {
			t.Fatal(err)
		}
		release, err := claimRunDir(dir, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		defer release()
		if _, err := os.Stat(left); err == nil {
			t.Error("the folder of a killed host is still there")
		}
	})
}

var errNotDurable = errors.New("disk full")

func TestFailedTakeoverBreaksTheStreamAndReplays(t *testing.T) {
	t.Parallel()
	s := start(t, map[string]string{"actor": makePack(t, "good", packOptions{})})
	ids := make(chan string, 2)
	s.add(Instance{Name: "one", Plugin: "actor"}, handlerFunc(func(ctx context.Context, c client) error {
		err := c.Receive(ctx, 4, func(e channelkind.Event, done func(error)) {
			ids <- e.EventID
			done(errNotDurable)
		})
		if !errors.Is(err, errNotDurable) || !strings.Contains(err.Error(), "accept event 1") {
			t.Errorf("receive returned %v", err)
		}
		return c.Receive(ctx, 4, func(e channelkind.Event, done func(error)) {
			select {
			case ids <- e.EventID:
			default:
			}
			done(nil)
		})
	}))
	if first, again := <-ids, <-ids; first != "e1" || again != "e1" {
		t.Errorf("got %s and then %s, want e1 twice", first, again)
	}
}
