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
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox/container"
	"github.com/flynnhost/flynn/host/sandbox/frame"
	"github.com/flynnhost/flynn/host/sandbox/launch"
	"github.com/flynnhost/flynn/host/sandbox/link"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/removeall"
	"github.com/flynnhost/flynn/host/sandbox/spec"
)

// Code is a program that is run once, in a new container that is removed afterwards. Its working directory is a workspace with Files in it;
// the files that it leaves in the folder out are returned. The program itself lies in a read-only folder, with copies of Files beside it,
// so that nothing that it does changes its own code.
type Code struct {
	// Spec describes the container; without an image, the Manager's CodeSpec is used. Runs start at once if the Manager has a Pool for the
	// same Spec.
	Spec spec.Spec
	// Language is python, node or sh.
	Language string
	// Argv replaces Language by a command line; the name of the program's file becomes its last argument.
	Argv    []string
	Program []byte
	Stdin   []byte
	// Files are placed in the workspace, by relative path.
	Files map[string][]byte
	// Timeout ends the program; zero means that of the Spec.
	Timeout time.Duration
	// MaxOutput caps stdout and stderr each, in bytes; zero means machine.DefaultMaxOutput.
	MaxOutput int
	// Session is the session that the run counts for, in the egress log and in the Quota.
	Session message.WorkspaceKey
	// Helpers answers the calls of the program's module flynn; it requires a Spec with Helpers. Nil offers no module.
	Helpers Helpers
	// Progress, if set, receives output as it arrives. It must not block for long.
	Progress func(stream machine.Stream, p []byte)
}

// CodeResult is how a program ended, and the files that it made.
type CodeResult struct {
	machine.Result
	// Files are the regular files in out, by path below it. There are none if ctx has ended.
	Files map[string][]byte `json:"files,omitempty"`
	// Left counts the entries in out that were not returned: they exceeded a limit or were not regular files.
	Left int `json:"left,omitempty"`
	// NoRoutes counts the program's attempts to reach the network from a container without one.
	NoRoutes int64 `json:"no_routes,omitempty"`
}

const (
	// outFolder is where programs leave the files that are returned.
	outFolder = "out"
	// Limits of what goes into a run, and of what comes out.
	maxCodeFiles = 64
	maxCodeBytes = launch.HeldBytes - 1<<20
	maxCodeDepth = 8
)

// language says how programs are run: the file's name and the interpreter.
type language struct {
	file string
	argv []string
}

func languages() map[string]language {
	return map[string]language{
		// -I: neither the environment nor files beside the program change its imports.
		"python": {"main.py", []string{"python3", "-I"}},
		"node":   {"main.js", []string{"node"}},
		"sh":     {"main.sh", []string{"sh"}},
	}
}

// withModules lets a Python program import the files beside it, among them the module flynn.
func (l language) withModules() language {
	if l.file == "main.py" {
		l.argv = []string{"python3", "-E", "-s"}
	}
	return l
}

// codeRuns runs programs, each in its own container.
type codeRuns struct {
	launch.Installation
	base       spec.Spec // used where a run has no image of its own
	launcher   *launch.Launcher
	warm       *warm
	admissions *admissions
	sessions   *registry
	bridges    *bridges
}

// run runs a program until it ends or ctx is done.
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
		return CodeResult{}, errors.New("sandbox: code runs cannot have session volumes or a start_command")
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

// check validates the code and returns its language.
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

// container takes a container from a pool or makes one. If ctx ends first, the container that is being made is removed. If none is
// returned, leave is called once it is gone.
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

// run fills the workspace, runs the program and collects the files that it made.
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
	for name, content := range held { // also the files: a program imports from its own folder
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
		err = nil // ctx has ended, but there is a result
	}
	result.Files, result.Left = g.files, g.left
	return result, err
}

// runProgram runs the program and answers its calls. The time limit of a program that makes calls is measured by the host, because its
// clock may be stopped; the supervisor's limit is the last resort then.
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
	// The helpers end after the program: if they ended first, the program could fail for no visible reason.
	outlasting := context.WithoutCancel(ctx)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	began := time.Now()
	clock := stopwatch.Start(limit, cancel)
	defer clock.Stop()
	h := newHelping(outlasting, r.code.Helpers, clock, func(ctx context.Context, name string, data []byte) error {
		return r.c.Link.WriteFile(ctx, name, data, 0o444)
	})
	defer r.bridges.help(r.c, h)()
	ended, err := r.c.Exec(ctx, cmd)
	if clock.Stop() && ended.Canceled {
		ended.TimedOut, ended.Canceled = true, false
		ended.Wall = time.Since(began) // by the clock that has ended it: the supervisor's begins later, and would show less than the limit
	}
	return ended, err
}

// maxPaused bounds the total time for which the clock of one run may be stopped.
const maxPaused = time.Hour

// gathering collects files within limits. Everything in the container has ended, so nothing changes meanwhile.
type gathering struct {
	link    *link.Link
	files   map[string][]byte
	room    int64 // bytes that may still be collected
	folders int
	left    int
}

// folder collects the files of one folder. The program may have removed out, replaced it or made it unreadable.
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

// skip counts an entry that cannot be returned, and returns the errors after which collecting cannot go on.
func (g *gathering) skip(ctx context.Context, err error) error {
	if errors.Is(err, machine.ErrUnavailable) || ctx.Err() != nil {
		return err
	}
	if !errors.Is(err, machine.ErrNotFound) {
		g.left++
	}
	return nil
}

// quoteArgv quotes a command line for a shell.
func quoteArgv(argv []string) string {
	quoted := make([]string, len(argv))
	for i, arg := range argv {
		quoted[i] = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
	}
	return strings.Join(quoted, " ")
}
