package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/internal/stopwatch"
	"github.com/flynnhost/flynn/host/sandbox/frame"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/removeall"
	"github.com/flynnhost/flynn/host/sandbox/spec"
)

// Code is a program to be run once, in a container that nobody used before and nobody uses after it. It runs in an empty
// workspace with Files in it; what it leaves in the folder out there comes back. The program itself lies in a folder that it can read and
// not write to, with copies of Files beside it, so that nothing it does changes what it is.
type Code struct {
	// Spec is what the container is made of; without an image it is CodeSpec of the Manager's. Give a Manager a Pool
	// of the same Spec, and runs begin at once.
	Spec spec.Spec
	// Language is python, node or sh.
	Language string
	// Argv is the command line instead; the name of the program's file becomes its last argument.
	Argv    []string
	Program []byte
	Stdin   []byte
	// Files are laid out in the workspace, by their relative paths.
	Files map[string][]byte
	// Timeout ends the program; zero means the Spec's.
	Timeout time.Duration
	// MaxOutput caps stdout and stderr each; zero means machine.DefaultMaxOutput.
	MaxOutput int
	// Session is whose run it is, for the log of what it asks to reach, and for the Quota.
	Session string
	// Helpers answers the calls of the program's module flynn; it needs a Spec with Helpers. Nil offers no module.
	Helpers Helpers
	// Progress, if set, receives output as it comes. It must not block for long.
	Progress func(stream machine.Stream, p []byte)
}

// CodeResult is the verdict on a program, and what it made.
type CodeResult struct {
	machine.Result
	// Files are the regular files in out, by their paths below it. There are none if the caller has left.
	Files map[string][]byte `json:"files,omitempty"`
	// Left counts what in out was not brought back, because there was too much of it or because it was no file.
	Left int `json:"left,omitempty"`
	// NoRoutes counts what the program has tried to reach beyond a container without a network.
	NoRoutes int64 `json:"no_routes,omitempty"`
}

const (
	// outFolder is where programs leave what they make.
	outFolder = "out"
	// The bounds of what goes into a run and of what comes out, each.
	maxCodeFiles = 64
	maxCodeBytes = 16 << 20
	maxCodeDepth = 8
)

// language says how programs are run: the name of the file, and what is put before it.
type language struct {
	file string
	argv []string
}

func languages() map[string]language {
	return map[string]language{
		// -I: neither the environment nor files beside the program change what it imports.
		"python": {"main.py", []string{"python3", "-I"}},
		"node":   {"main.js", []string{"node"}},
		"sh":     {"main.sh", []string{"sh"}},
	}
}

// withModules lets a program of Python import what lies beside it, its module flynn among that.
func (l language) withModules() language {
	if l.file == "main.py" {
		l.argv = []string{"python3", "-E", "-s"}
	}
	return l
}

// RunCode runs a program to its end, or ctx's. The container and its folder are removed in the background; none of it is
// used again. A time-out or a cancelled context is a verdict, not an error.
func (m *Manager) RunCode(ctx context.Context, c Code) (CodeResult, error) {
	how, err := c.check()
	if err != nil {
		return CodeResult{}, err
	}
	if c.Spec.Image == "" && c.Spec.Dockerfile == "" {
		c.Spec = spec.CodeSpec(m.config.Spec)
	}
	c.Spec = c.Spec.WithDefaults()
	if err := c.Spec.Check(); err != nil {
		return CodeResult{}, err
	}
	if c.Spec.IsPersonal() || c.Spec.Start != nil {
		return CodeResult{}, errors.New("sandbox: code runs have neither volumes of a session nor a start_command")
	}
	if err := m.enterWork(); err != nil {
		return CodeResult{}, err
	}
	defer m.work.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(m.ending, cancel)()
	allowed, leave, err := m.admitCode(c.Session, c.Spec.DiskBytes)
	if err != nil {
		return CodeResult{}, err
	}
	c.Spec.DiskBytes = allowed.disk
	b, err := m.codeBox(ctx, c.Spec, leave)
	if err != nil {
		return CodeResult{}, err
	}
	defer m.work.Go(func() {
		defer leave()
		m.throwAway(b)
	})
	b.serveSession(c.Session)
	return b.runCode(ctx, c, how)
}

// enterWork counts somebody in whom DestroyAll has to wait for.
func (m *Manager) enterWork() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return errRetired
	}
	m.work.Add(1)
	return nil
}

// check refuses what cannot be run, and says how the rest is.
func (c Code) check() (language, error) {
	how, known := languages()[c.Language]
	switch {
	case len(c.Argv) > 0 && c.Language != "":
		return how, errors.New("code has a language and a command line: leave one out")
	case len(c.Argv) > 0:
		how = language{"main", c.Argv}
	case !known:
		return how, fmt.Errorf("language %q is not one of %s", c.Language, strings.Join(slices.Sorted(maps.Keys(languages())), ", "))
	case len(c.Program) == 0:
		return how, errors.New("code is empty")
	case len(c.Files) > maxCodeFiles:
		return how, fmt.Errorf("%d files are more than %d", len(c.Files), maxCodeFiles)
	}
	if c.Helpers != nil {
		if !c.Spec.Helpers {
			return how, errors.New("code has helpers, but its container offers none")
		}
		how = how.withModules()
	}
	bytes := len(c.Program)
	for name, content := range c.Files {
		bytes += len(content)
		if !fs.ValidPath(name) || name == "." || name == how.file || name == outFolder || strings.HasPrefix(name, outFolder+"/") {
			return how, fmt.Errorf("file %q: write a relative path that is neither %s nor in %s", name, how.file, outFolder)
		}
		if module, _ := helperModule(c.Language); c.Helpers != nil && name == module {
			return how, fmt.Errorf("file %q: it is the module of the helper functions", name)
		}
	}
	if bytes > maxCodeBytes {
		return how, fmt.Errorf("program and files of %d bytes are more than %d", bytes, maxCodeBytes)
	}
	return how, nil
}

// codeBox takes a container from a pool or makes one. If ctx ends first, the one that is being made is thrown away. Where none is returned,
// leave is called once there is none.
func (m *Manager) codeBox(ctx context.Context, spec spec.Spec, leave func()) (*box, error) {
	if err := ctx.Err(); err != nil {
		leave()
		return nil, err
	}
	defer m.pools.Hurry()()
	if b := m.claimSlot(spec.Hash(m.digest)); b != nil {
		return b, nil
	}
	type launched struct {
		box *box
		err error
	}
	made := make(chan launched)
	m.work.Go(func() {
		b, err := m.makeCodeBox(ctx, spec)
		select {
		case made <- launched{b, err}:
		case <-ctx.Done():
			if err == nil {
				m.throwAway(b)
			}
			leave()
		}
	})
	select {
	case l := <-made:
		if l.err != nil {
			leave()
		}
		return l.box, l.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (m *Manager) makeCodeBox(ctx context.Context, spec spec.Spec) (*box, error) {
	ref, err := m.PrepareImage(ctx, spec)
	if err != nil {
		return nil, err
	}
	if err := m.config.Driver.Ping(ctx); err != nil {
		return nil, err
	}
	return m.launchSlot(ctx, spec, ref)
}

// throwAway removes a container with its folder and all that is in it.
func (m *Manager) throwAway(b *box) {
	err := b.remove(errEnded)
	if err == nil {
		err = removeall.Folder(b.workspace)
	}
	if err != nil {
		m.log.Error("cannot remove the container of a code run", "container", b.id, "error", err)
	}
}

// runCode lays out the workspace, runs the program and gathers what it made.
func (b *box) runCode(ctx context.Context, c Code, how language) (CodeResult, error) {
	held := maps.Clone(c.Files)
	for name, content := range c.Files {
		if err := b.link.WriteFile(ctx, name, content, 0o644); err != nil {
			return CodeResult{}, err
		}
	}
	argv := slices.Clone(how.argv)
	if len(c.Program) > 0 {
		if held == nil {
			held = map[string][]byte{}
		}
		held[how.file] = c.Program
		argv = append(argv, path.Join(frame.HeldFolder, how.file))
	}
	for name, content := range held { // the files too: a program finds what it imports beside itself
		if err := b.link.Hold(ctx, name, content); err != nil {
			return CodeResult{}, err
		}
	}
	r, err := b.runProgram(ctx, c, "mkdir "+outFolder+" && exec "+quoteArgv(argv))
	result := CodeResult{Result: r}
	if err != nil || r.Canceled || b.link.Dead() {
		return result, err
	}
	if c.Spec.DriverNetwork() == "none" {
		result.NoRoutes = b.noRoutes(ctx, c.Spec.WorkspaceDir)
	}
	g := gathering{b: b, files: map[string][]byte{}, room: maxCodeBytes}
	if err = g.folder(ctx, outFolder, 0); ctx.Err() != nil {
		err = nil // the caller has left with the verdict
	}
	result.Files, result.Left = g.files, g.left
	return result, err
}

// runProgram runs the program, and answers its calls meanwhile. The limit of one that makes calls is the host's to measure,
// since its clock may be stopped; the supervisor's is the last resort then.
func (b *box) runProgram(ctx context.Context, c Code, script string) (machine.Result, error) {
	limit := cmp.Or(max(c.Timeout, 0), c.Spec.Timeout)
	cmd := machine.Command{Script: script, Stdin: c.Stdin, MaxOutput: c.MaxOutput, Timeout: limit, Progress: c.Progress}
	if c.Helpers == nil {
		return b.exec(ctx, cmd, c.Spec.WorkspaceDir)
	}
	if name, module := helperModule(c.Language); name != "" {
		if err := b.link.Hold(ctx, name, module); err != nil {
			return machine.Result{}, err
		}
	}
	cmd.Timeout += maxPaused
	// The answering side learns of the end only after the program has: told first, it could end by itself, and nobody would know why.
	outlasting := context.WithoutCancel(ctx)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	clock := stopwatch.Start(limit, cancel)
	defer clock.Stop()
	h := newHelping(outlasting, c.Helpers, clock, func(ctx context.Context, name string, data []byte) error {
		return b.link.WriteFile(ctx, name, data, 0o444)
	})
	b.setHelping(h)
	defer h.end()
	r, err := b.exec(ctx, cmd, c.Spec.WorkspaceDir)
	if clock.Stop() && r.Canceled {
		r.TimedOut, r.Canceled = true, false
	}
	return r, err
}

// maxPaused bounds how long the watch of one run may stand still in all.
const maxPaused = time.Hour

// gathering collects files within bounds. Everything has ended in the container, so nothing changes under it.
type gathering struct {
	b       *box
	files   map[string][]byte
	room    int64 // bytes that may still come
	folders int
	left    int
}

// folder collects what is in one. A program may have removed out, made something else of it, or taken away the right to
// read it.
func (g *gathering) folder(ctx context.Context, name string, depth int) error {
	g.folders++
	infos, err := g.b.link.List(ctx, name)
	if err != nil {
		return g.skip(ctx, err)
	}
	for _, info := range infos {
		at := path.Join(name, info.Name)
		switch {
		case info.Mode.IsDir() && depth < maxCodeDepth && g.folders < maxCodeFiles:
			err = g.folder(ctx, at, depth+1)
		case info.Mode.IsRegular() && len(g.files) < maxCodeFiles && info.Size <= g.room:
			err = g.file(ctx, at)
		default:
			g.left++
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (g *gathering) file(ctx context.Context, name string) error {
	data, size, err := g.b.link.ReadFile(ctx, name, 0, g.room)
	if err != nil || size > int64(len(data)) {
		return g.skip(ctx, err)
	}
	g.room -= size
	g.files[strings.TrimPrefix(name, outFolder+"/")] = data
	return nil
}

// skip counts what cannot be had, and returns the errors after which nothing else can either.
func (g *gathering) skip(ctx context.Context, err error) error {
	if errors.Is(err, machine.ErrUnavailable) || ctx.Err() != nil {
		return err
	}
	if !errors.Is(err, machine.ErrNotFound) {
		g.left++
	}
	return nil
}

// quoteArgv writes a command line for a shell.
func quoteArgv(argv []string) string {
	quoted := make([]string, len(argv))
	for i, arg := range argv {
		quoted[i] = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
	}
	return strings.Join(quoted, " ")
}
