package machine

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/deleteonly"
)

// Host is the Machine of the computer itself. A command runs with the rights of the daemon; only the decision to run it protects the
// computer. File operations stay inside the workspace.
//
// No process outlives the command or background process that started it, or Close. Members of the command's session are found by the
// kernel's session id, others by a marker in their environment; only a process that both leaves the session and clears its environment
// escapes, which a sandbox prevents.
type Host struct {
	config    HostConfig
	root      *os.Root
	workspace string // as given, cleaned
	resolved  string // the same without symbolic links
	homes     homes
	table     *processTable
	stop      context.CancelCauseFunc
	life      context.Context
}

// HostConfig configures a Host. Zero fields other than Workspace and Homes stand for the defaults.
type HostConfig struct {
	// Workspace is the absolute path of an existing folder.
	Workspace string
	// Homes is the absolute path of a folder for the home folders of this machine's commands, which no tool may reach; it is created if
	// missing.
	Homes          string
	DefaultTimeout time.Duration // 30 s by default
	MaxTimeout     time.Duration // 1 h by default; longer timeouts are reduced to it
	// Grace is the time between SIGTERM and SIGKILL; 2 s by default.
	Grace time.Duration
	Log   *slog.Logger
	// Quota limits what the session holds; nil means no limit.
	Quota Quota
}

var (
	_ Machine = (*Host)(nil)
	_ Closer  = (*Host)(nil)

	errClosed = errors.New("the machine is closed")
)

// NewHost opens the workspace. Close it when its session ends.
func NewHost(c HostConfig) (*Host, error) {
	if !filepath.IsAbs(c.Workspace) {
		return nil, fmt.Errorf("open workspace %q: the path must be absolute", c.Workspace)
	}
	resolved, err := filepath.EvalSymlinks(c.Workspace)
	if err != nil {
		return nil, fmt.Errorf("open workspace: %w", err)
	}
	root, err := os.OpenRoot(resolved)
	if err != nil {
		return nil, fmt.Errorf("open workspace: %w", err)
	}
	homes, err := newHomes(c.Homes, resolved)
	if err != nil {
		root.Close()
		return nil, fmt.Errorf("open home folders: %w", err)
	}
	life, stop := context.WithCancelCause(context.Background())
	return &Host{
		config:    c.withDefaults(),
		root:      root,
		homes:     homes,
		workspace: filepath.Clean(c.Workspace),
		resolved:  resolved,
		table:     newProcessTable(),
		life:      life,
		stop:      stop,
	}, nil
}

func (c HostConfig) withDefaults() HostConfig {
	if c.DefaultTimeout <= 0 {
		c.DefaultTimeout = 30 * time.Second
	}
	if c.MaxTimeout <= 0 {
		c.MaxTimeout = time.Hour
	}
	if c.Grace <= 0 {
		c.Grace = 2 * time.Second
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Quota == nil {
		c.Quota = noQuota{}
	}
	return c
}

// Name implements Machine.
func (h *Host) Name() string { return "host" }

// Close ends every command and background process and returns when they are gone.
func (h *Host) Close() error {
	h.stop(errClosed)
	h.table.close()
	return h.root.Close()
}

// Exec implements Machine. A command that the context ends is a Result with Canceled, not an error.
func (h *Host) Exec(ctx context.Context, cmd Command) (Result, error) {
	if err := h.table.enter(); err != nil {
		return Result{}, err
	}
	defer h.table.leave()
	spec, err := h.prepare(ctx, cmd)
	if err != nil {
		return Result{}, err
	}
	defer h.removeHome(spec)
	ctx, stop := h.bound(ctx)
	defer stop()

	report := progress(cmd.Progress)
	stdout, stderr := newCapture(cmd.MaxOutput, Stdout, report), newCapture(cmd.MaxOutput, Stderr, report)
	r, err := start(spec, stdout, stderr)
	if err != nil {
		return Result{}, err
	}
	result := r.wait(ctx, h.timeout(cmd.Timeout), h.config.Grace)
	result.Stdout, result.Stderr = stdout.bytes, stderr.bytes
	result.Dropped = stdout.dropped + stderr.dropped
	h.complain(result)
	return result, nil
}

// bound returns a context that ends with ctx and with the machine.
func (h *Host) bound(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	detach := context.AfterFunc(h.life, func() { cancel(errClosed) })
	return ctx, func() { detach(); cancel(nil) }
}

func (h *Host) timeout(asked time.Duration) time.Duration {
	if asked <= 0 {
		asked = h.config.DefaultTimeout
	}
	return min(asked, h.config.MaxTimeout)
}

// complain logs that processes have survived SIGKILL.
func (h *Host) complain(r Result) {
	if r.Kill != nil && r.Kill.Survivors > 0 {
		h.config.Log.Error("command_survivors", "survivors", r.Kill.Survivors, "took", r.Kill.Took)
	}
}

// removeHome removes the home folder of a command that has ended.
func (h *Host) removeHome(s spec) {
	if err := s.removeHome(); err != nil {
		h.config.Log.Error("remove the home folder of a command", "error", err)
	}
}

// prepare converts a command to the form that start needs. The caller removes its home folder.
func (h *Host) prepare(ctx context.Context, cmd Command) (spec, error) {
	if err := ctx.Err(); err != nil {
		return spec{}, err
	}
	if err := checkScript(cmd.Script); err != nil {
		return spec{}, err
	}
	if !cmd.KeepHome && !deleteonly.Only(cmd.Script) { // a command of the configuration is not what filled the workspace
		if err := h.config.Quota.Command(); err != nil {
			return spec{}, err
		}
	}
	dir, err := h.workDir(cmd.Dir)
	if err != nil {
		return spec{}, err
	}
	home, remove, err := h.homes.make(cmd.KeepHome)
	if err != nil {
		return spec{}, fmt.Errorf("make a home folder: %w", err)
	}
	marker := rand.Text()
	env, err := h.environ(cmd.Env, marker, home)
	if err != nil {
		return spec{}, errors.Join(err, remove())
	}
	return spec{script: cmd.Script, dir: dir, env: env, stdin: cmd.Stdin, marker: marker, removeHome: remove}, nil
}

// Quota limits what a machine's session may hold on this host.
type Quota interface {
	// Write refuses bytes that do not fit into the workspace.
	Write(bytes int64) error
	// Command refuses a command while the workspace exceeds its limit.
	Command() error
	// Process calls enter to begin a background process, unless there are too many.
	Process(enter func() error) error
}

// noQuota has no limits.
type noQuota struct{}

func (noQuota) Write(int64) error                { return nil }
func (noQuota) Command() error                   { return nil }
func (noQuota) Process(enter func() error) error { return enter() }
