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
	"github.com/flynnhost/flynn/host/sandbox/container"
	"github.com/flynnhost/flynn/host/sandbox/frame"
	"github.com/flynnhost/flynn/host/sandbox/launch"
	"github.com/flynnhost/flynn/host/sandbox/link"
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

// CodeResult is how a program ended, and what it made.
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
	maxCodeBytes = launch.HeldBytes - 1<<20
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

// codeRuns runs programs, each in a container of its own.
type codeRuns struct {
	launch.Installation
	base       spec.Spec // that runs are like where they name none
	launcher   *launch.Launcher
	warm       *warm
	admissions *admissions
	sessions   *registry
	bridges    *bridges
}

// run runs a program to its end, or ctx's.
func (r *codeRuns) run(ctx context.Context, code Code) (CodeResult, error) {
	how, err := code.check()
	if err != nil {
		return CodeResult{}, err
	}
	if code.Spec.Image == "" && code.Spec.Dockerfile == "" {
		code.Spec = spec.CodeSpec(r.base)
	}
	code.Spec = code.Spec.WithDefaults()
	if err := code.Spec.Check(); err != nil {
		return CodeResult{}, err
	}
	if code.Spec.IsPersonal() || code.Spec.Start != nil {
		return CodeResult{}, errors.New("sandbox: code runs have neither volumes of a session nor a start_command")
	}
	done, err := r.sessions.join()
	if err != nil {
		return CodeResult{}, err
	}
	defer done()
	allowed, leave, err := r.admissions.admitCode(code.Session, code.Spec.DiskBytes)
	if err != nil {
		return CodeResult{}, err
	}
	code.Spec.DiskBytes = allowed.disk
	c, err := r.container(ctx, code.Spec, leave)
	if err != nil {
		return CodeResult{}, err
	}
	defer r.sessions.work.Go(func() {
		defer leave()
		r.throwAway(c)
	})
	c.Assign(code.Session, "")
	return codeRun{c: c, code: code, how: how, bridges: r.bridges}.run(ctx)
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

// container takes a container from a pool or makes one. If ctx ends first, the one that is being made is thrown away. Where none is returned,
// leave is called once there is none.
func (r *codeRuns) container(ctx context.Context, s spec.Spec, leave func()) (*container.Container, error) {
	if err := ctx.Err(); err != nil {
		leave()
		return nil, err
	}
	defer r.warm.pools.Hurry()()
	if c := r.warm.claimSlot(s.Hash(r.Digest)); c != nil {
		return c, nil
	}
	type launched struct {
		c   *container.Container
		err error
	}
	made := make(chan launched)
	r.sessions.work.Go(func() {
		c, err := r.make(ctx, s)
		select {
		case made <- launched{c, err}:
		case <-ctx.Done():
			if err == nil {
				r.throwAway(c)
			}
			leave()
		}
	})
	select {
	case l := <-made:
		if l.err != nil {
			leave()
		}
		return l.c, l.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (r *codeRuns) make(ctx context.Context, s spec.Spec) (*container.Container, error) {
	ref, err := r.launcher.Images.Prepare(ctx, s)
	if err != nil {
		return nil, err
	}
	if err := r.Driver.Ping(ctx); err != nil {
		return nil, err
	}
	return r.launcher.Slot(ctx, s, ref)
}

// throwAway removes a container with its folder.
func (r *codeRuns) throwAway(c *container.Container) {
	err := c.End()
	if err == nil {
		err = removeall.Folder(c.Workspace())
	}
	if err != nil {
		r.Log.Error("cannot remove the container of a code run", "container", c.ID(), "error", err)
	}
}

// codeRun is one run in its container.
type codeRun struct {
	c       *container.Container
	code    Code
	how     language
	bridges *bridges
}

// run lays out the workspace, runs the program and gathers what it made.
func (r codeRun) run(ctx context.Context) (CodeResult, error) {
	held := maps.Clone(r.code.Files)
	for name, content := range r.code.Files {
		if err := r.c.Link.WriteFile(ctx, name, content, 0o644); err != nil {
			return CodeResult{}, err
		}
	}
	argv := slices.Clone(r.how.argv)
	if len(r.code.Program) > 0 {
		if held == nil {
			held = map[string][]byte{}
		}
		held[r.how.file] = r.code.Program
		argv = append(argv, path.Join(frame.HeldFolder, r.how.file))
	}
	for name, content := range held { // the files too: a program finds what it imports beside itself
		if err := r.c.Link.Hold(ctx, name, content); err != nil {
			return CodeResult{}, err
		}
	}
	ended, err := r.runProgram(ctx, "mkdir "+outFolder+" && exec "+quoteArgv(argv))
	result := CodeResult{Result: ended}
	if err != nil || ended.Canceled || r.c.Dead() {
		return result, err
	}
	if r.code.Spec.DriverNetwork() == "none" {
		result.NoRoutes = noRoutes(ctx, r.c)
	}
	g := gathering{link: r.c.Link, files: map[string][]byte{}, room: maxCodeBytes}
	if err = g.folder(ctx, outFolder, 0); ctx.Err() != nil {
		err = nil // the caller has left with the result
	}
	result.Files, result.Left = g.files, g.left
	return result, err
}

// runProgram runs the program, and answers its calls meanwhile. The limit of one that makes calls is the host's to measure,
// since its clock may be stopped; the supervisor's is the last resort then.
func (r codeRun) runProgram(ctx context.Context, script string) (machine.Result, error) {
	limit := cmp.Or(max(r.code.Timeout, 0), r.code.Spec.Timeout)
	cmd := machine.Command{Script: script, Stdin: r.code.Stdin, MaxOutput: r.code.MaxOutput, Timeout: limit, Progress: r.code.Progress}
	if r.code.Helpers == nil {
		return r.c.Exec(ctx, cmd)
	}
	if name, module := helperModule(r.code.Language); name != "" {
		if err := r.c.Link.Hold(ctx, name, module); err != nil {
			return machine.Result{}, err
		}
	}
	cmd.Timeout += maxPaused
	// The helpers end after the program: ended first, they could make it fail for no visible reason.
	outlasting := context.WithoutCancel(ctx)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	clock := stopwatch.Start(limit, cancel)
	defer clock.Stop()
	h := newHelping(outlasting, r.code.Helpers, clock, func(ctx context.Context, name string, data []byte) error {
		return r.c.Link.WriteFile(ctx, name, data, 0o444)
	})
	defer r.bridges.help(r.c, h)()
	ended, err := r.c.Exec(ctx, cmd)
	if clock.Stop() && ended.Canceled {
		ended.TimedOut, ended.Canceled = true, false
	}
	return ended, err
}

// maxPaused bounds how long the watch of one run may stand still in all.
const maxPaused = time.Hour

// gathering collects files within bounds. Everything has ended in the container, so nothing changes under it.
type gathering struct {
	link    *link.Link
	files   map[string][]byte
	room    int64 // bytes that may still come
	folders int
	left    int
}

// folder collects what is in one. A program may have removed out, made something else of it, or taken away the right to
// read it.
func (g *gathering) folder(ctx context.Context, name string, depth int) error {
	g.folders++
	infos, err := g.link.List(ctx, name)
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
	data, size, err := g.link.ReadFile(ctx, name, 0, g.room)
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
