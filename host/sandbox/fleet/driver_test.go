package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/internal/hosttest"
	"github.com/flynnhost/flynn/host/plugin"
	"github.com/flynnhost/flynn/host/plugin/conform"
	"github.com/flynnhost/flynn/host/plugin/instances"
	"github.com/flynnhost/flynn/host/sandbox/fleet/drivers"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
	"github.com/flynnhost/flynn/sdk/plugintest/suite"
)

func TestTheExampleConforms(t *testing.T) { conforms(t, sandboxtest.DockerDriver) }

func TestKubernetesConforms(t *testing.T) { conforms(t, kubernetes) }

// kubernetes builds plugins/kubernetes and its fake cluster, and returns the folder of the plugin.
func kubernetes(t testing.TB) string {
	t.Helper()
	dir, source := t.TempDir(), "../../../plugins/kubernetes"
	fake := filepath.Join(dir, "bin", "fake")
	for _, pkg := range []string{"plugins/kubernetes", "plugins/kubernetes/kubetest/fake"} {
		hosttest.BuildPlugin(t, pkg, dir)
	}
	use := strings.NewReplacer(`"busybox"`, fmt.Sprintf("%q", sandboxtest.Image), `package = "./kubetest/fake"`, fmt.Sprintf("command = [%q]", fake))
	for _, name := range []string{"plugin.toml", "settings.schema.json", "conform.toml"} {
		text, err := os.ReadFile(filepath.Join(source, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), []byte(use.Replace(string(text))), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// conforms makes the checks for a driver that is built by build.
func conforms(t *testing.T, build func(testing.TB) string) {
	t.Helper()
	sandboxtest.Engine(t)
	report, err := conform.Run(t.Context(), conform.Config{Dir: build(t), Config: suite.Config{Patience: 20 * time.Second, Slack: time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range report.Results {
		if r.Outcome == suite.Fail || r.Outcome == suite.Skip && (strings.HasPrefix(r.Check, "container") || strings.HasPrefix(r.Check, "engine-gone")) {
			t.Errorf("%s %s: %s", r.Outcome, r.Check, r.Detail)
		}
	}
}

// noStore has no sessions.
type noStore struct{ rowsOf }

func (noStore) Sessions(context.Context, int) ([]turnlog.Session, error) { return nil, nil }
func (noStore) ListLeftovers(context.Context, turnlog.LeftoverKind) ([]turnlog.Leftover, error) {
	return nil, nil
}
func (noStore) DropLeftover(context.Context, turnlog.Leftover) error { return nil }

// driven is a fleet whose sandboxes the example makes.
type driven struct {
	*Fleet
	plugins *plugin.Host
	dir     string
	stop    func() // as the host stops: sandboxes first
}

// drive starts a fleet with a driver. A lie is the arguments of docker create, each with what the driver really passes in its place.
func drive(t *testing.T, dir string, lie map[string]string) *driven {
	t.Helper()
	sandboxtest.Engine(t)
	settings := map[string]any{}
	if lie != nil {
		settings["command"] = liar(t, lie)
	}
	c := &config.Config{
		Sandbox: config.Sandbox{
			Enabled: true, Engine: "driver:box", Image: sandboxtest.Image, MemoryLimit: 128 << 20, PidsLimit: 64, CPULimit: 2, TimeoutSeconds: 60,
			IdleAfter: config.Duration(time.Hour), MaxAge: config.Duration(time.Hour),
		},
		Drivers: map[string]config.Driver{"box": {Plugin: "docker-driver", Settings: settings}},
	}
	c.Store.Dir = dir
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	plugins, err := plugin.New(plugin.Config{
		Dir: filepath.Join(dir, "plugins"), StateDir: filepath.Join(dir, "state"), RunDir: filepath.Join(dir, "r"),
		DevPaths: map[string]string{"docker-driver": sandboxtest.DockerDriver(t)}, Log: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	set := drivers.New(dir)
	f, err := New(Config{Dir: dir, Store: noStore{}, Drivers: set, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	f.Configure(c)
	sandboxes, stopSandboxes := context.WithCancel(context.Background())
	processes, stopProcesses := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- plugins.Run(processes) }()
	instances.Set(plugins, log, set, nil, c.UsedDrivers())
	over := make(chan error, 1)
	go func() { over <- f.Run(sandboxes) }()
	stopped := false
	d := &driven{Fleet: f, plugins: plugins, dir: dir}
	d.stop = func() {
		if stopped {
			return
		}
		stopped = true
		stopSandboxes()
		err := <-over
		stopProcesses()
		if err = errors.Join(err, <-ended); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(d.stop)
	return d
}

// liar is a docker command that changes arguments.
func liar(t *testing.T, lie map[string]string) string {
	t.Helper()
	text := "#!/bin/bash\nargs=()\nfor a in \"$@\"; do case $a in\n"
	for said, done := range lie {
		text += fmt.Sprintf("%s) args+=(%s);;\n", said, done)
	}
	path := filepath.Join(t.TempDir(), "docker")
	if err := os.WriteFile(path, []byte(text+"*) args+=(\"$a\");;\nesac; done\nexec docker \"${args[@]}\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// shortDir is a folder for a store whose path leaves room for sockets.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "fd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// await waits until the driver may be used, or for good not.
func (d *driven) await(t *testing.T) error {
	t.Helper()
	for late := time.Now().Add(5 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		err := d.AsOfNow("")
		if err == nil || errors.Is(err, drivers.ErrNotHeld) || strings.Contains(err.Error(), "could not be completed") {
			return err
		}
		if time.Now().After(late) {
			t.Fatal(err)
		}
	}
}

// left lists what the instance has on the engine.
func (d *driven) left(t *testing.T) (names []string) {
	t.Helper()
	owned, err := sandboxtest.Engine(t).Driver.List(t.Context(), d.Instance())
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range owned {
		names = append(names, o.Name+" "+o.State)
	}
	return names
}

// TestADriverMakesSandboxes: it is tested before its first use and not again, its process is not on the way of a command, and nothing is left.
func TestADriverMakesSandboxes(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a minute")
	}
	dir := shortDir(t)
	d := drive(t, dir, nil)
	if err := d.answers(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Sandbox(t.Context(), "tg/dm:ann:main", ""); err == nil || !strings.Contains(err.Error(), "being tested before its first use") {
		t.Errorf("before the self-test: %v", err)
	}
	if err := d.await(t); err != nil {
		t.Fatal(err)
	}
	box, err := d.Sandbox(t.Context(), "tg/dm:ann:main", "")
	if err != nil {
		t.Fatal(err)
	}
	if r, err := box.Exec(t.Context(), machine.Command{Script: "uname -n; id -u"}); err != nil || string(r.Stdout) != "sandbox\n1000\n" {
		t.Fatalf("%s %s: %v", r.Stdout, r.Stderr, err)
	}

	ended := make(chan error, 1)
	go func() {
		r, err := box.Exec(t.Context(), machine.Command{Script: "touch began; while [ ! -e go ]; do sleep 0.05; done; echo went", Timeout: time.Minute})
		if err == nil && string(r.Stdout) != "went\n" {
			err = fmt.Errorf("printed %s%s", r.Stdout, r.Stderr)
		}
		ended <- err
	}()
	workspace := d.Dir("tg/dm:ann:main")
	for late := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(workspace, "began")); err == nil {
			break
		}
		if time.Now().After(late) {
			t.Fatal("the command does not begin")
		}
	}
	before := d.plugins.Status()[0]
	if err := syscall.Kill(before.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for late := time.Now().Add(time.Minute); d.plugins.Status()[0].PID == before.PID || d.plugins.Status()[0].State != plugin.Ready; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("the plugin is %+v", d.plugins.Status()[0])
		}
	}
	if err := os.WriteFile(filepath.Join(workspace, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("the command over which the plugin was killed: %v", err)
	}
	other, err := d.Sandbox(t.Context(), "tg/dm:bob:main", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Exec(t.Context(), machine.Command{Script: "true"}); err != nil {
		t.Errorf("a new sandbox after that: %v", err)
	}
	d.stop()
	if left := d.left(t); len(left) > 0 {
		t.Errorf("left %q", left)
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "state/box/s/*")); len(files) > 0 {
		t.Errorf("left %q", files)
	}

	again := drive(t, dir, nil)
	if err := again.await(t); err != nil || again.SelfTest().By != "" {
		t.Errorf("the next start tests it again: %+v, %v", again.SelfTest(), err)
	}
}

// TestALyingDriverIsRefused: what it claims and does not do is found before it is used, and the reason says which row.
func TestALyingDriverIsRefused(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes minutes")
	}
	for _, c := range []struct {
		name string
		lie  map[string]string
		says string
	}{
		{"processes", map[string]string{"--pids-limit=*": "--pids-limit=-1"}, "bomb/processes ("},
		{"memory", map[string]string{"--memory=*": "", "--memory-swap=*": ""}, "memory/limit ("},
		{"ipc", map[string]string{"--ipc=private": "--ipc=host", "--sysctl=*": "", "--shm-size=*": ""}, "session/own-ipc ("},
		{"network", map[string]string{"--network=none": "--network=host", "--sysctl=*": "", "--hostname=*": ""}, "the network is off, but there are interfaces"},
		{"filter", map[string]string{"--security-opt=no-new-privileges": "--security-opt=no-new-privileges --security-opt=seccomp=unconfined"}, "calls/"},
		{"users", map[string]string{
			"info": `); echo '{"ServerVersion":"1","SecurityOptions":["name=seccomp","name=userns"]}'; exit; args=(`,
		}, "rights/user-namespace (root inside is user 0 outside"},
		{"snapshots", map[string]string{"--mount=*'\"target=/workspace\"'*": "--mount=type=tmpfs,target=/workspace,tmpfs-mode=1777"}, "self-test"},
		{"root", map[string]string{"--read-only": ""}, "the root file system is writable"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := drive(t, shortDir(t), c.lie)
			err := d.await(t)
			if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "flynn sandbox selftest") {
				t.Fatalf("%v, want %q", err, c.says)
			}
			if _, err := d.Sandbox(t.Context(), "tg/dm:ann:main", ""); err == nil {
				t.Error("it makes a sandbox")
			}
			if left := d.left(t); len(left) > 0 {
				t.Errorf("left %q", left)
			}
			text, _ := os.ReadFile(filepath.Join(d.dir, "driver-proofs.json"))
			var proofs []drivers.Proof
			if _ = json.Unmarshal(text, &proofs); errors.Is(err, drivers.ErrNotHeld) && (len(proofs) != 1 || len(proofs[0].Failed) == 0) {
				t.Errorf("the outcome is not kept: %s", text)
			}
		})
	}
}
