package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host/admin/sandboxes"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/archive"
	"github.com/flynnhost/flynn/host/sandbox/workspace"

	"github.com/flynnhost/flynn/host/sandbox/spec"
)

func copySandboxCommand(name cli.Flag) *cli.Command {
	return &cli.Command{
		Name: "cp", Usage: "copy files into a session's sandbox and out of it", ArgsUsage: "SOURCE DEST",
		Description: "One of the two is SESSION:PATH, with a path in the session's workspace, the other a path of this machine. A folder is\n" +
			"copied with everything in it, into DEST if that is a folder. With - as the other one, a folder is written to standard\n" +
			"output as a tar, and a tar, tar.gz or zip from standard input is unpacked into PATH; a single file is copied as it is.\n" +
			"A DEST that ends with a slash is a folder, and created if it is missing. Git hooks are left out, except from a folder of\n" +
			"this machine, because git runs them. Git also runs what .git/config names: check that file before you use git in a\n" +
			"copied repository, or clone the copy.",
		Flags: []cli.Flag{
			name, &cli.BoolFlag{Name: "hooks", Usage: "also copy git hooks, which git runs"},
		},
		Action: copySandbox,
	}
}

func copySandbox(ctx context.Context, cmd *cli.Command) error {
	return withSandboxes(ctx, cmd, func(ctx context.Context, s *sandboxes.Admin, out *output) error {
		from, to := cmd.Args().Get(0), cmd.Args().Get(1)
		source, isSource, err := findPath(s, from)
		if err != nil {
			return err
		}
		dest, isDest, err := findPath(s, to)
		if err != nil {
			return err
		}
		if isSource == isDest {
			return usagef("one of %q and %q must be SESSION:PATH, and the other a path of this machine", from, to)
		}
		c := copying{ctx: ctx, out: out, stdin: cmd.Root().Reader, limits: archive.Limits{Hooks: cmd.Bool("hooks")}}
		if isSource {
			return inSession(ctx, s, cmd, source.session, func(b *sandbox.Session) error { return c.report(c.down(b, source.path, to)) })
		}
		return inSession(ctx, s, cmd, dest.session, func(b *sandbox.Session) error { return c.report(c.up(b, from, dest.path)) })
	})
}

// sessionPath is a path in a session's workspace.
type sessionPath struct {
	session message.WorkspaceKey
	path    string
}

// findPath reads SESSION:PATH. Names of sessions contain colons as well, so it looks for the longest one that exists.
func findPath(s *sandboxes.Admin, arg string) (sessionPath, bool, error) {
	if arg == "-" || filepath.IsAbs(arg) || strings.HasPrefix(arg, ".") || !strings.Contains(arg, ":") {
		return sessionPath{}, false, nil
	}
	for i := len(arg) - 1; i > 0; i-- {
		if arg[i] != ':' {
			continue
		}
		if _, err := os.Stat(workspace.Path(s.Root, message.WorkspaceKey(arg[:i]))); err == nil {
			return sessionPath{message.WorkspaceKey(arg[:i]), arg[i+1:]}, true, nil
		}
	}
	return sessionPath{}, false, fmt.Errorf("no session in %q has a workspace: see flynn sandbox list; a file of this machine with a colon is written ./%s", arg, arg)
}

// inSession does something in a container that it starts for the session's workspace.
func inSession(ctx context.Context, s *sandboxes.Admin, cmd *cli.Command, session message.WorkspaceKey, do func(*sandbox.Session) error) error {
	return inContainer(ctx, s, cmd, session, false, func(b *sandbox.Session, _ spec.Spec) error { return do(b) })
}

// inContainer does something in a container that is removed afterwards, with the session if that is ephemeral.
func inContainer(
	ctx context.Context, s *sandboxes.Admin, cmd *cli.Command, session message.WorkspaceKey, ephemeral bool, do func(*sandbox.Session, spec.Spec) error,
) (err error) {
	name := cmd.String("sandbox")
	spec, err := s.Spec(name)
	if err != nil {
		return err
	}
	manager, err := s.Manager(sandboxLog(cmd))
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
		defer cancel()
		if ephemeral {
			err = errors.Join(err, manager.Discard(ctx, session))
		}
		err = errors.Join(err, manager.DestroyAll(ctx))
	}()
	if ephemeral {
		if err := manager.Ephemeral(session); err != nil {
			return err
		}
	}
	box, err := manager.Get(ctx, session, name, spec)
	if err != nil {
		return err
	}
	return do(box, spec)
}

// copying is one run of the command.
type copying struct {
	ctx    context.Context
	out    *output
	stdin  io.Reader
	limits archive.Limits
}

// report prints what was left out, and with --json everything that was copied.
func (c copying) report(t archive.Tally, err error) error {
	if err != nil {
		return err
	}
	if t.Skipped > 0 {
		fmt.Fprintln(c.out.err, "flynn: left out:", leftOut(t))
	}
	if t.Torn > 0 {
		fmt.Fprintf(c.out.err, "flynn: %d files changed while they were copied\n", t.Torn)
	}
	if c.out.asJSON {
		return c.out.json(t)
	}
	return nil
}

// leftOut names the entries that were left out, as far as the tally has them, with the reasons.
func leftOut(t archive.Tally) string {
	var named []string
	hooks := false
	for _, l := range t.Left {
		named = append(named, fmt.Sprintf("%s (%s)", cell(l.Path), l.Why))
		hooks = hooks || l.Why == archive.Hook
	}
	if more := t.Skipped - int64(len(t.Left)); more > 0 {
		named = append(named, fmt.Sprintf("%d more", more))
	}
	text := strings.Join(named, ", ")
	if hooks {
		text += "; --hooks copies hooks as well"
	}
	return text
}

// down copies from the session.
func (c copying) down(b *sandbox.Session, from, to string) (t archive.Tally, err error) {
	info, err := b.Stat(c.ctx, from)
	switch {
	case err != nil:
		return t, err
	case to == "-" && c.out.asJSON:
		return t, usagef("--json and - both need standard output")
	case info.Mode.IsDir() && to == "-":
		return b.Export(c.ctx, from, c.out.out, c.limits)
	case info.Mode.IsDir():
		return c.downFolder(b, from, to)
	}
	r, info, err := b.Open(c.ctx, from)
	if err != nil {
		return t, err
	}
	defer r.Close()
	if to == "-" {
		_, err := io.Copy(c.out.out, r)
		return archive.Tally{Files: 1, Bytes: info.Size}, err
	}
	if strings.HasSuffix(to, "/") {
		if err := os.MkdirAll(to, 0o755); err != nil {
			return t, err
		}
	}
	if there, err := os.Stat(to); err == nil && there.IsDir() {
		to = filepath.Join(to, path.Base(from))
	}
	return archive.Tally{Files: 1, Bytes: info.Size}, writeFile(to, r, info.Mode.Perm())
}

// writeFile replaces a file once all of it has been read.
func writeFile(name string, r io.Reader, mode fs.FileMode) error {
	draft, err := os.CreateTemp(filepath.Dir(name), ".flynn-*")
	if err != nil {
		return err
	}
	_, err = io.Copy(draft, r)
	err = errors.Join(err, draft.Chmod(mode), draft.Close())
	if err == nil {
		err = os.Rename(draft.Name(), name)
	}
	if err != nil {
		os.Remove(draft.Name())
	}
	return err
}

func (c copying) downFolder(b *sandbox.Session, from, to string) (t archive.Tally, err error) {
	if there, err := os.Stat(to); err == nil && there.IsDir() {
		if base := path.Base(from); from != "" && base != "." && base != "/" {
			to = filepath.Join(to, base)
		}
	}
	made, err := makeFolders(to)
	if err != nil {
		return t, err
	}
	defer func() {
		if err != nil {
			removeEmpty(made)
		}
	}()
	root, err := os.OpenRoot(to)
	if err != nil {
		return t, err
	}
	defer root.Close()
	return b.CopyOut(c.ctx, from, root, c.limits)
}

// makeFolders creates a folder with its parents, and returns those that were missing, innermost first.
func makeFolders(name string) (made []string, err error) {
	for at := filepath.Clean(name); ; at = filepath.Dir(at) {
		if _, err := os.Lstat(at); !errors.Is(err, fs.ErrNotExist) || at == filepath.Dir(at) {
			break
		}
		made = append(made, at)
	}
	return made, os.MkdirAll(name, 0o755)
}

// removeEmpty removes folders up to the first one that is not empty.
func removeEmpty(made []string) {
	for _, name := range made {
		if os.Remove(name) != nil {
			return
		}
	}
}

// up copies into the session.
func (c copying) up(b *sandbox.Session, from, to string) (t archive.Tally, err error) {
	if from == "-" {
		return b.Import(c.ctx, to, c.stdin, c.limits)
	}
	info, err := os.Stat(from)
	if err != nil {
		return t, err
	}
	there, err := b.Stat(c.ctx, to)
	if err == nil && there.Mode.IsDir() || strings.HasSuffix(to, "/") && !info.IsDir() {
		to = path.Join(to, filepath.Base(from))
	}
	if info.IsDir() {
		root, err := os.OpenRoot(from)
		if err != nil {
			return t, err
		}
		defer root.Close()
		return b.CopyIn(c.ctx, to, root)
	}
	if !info.Mode().IsRegular() {
		return t, fmt.Errorf("copy %s: it is neither a file nor a folder", from)
	}
	f, err := os.Open(from)
	if err != nil {
		return t, err
	}
	defer f.Close()
	return archive.Tally{Files: 1, Bytes: info.Size()}, b.Put(c.ctx, to, f, -1, info.Mode().Perm())
}
