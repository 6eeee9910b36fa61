package sandbox_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	membership "github.com/flynnhost/flynn/host/cluster"
	"github.com/flynnhost/flynn/host/internal/redact"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/fleet"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/database"
	"github.com/flynnhost/flynn/host/store/postgres/postgrestest"
)

// The hosts of these tests are processes that share a database, as those of a cluster do.

// amongHosts is a host's part in the cluster.
type amongHosts struct {
	member *membership.Member // nil: it is alone
	leave  func()
}

// conversationOf returns the conversation whose turns use a session.
func conversationOf(s message.WorkspaceKey) store.OwnerKey {
	return store.ConversationOwner(message.NewConversationKey("irc", string(s)))
}

// join makes the process a host of the cluster.
func (o hostOrder) join(t *testing.T, config *sandbox.Config) *amongHosts {
	s, err := database.At(t.TempDir(), "TEST", redact.Secret(o.Store), o.Name).Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	a := &amongHosts{member: membership.New(membership.Config{Owners: s, Log: config.Log})}
	membership.NewUptake(membership.UptakeConfig{Member: a.member, Turns: noTurns{}, Bounds: noTurns{}, Log: config.Log})
	config.Registry = fleet.Registry(s, a.member)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = a.member.Run(ctx) })
	a.leave = sync.OnceFunc(func() {
		cancel()
		running.Wait()
		a.member.Leave()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(a.leave)
	return a
}

// serve serves a call as a turn of the session's conversation does.
func (a *amongHosts) serve(t *testing.T, c hostCall, call func(context.Context) hostAnswer) hostAnswer {
	if a.member == nil || c.Session == "" {
		return call(t.Context())
	}
	work, done, err := a.member.Enter(t.Context(), conversationOf(c.Session), nil)
	if err != nil {
		return hostAnswer{Error: err.Error()}
	}
	defer done()
	return call(work)
}

// noTurns is a host without turns.
type noTurns struct{}

func (noTurns) Admitted() []store.Count { return nil }
func (noTurns) Counted(store.Count)     {}

func (noTurns) Lost(store.OwnerKey)                                        {}
func (noTurns) StopIn(message.ConversationKey) bool                        { return false }
func (noTurns) Look(context.Context, []store.OwnerKey, bool) (bool, error) { return true, nil }

// hostsOn are orders for hosts a and b of one cluster, and their database.
func hostsOn(t *testing.T, c clusterOf) (a, b hostOrder, records func() []store.Sandbox) {
	t.Helper()
	server := postgrestest.Start(t)
	url := server.URL(server.Database(t))
	a, b = c.order(t), c.order(t)
	a.Name, a.Store, b.Name, b.Store = "a", url, "b", url
	return a, b, func() []store.Sandbox {
		t.Helper()
		s, err := database.At(t.TempDir(), "TEST", redact.Secret(url), "observer").Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		all, err := s.ListSandboxes(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
}

// clusterOf is where the sandboxes of a test are.
type clusterOf interface {
	order(t testing.TB) hostOrder
	left(t testing.TB, instance string) []string
}

// sixty prints sixty lines in half a minute.
const sixty = "for i in $(seq 60); do echo $i; sleep 0.5; done"

// until does a call again until it succeeds, because the host may not own the conversation yet.
func (h *remoteHost) until(c hostCall) hostAnswer {
	h.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		h.tell(c)
		a := h.answer()
		if a.Error == "" {
			return a
		}
		if time.Now().After(deadline) {
			h.t.Fatalf("%+v: %s", c, a.Error)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func TestKubernetesOfAnotherHost(t *testing.T)    { ofAnotherHost(t, newCluster(t)) }
func TestKubernetesOfASuspendedHost(t *testing.T) { ofASuspendedHost(t, newCluster(t)) }
func TestKubernetesHandedOver(t *testing.T)       { handedOver(t, newCluster(t)) }
func TestKubernetesThatNobodyTakes(t *testing.T)  { thatNobodyTakes(t, newCluster(t)) }

// A host is killed while a command runs in a sandbox. Another host of the cluster goes on with it: its output comes whole and once, and its files are
// there. The first host, when it is back, leaves the sandbox alone.
func ofAnotherHost(t *testing.T, c clusterOf) {
	orderA, orderB, records := hostsOn(t, c)
	a, b := newHost(t, orderA), newHost(t, orderB)
	p := a.do(hostCall{Do: "start", Session: "s", Script: sixty}).Process
	a.do(hostCall{Do: "exec", Session: "s", Script: "mkdir d; echo kept >d/f; ln -s f d/l"})
	before := c.left(t, orderA.Instance)
	if len(before) != 1 || len(records()) != 1 {
		t.Fatalf("sandboxes %q, records %+v", before, records())
	}
	b.do(hostCall{Do: "reconcile"})
	b.tell(hostCall{Do: "processes", Session: "s"})
	if got := b.answer(); got.Error == "" || !strings.Contains(got.Error, store.ErrOwned.Error()) {
		t.Errorf("the other host got in while the first lives: %+v", got)
	}
	a.kill()
	began := time.Now()
	if all := b.until(hostCall{Do: "processes", Session: "s"}); len(all.Processes) != 1 || all.Processes[0].ID != p.ID || !all.Processes[0].Running || all.Stats.Adopted != 1 {
		t.Fatalf("answer %+v", all)
	}
	t.Logf("taken over %v after the kill", time.Since(began).Round(time.Millisecond))
	for _, line := range b.said {
		if strings.Contains(line, "took over a sandbox") {
			t.Log(line)
		}
	}
	text := ""
	for running := true; running; {
		running = b.do(hostCall{Do: "processes", Session: "s"}).Processes[0].Running
		text += b.do(hostCall{Do: "output", Session: "s", ID: p.ID, Offset: int64(len(text))}).Text
	}
	if n := counted(t, text); n != 60 {
		t.Errorf("%d lines came: %q", n, text)
	}
	if out := b.do(hostCall{Do: "exec", Session: "s", Script: "cat d/l; echo more >>d/f"}).Text; out != "kept\n" {
		t.Errorf("printed %q", out)
	}
	if at, err := os.ReadFile(filepath.Join(home(t, orderB.Root, "s"), "d", "f")); err != nil || string(at) != "kept\nmore\n" {
		t.Errorf("at home: %q (%v)", at, err)
	}
	again := newHost(t, orderA)
	again.do(hostCall{Do: "reconcile"})
	if again.first.Stats.Adopted != 0 || !slices.Equal(c.left(t, orderA.Instance), before) {
		t.Errorf("the first host is back: %+v, sandboxes %q, before %q", again.first.Stats, c.left(t, orderA.Instance), before)
	}
	if out := b.do(hostCall{Do: "exec", Session: "s", Script: "cat d/f"}).Text; out != "kept\nmore\n" {
		t.Errorf("after that it printed %q", out)
	}
	b.do(hostCall{Do: "destroy", Session: "s"})
	if left := c.left(t, orderA.Instance); len(left) > 0 || len(records()) > 0 {
		t.Errorf("left: %q, records %+v", left, records())
	}
}

// A host that was suspended comes back, finds itself refused, and forgets the sandbox without removing it.
func ofASuspendedHost(t *testing.T, c clusterOf) {
	orderA, orderB, _ := hostsOn(t, c)
	a, b := newHost(t, orderA), newHost(t, orderB)
	p := a.do(hostCall{Do: "start", Session: "s", Script: counter}).Process
	before := c.left(t, orderA.Instance)
	if err := a.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = a.cmd.Process.Signal(syscall.SIGCONT) }()
	if all := b.until(hostCall{Do: "processes", Session: "s"}).Processes; len(all) != 1 || all[0].ID != p.ID || !all[0].Running {
		t.Fatalf("processes %+v", all)
	}
	if err := a.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	a.tell(hostCall{Do: "processes", Session: "s"})
	if got := a.answer(); got.Error == "" {
		t.Errorf("the first host still has it: %+v", got)
	}
	a.do(hostCall{Do: "reconcile"})
	a.do(hostCall{Do: "end"})
	if all := b.do(hostCall{Do: "processes", Session: "s"}).Processes; len(all) != 1 || !all[0].Running {
		t.Errorf("after that: %+v", all)
	}
	counted(t, b.do(hostCall{Do: "output", Session: "s", ID: p.ID}).Text)
	if after := c.left(t, orderA.Instance); !slices.Equal(after, before) {
		t.Errorf("sandboxes %q, before %q", after, before)
	}
	b.do(hostCall{Do: "destroy", Session: "s"})
}

// A host that ends in good order leaves its sandboxes to the next one, even if nothing runs there; and back again.
func handedOver(t *testing.T, c clusterOf) {
	orderA, orderB, records := hostsOn(t, c)
	a, b := newHost(t, orderA), newHost(t, orderB)
	a.do(hostCall{Do: "exec", Session: "s", Script: "echo a >f; echo a >gone"})
	before := c.left(t, orderA.Instance)
	a.do(hostCall{Do: "end"})
	if out := b.until(hostCall{Do: "exec", Session: "s", Script: "cat f; rm gone; echo b >f"}); out.Text != "a\n" || out.Stats.Adopted != 1 {
		t.Errorf("answer %+v", out)
	}
	again := newHost(t, orderA)
	b.do(hostCall{Do: "end"})
	if out := again.until(hostCall{Do: "exec", Session: "s", Script: "cat f; ls"}); out.Text != "b\nf\n" || out.Stats.Adopted != 1 {
		t.Errorf("answer %+v", out)
	}
	if got := treeOf(t, home(t, orderA.Root, "s")); strings.Contains(got, "gone") || !strings.Contains(got, "b") {
		t.Errorf("at home: %q", got)
	}
	if after := c.left(t, orderA.Instance); !slices.Equal(after, before) {
		t.Errorf("sandboxes %q, before %q", after, before)
	}
	again.do(hostCall{Do: "destroy", Session: "s"})
	if left := c.left(t, orderA.Instance); len(left) > 0 || len(records()) > 0 {
		t.Errorf("left: %q, records %+v", left, records())
	}
}

// A sandbox that no host takes ends with its lease, and is removed by its engine or by the next host that looks.
func thatNobodyTakes(t *testing.T, c clusterOf) {
	orderA, orderB, records := hostsOn(t, c)
	orderA.Lease = 2 * time.Second
	a := newHost(t, orderA)
	a.do(hostCall{Do: "start", Session: "s", Script: counter})
	a.kill()
	eventually(t, "the sandbox ends", func() bool {
		left := c.left(t, orderA.Instance)
		return len(left) == 0 || strings.HasSuffix(left[0], " exited")
	})
	b := newHost(t, orderB)
	eventually(t, "it is removed", func() bool {
		b.do(hostCall{Do: "reconcile"})
		return len(c.left(t, orderA.Instance)) == 0 && len(records()) == 0
	})
	if out := b.do(hostCall{Do: "exec", Session: "s", Script: "echo new"}); out.Text != "new\n" || out.Stats.Adopted != 0 {
		t.Errorf("answer %+v", out)
	}
}
