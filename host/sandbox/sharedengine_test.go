package sandbox_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/docker"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/program"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
	"github.com/flynnhost/flynn/host/sandbox/spec"
	"github.com/flynnhost/flynn/host/store"
)

// sharedEngine is a container engine that several hosts reach over a network.
type sharedEngine struct {
	*sandboxtest.Private
	way docker.Config
}

// onSharedEngines runs a test with an engine for each way to it.
func onSharedEngines(t *testing.T, do func(t *testing.T, e sharedEngine)) {
	for _, c := range remoteEngines {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e, way := c.open(t)
			do(t, sharedEngine{e, way})
		})
	}
}

// order is an instance on the engine.
func (e sharedEngine) order(t testing.TB) hostOrder {
	_, order := restartable(t)
	order.Engine = e.way
	return order
}

// adjustTo changes a configuration to the engine of an order.
func (o hostOrder) adjustTo(t testing.TB, c *sandbox.Config) { shareEngine(t, o.Engine, c) }

func shareEngine(t testing.TB, way docker.Config, c *sandbox.Config) {
	t.Helper()
	d, err := docker.New(way)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	c.Driver = docker.NewListening(d)
	if c.Supervisor, err = program.FindSupervisorFor(c.Driver, c.Log); err != nil {
		t.Fatal(err)
	}
}

// left are the containers of an instance that are there.
func (e sharedEngine) left(t testing.TB, instance string) (ids []string) {
	t.Helper()
	owned, err := e.Driver.List(context.Background(), instance)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range owned {
		ids = append(ids, o.ID+" "+o.State)
	}
	return ids
}

func TestSharedEngineOfAnotherHost(t *testing.T) {
	onSharedEngines(t, func(t *testing.T, e sharedEngine) { ofAnotherHost(t, e) })
}

func TestSharedEngineOfASuspendedHost(t *testing.T) {
	onSharedEngines(t, func(t *testing.T, e sharedEngine) { ofASuspendedHost(t, e) })
}

func TestSharedEngineHandedOver(t *testing.T) {
	onSharedEngines(t, func(t *testing.T, e sharedEngine) { handedOver(t, e) })
}

func TestSharedEngineThatNobodyTakes(t *testing.T) {
	onSharedEngines(t, func(t *testing.T, e sharedEngine) { thatNobodyTakes(t, e) })
}

// A host whose engine does not answer when it should take a sandbox over does so when the engine answers again.
func TestSharedEngineGoesDuringTakeover(t *testing.T) {
	t.Parallel()
	private, way := sandboxtest.OverTLS(t)
	e := sharedEngine{private, way}
	orderA, orderB, records := hostsOn(t, e)
	a, b := newHost(t, orderA), newHost(t, orderB)
	p := a.do(hostCall{Do: "start", Session: "s", Script: sixty}).Process
	a.kill()
	e.Freeze()
	eventually(t, "the engine is missed", func() bool {
		b.tell(hostCall{Do: "processes", Session: "s"})
		why := b.answer().Error
		return strings.Contains(why, way.Engine) && !strings.Contains(why, store.ErrOwned.Error())
	})
	if all := records(); len(all) != 1 {
		t.Errorf("records %+v", all)
	}
	e.Thaw()
	if all := b.until(hostCall{Do: "processes", Session: "s"}); len(all.Processes) != 1 || all.Processes[0].ID != p.ID || all.Stats.Adopted != 1 {
		t.Fatalf("answer %+v", all)
	}
	text := ""
	for running := true; running; {
		running = b.do(hostCall{Do: "processes", Session: "s"}).Processes[0].Running
		text += b.do(hostCall{Do: "output", Session: "s", ID: p.ID, Offset: int64(len(text))}).Text
	}
	if n := counted(t, text); n != 60 {
		t.Errorf("%d lines came: %q", n, text)
	}
	b.do(hostCall{Do: "destroy", Session: "s"})
}

// Hosts on one engine leave each other's containers alone, and those of strangers.
func TestHostsOnOneEngine(t *testing.T) {
	t.Parallel()
	private, way := sandboxtest.OverTLS(t)
	e := sharedEngine{private, way}
	stranger, err := e.API.ContainerCreate(t.Context(), &container.Config{Image: sandboxtest.Image, Cmd: []string{"sleep", "1000"}}, nil, nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	orderA, orderB, records := hostsOn(t, e)
	a, b := newHost(t, orderA), newHost(t, orderB)
	a.do(hostCall{Do: "exec", Session: "s", Script: "true"})
	b.do(hostCall{Do: "exec", Session: "t", Script: "true"})
	before := append(e.left(t, orderA.Instance), e.left(t, orderB.Instance)...)
	for range 3 {
		a.do(hostCall{Do: "reconcile"})
		b.do(hostCall{Do: "reconcile"})
	}
	if after := append(e.left(t, orderA.Instance), e.left(t, orderB.Instance)...); len(before) != 2 || !slices.Equal(after, before) {
		t.Errorf("containers %q, before %q", after, before)
	}
	if _, err := e.API.ContainerInspect(t.Context(), stranger.ID); err != nil {
		t.Errorf("the stranger's container: %v", err)
	}
	a.do(hostCall{Do: "destroy", Session: "s"})
	if left := e.left(t, orderB.Instance); len(left) != 1 || len(records()) != 1 {
		t.Errorf("after the other host has ended its own: %q, records %+v", left, records())
	}
	b.do(hostCall{Do: "destroy", Session: "t"})
}

// A sandbox with a folder of its own keeps that apart from the session's workspace when another host takes it over.
func TestSharedEngineWithAFolderOfItsOwn(t *testing.T) {
	t.Parallel()
	private, way := sandboxtest.OverTLS(t)
	orderA, orderB, _ := hostsOn(t, sharedEngine{private, way})
	orderA.Workspace, orderB.Workspace = spec.WorkspaceOwn, spec.WorkspaceOwn
	a, b := newHost(t, orderA), newHost(t, orderB)
	a.do(hostCall{Do: "exec", Session: "s", Script: "echo mine >f"})
	a.do(hostCall{Do: "end"})
	if out := b.until(hostCall{Do: "exec", Session: "s", Script: "cat f"}); out.Text != "mine\n" || out.Stats.Adopted != 1 {
		t.Errorf("answer %+v", out)
	}
	if exists(filepath.Join(home(t, orderB.Root, "s"), "f")) {
		t.Error("its file is in the session's workspace")
	}
	own := message.WorkspaceKey(spec.Spec{Workspace: spec.WorkspaceOwn}.Folder("s", "default"))
	if text, err := os.ReadFile(filepath.Join(home(t, orderB.Root, own), "f")); err != nil || string(text) != "mine\n" {
		t.Errorf("in its folder: %q (%v)", text, err)
	}
	b.do(hostCall{Do: "destroy", Session: "s"})
}

// thisMachine is the engine of this machine, whose containers mount the folders of the host that makes them.
type thisMachine struct{ sandboxtest.Host }

func (thisMachine) order(t testing.TB) hostOrder {
	_, order := restartable(t)
	return order
}

func (m thisMachine) left(t testing.TB, instance string) (ids []string) {
	for _, c := range containers(t, m.Host, instance) {
		ids = append(ids, c.ID)
	}
	return ids
}

// On the engine of one machine, a sandbox stays with its host, which has the folder that it mounts. The other host leaves it alone.
func TestEngineOfThisMachineIsNotShared(t *testing.T) {
	m := thisMachine{sandboxtest.Engine(t)}
	orderA, orderB, records := hostsOn(t, m)
	a, b := newHost(t, orderA), newHost(t, orderB)
	p := a.do(hostCall{Do: "start", Session: "s", Script: "echo a >f; " + counter}).Process
	before := m.left(t, orderA.Instance)
	if len(before) != 1 || len(records()) != 0 {
		t.Fatalf("containers %q, records %+v", before, records())
	}
	a.kill()
	if out := b.until(hostCall{Do: "exec", Session: "s", Script: "ls"}); out.Text != "" || out.Stats.Adopted != 0 {
		t.Errorf("answer %+v", out)
	}
	b.do(hostCall{Do: "reconcile"})
	if after := m.left(t, orderA.Instance); !slices.Equal(after, before) {
		t.Errorf("containers %q, before %q", after, before)
	}
	again := newHost(t, orderA)
	if again.first.Stats.Adopted != 1 {
		t.Errorf("the first host is back: %+v", again.first.Stats)
	}
	b.do(hostCall{Do: "end"})
	if all := again.until(hostCall{Do: "processes", Session: "s"}).Processes; len(all) != 1 || all[0].ID != p.ID || !all[0].Running {
		t.Errorf("processes %+v", all)
	}
	again.do(hostCall{Do: "destroy", Session: "s"})
}

// No command reaches the supervisor's socket, or reads its identity.
func TestListeningSocketIsTheSupervisors(t *testing.T) {
	t.Parallel()
	e, way := sandboxtest.OverTLS(t)
	m, config := e.Manager(t, func(c *sandbox.Config) { shareEngine(t, way, c) })
	s := get(t, m, "s", config.Spec)
	for _, script := range []string{
		"ls /.flynn-listen", "cat </.flynn-listen/s", "nc local:/.flynn-listen/s", "$(tr '\\0' '\\n' </proc/1/cmdline | head -1) relay /.flynn-listen/s", "chmod 777 /.flynn-listen",
		"mv /.flynn-listen /tmp", "rmdir /.flynn-listen", "touch /.flynn-listen/x", "cat /proc/1/fd/0", "ls /proc/1/fd", "cat /proc/1/mem", "ls /proc/1/root/.flynn-listen",
	} {
		r, err := s.Exec(t.Context(), machine.Command{Script: script})
		if err != nil || r.ExitCode == 0 {
			t.Errorf("%s: exit code %d, %.200q (%v)", script, r.ExitCode, r.Stdout, err)
		}
	}
	if out := shell(t, s, "tr '\\0' ' ' </proc/1/cmdline; env; cat /proc/mounts"); strings.Contains(out, "BEGIN") {
		t.Errorf("seen inside: %q", out)
	}
	if got := shell(t, get(t, m, message.WorkspaceKey("other"), config.Spec), "touch f; ls"); got != "f\n" {
		t.Errorf("another session printed %q", got)
	}
}
