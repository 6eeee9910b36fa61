package selftest

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"syscall"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/docker"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/workspace"
)

// weakMachine is a container without Flynn's protection: the engine runs its commands, without limits or a way to stop them, and the host
// opens its files by joining paths. The Control's weakness is added to that.
type weakMachine struct {
	driver  *docker.Driver
	id      string
	stdin   driver.Stream // closing it ends the container, even if this process crashes
	control Control
	dir     string // on the host
	inside  string
	user    string
}

var _ Target = (*weakMachine)(nil)

// launchWeak creates the container. It has no network but the loopback, whatever the configuration says, unless that is its weakness.
func (s *site) launchWeak(ctx context.Context, c Control) (*weakMachine, error) {
	w := &weakMachine{
		driver: s.engine.Weakened(c.Weakness), control: c, inside: s.spec.WorkspaceDir,
		user: fmt.Sprintf("%d:%d", s.uid, s.gid),
	}
	if c.Root {
		w.user = "0:0"
	}
	var err error
	if w.dir, err = s.weakFolder(); err != nil {
		return nil, err
	}
	key := random()
	w.id, err = w.driver.Create(ctx, driver.Container{
		Key: key, Name: "flynn-verify-" + key, Image: s.spec.Image,
		Entrypoint: []string{path.Join(w.inside, programName), "wait"},
		Labels:     map[string]string{driver.LabelInstance: s.instance, driver.LabelKey: key},
		Mounts:     []driver.Mount{{Source: w.dir, Target: w.inside}},
		Network:    "none", MemoryBytes: s.spec.MemoryBytes, CPUs: s.spec.CPUs, PidsLimit: s.spec.PidsLimit, BestEffort: s.spec.BestEffort, Runtime: s.spec.Runtime,
	})
	if err != nil {
		return nil, err
	}
	if w.stdin, err = w.driver.Attach(ctx, w.id, io.Discard); err == nil {
		err = w.driver.Start(ctx, w.id)
	}
	if err != nil {
		w.remove(ctx)
		return nil, err
	}
	return w, nil
}

// weakFolder creates a workspace with the program in it, which root without capabilities can start.
func (s *site) weakFolder() (string, error) {
	parent, err := os.MkdirTemp(s.scratch, "weak-")
	if err != nil {
		return "", err
	}
	dir := workspace.Path(parent, session)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, programName), s.program, 0o755); err != nil {
		return "", err
	}
	return dir, os.Chown(dir, s.uid, s.gid)
}

// remove removes the container; ctx may have ended.
func (w *weakMachine) remove(ctx context.Context) {
	if w.stdin != nil {
		w.stdin.Close()
	}
	// AutoRemove and the end of its input do the same; this waits for it.
	_ = w.driver.Remove(context.WithoutCancel(ctx), w.id)
}

// setUp runs the control's script as root with many capabilities.
func (w *weakMachine) setUp(ctx context.Context, text string) error {
	if text == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, scriptTimeout)
	defer cancel()
	r, err := w.driver.Run(ctx, w.id, docker.Run{Argv: []string{"/bin/sh", "-c", text}, User: "0:0", Dir: w.inside})
	if err != nil {
		return err
	}
	if r.ExitCode != 0 {
		return fmt.Errorf("set up the control: exit code %d: %.300s", r.ExitCode, r.Stderr)
	}
	return nil
}

// Exec implements Target. After the timeout it only stops waiting.
func (w *weakMachine) Exec(ctx context.Context, cmd machine.Command) (machine.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, cmd.Timeout)
	defer cancel()
	var env []string
	for name, value := range cmd.Env {
		env = append(env, name+"="+value)
	}
	began := time.Now()
	r, err := w.driver.Run(ctx, w.id, docker.Run{
		Argv: []string{"/bin/sh", "-c", cmd.Script}, Env: env, User: w.user, Dir: w.inside,
		Terminal: w.control.Terminal,
	})
	result := machine.Result{ExitCode: r.ExitCode, Stdout: r.Stdout, Stderr: r.Stderr, Wall: time.Since(began)}
	if ctx.Err() != nil {
		result.ExitCode, result.TimedOut = -1, true
		return result, nil
	}
	return result, err
}

// ReadFile implements Target: it follows every link and reads to the end, except for endless devices.
func (w *weakMachine) ReadFile(ctx context.Context, name string, _, _ int64) ([]byte, int64, error) {
	mode := os.O_RDONLY
	if w.isPipe(name) {
		mode = os.O_RDWR | syscall.O_NONBLOCK // opened read-only, no deadline could end the wait
	}
	f, err := os.OpenFile(filepath.Join(w.dir, name), mode, 0)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	if deadline, is := ctx.Deadline(); is {
		_ = f.SetReadDeadline(deadline) // regular files do not support deadlines
	}
	data, err := io.ReadAll(io.LimitReader(f, 128<<20))
	return data, int64(len(data)), err
}

func (w *weakMachine) isPipe(name string) bool {
	info, err := os.Lstat(filepath.Join(w.dir, name))
	return err == nil && info.Mode()&fs.ModeNamedPipe != 0
}

// WriteFile implements Target.
func (w *weakMachine) WriteFile(_ context.Context, name string, data []byte, perm fs.FileMode) error {
	if !filepath.IsAbs(name) {
		name = filepath.Join(w.dir, name)
	}
	return os.WriteFile(name, data, perm)
}
