package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/flynnhost/flynn/sdk/need"
)

// Private is an engine that belongs to one test, which may stop, freeze and crash it. It ends with the test.
type Private struct {
	Host
	// Dir is a short path. The engine's socket and data are below it.
	Dir  string
	t    testing.TB
	args string
}

// Own starts an engine with additional arguments of dockerd, and loads Image. If that does not work here the test is skipped or fails; see
// need.Part.
func Own(t testing.TB, args ...string) *Private {
	t.Helper()
	Engine(t) // the machine can run an engine
	dir, err := os.MkdirTemp("", "flynn-engine-")
	if err != nil {
		t.Fatal(err)
	}
	return OwnIn(t, dir, args...)
}

// OwnIn is Own in a given folder, which is removed with the test.
func OwnIn(t testing.TB, dir string, args ...string) *Private {
	t.Helper()
	p := &Private{Dir: dir, t: t, args: strings.Join(args, " ")}
	t.Cleanup(p.remove)
	if err := p.script("start"); err != nil {
		need.Part(t, "docker", fmt.Errorf("second engine: %w", err))
	}
	p.Host = connect(t, p.Address())
	need.Part(t, "docker", importImage(t.Context(), p.API, Image, BusyboxRoot))
	return p
}

// Socket returns the path of the engine's socket.
func (p *Private) Socket() string { return filepath.Join(p.Dir, "docker.sock") }

// Address returns the address for a driver.
func (p *Private) Address() string { return "unix://" + p.Socket() }

// Start starts the engine again after Stop or Crash.
func (p *Private) Start() {
	p.t.Helper()
	if err := p.script("start"); err != nil {
		p.t.Fatal(err)
	}
}

// Stop ends the engine and its containers, as an administrator would.
func (p *Private) Stop() {
	p.t.Helper()
	if err := p.script("stop"); err != nil {
		p.t.Fatal(err)
	}
}

// Crash kills the engine and its containerd; its containers keep running.
func (p *Private) Crash() {
	p.t.Helper()
	keeper := p.pid(containerdPID, "containerd")
	p.signal("docker.pid", "dockerd", syscall.SIGKILL)
	if keeper != 0 {
		_ = syscall.Kill(keeper, syscall.SIGKILL) // it ends with its engine anyway
	}
	for began := time.Now(); p.pid("docker.pid", "dockerd") != 0 || p.pid(containerdPID, "containerd") != 0; {
		if time.Since(began) > time.Minute {
			p.t.Fatal("engine does not die")
		}
	}
	// The next engine would wait for the old containerd until that is reaped.
	if err := os.Remove(filepath.Join(p.Dir, containerdPID)); err != nil {
		p.t.Fatal(err)
	}
}

// Freeze makes the engine hang until Thaw; its containers keep running.
func (p *Private) Freeze() { p.t.Helper(); p.freeze("docker.pid", "dockerd") }

// Thaw ends Freeze.
func (p *Private) Thaw() { p.t.Helper(); p.signal("docker.pid", "dockerd", syscall.SIGCONT) }

// containerdPID is the pid file of the engine's containerd.
const containerdPID = "exec/containerd/containerd.pid"

// KillContainerd kills containerd; the engine notices and restarts it.
func (p *Private) KillContainerd() {
	p.t.Helper()
	p.signal(containerdPID, "containerd", syscall.SIGKILL)
}

// FreezeContainerd and ThawContainerd do to containerd what Freeze and Thaw do to the engine.
func (p *Private) FreezeContainerd() {
	p.t.Helper()
	p.signal(containerdPID, "containerd", syscall.SIGSTOP)
}

// ThawContainerd ends FreezeContainerd.
func (p *Private) ThawContainerd() {
	p.t.Helper()
	p.signal(containerdPID, "containerd", syscall.SIGCONT)
}

// freeze stops a process and returns once all its threads have stopped.
func (p *Private) freeze(file, name string) {
	p.t.Helper()
	p.signal(file, name, syscall.SIGSTOP)
	for began := time.Now(); ; {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.pid(file, name)))
		if len(threads) > 0 && !slices.ContainsFunc(threads, func(path string) bool {
			state, err := os.ReadFile(path)
			return err != nil || !strings.Contains(string(state), ") T ")
		}) {
			return
		}
		if time.Since(began) > time.Minute {
			p.t.Fatalf("%s does not stop", name)
		}
	}
}

func (p *Private) signal(file, name string, sig syscall.Signal) {
	p.t.Helper()
	pid := p.pid(file, name)
	if pid == 0 {
		p.t.Fatalf("%s of %s does not run", name, p.Dir)
	}
	if err := syscall.Kill(pid, sig); err != nil {
		p.t.Fatal(err)
	}
}

// pid returns the process id in a pid file, or 0 unless that process is alive and has the given name.
func (p *Private) pid(file, name string) int {
	text, err := os.ReadFile(filepath.Join(p.Dir, file))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || pid <= 1 {
		return 0
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	state, is := strings.CutPrefix(string(status), fmt.Sprintf("%d (%s) ", pid, name))
	if err != nil || !is || strings.HasPrefix(state, "Z") {
		return 0
	}
	return pid
}

// scriptTimeout bounds a start or stop of the engine.
const scriptTimeout = 150 * time.Second

// script runs .ci/engine.
func (p *Private) script(verb string) error {
	root, err := checkout()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), scriptTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(root, ".ci/engine"), verb)
	cmd.Env = append(os.Environ(), "FLYNN_ENGINE_DIR="+p.Dir, "FLYNN_ENGINE_ARGS="+p.args)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("engine in %s: %w: %s", p.Dir, err, out)
	}
	return nil
}

// remove ends the engine, in whatever state the test has left it.
func (p *Private) remove() {
	for file, name := range map[string]string{"docker.pid": "dockerd", containerdPID: "containerd"} {
		if pid := p.pid(file, name); pid != 0 {
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}
	}
	if err := p.script("stop"); err != nil {
		p.t.Error(err)
	}
	if pid := p.pid(containerdPID, "containerd"); pid != 0 { // it has outlived its engine
		_ = syscall.Kill(pid, syscall.SIGTERM)
	}
	p.unmount()
	if err := os.RemoveAll(p.Dir); err != nil {
		p.t.Errorf("remove an engine's folder: %v", err)
	}
}

// unmount unmounts what a crashed engine has left below its folder, innermost first.
func (p *Private) unmount() {
	table, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		p.t.Error(err)
		return
	}
	lines := strings.Split(string(table), "\n")
	for _, line := range slices.Backward(lines) {
		if f := strings.Fields(line); len(f) > 1 && strings.HasPrefix(f[1], p.Dir+"/") {
			_ = exec.Command("umount", "--lazy", f[1]).Run()
		}
	}
}

// checkout returns the root folder of this checkout.
func checkout() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, ".ci/engine")); err == nil {
			return dir, nil
		}
	}
	return "", errors.New("no .ci/engine in or above the working folder")
}
