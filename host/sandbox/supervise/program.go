//go:build linux

package supervise

import (
	"fmt"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// program returns what a command runs: the shell with its script, or a program of the image.
func (c *command) program(env []string, dir string) (file string, argv []string, err error) {
	if c.body.Argv == nil {
		return c.s.shell, []string{c.s.shell, "-c", string(c.body.Script)}, nil
	}
	argv = frame.Texts(c.body.Argv)
	if len(argv) == 0 || argv[0] == "" {
		return "", nil, fail(frame.Internal, "the program to start has no name")
	}
	file, err = c.lookUp(argv[0], joinEnv(c.s.spawner.env, env), dir)
	return file, argv, err
}

// plainShell exists in every image in which commands can run.
const plainShell = "/bin/sh"

// findShell returns the program that runs scripts: bash if the image has it. It looks in the usual folders of images and not in PATH, which
// may contain a folder that commands can write to.
func findShell() string {
	for _, file := range []string{"/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash"} {
		var st unix.Stat_t
		if unix.Stat(file, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && st.Mode&0o111 != 0 {
			return file
		}
	}
	return plainShell
}

// lookUp finds a program in PATH with the permissions of its user; a name with a slash is a path already.
func (c *command) lookUp(name string, env []string, dir string) (string, error) {
	candidates := []string{name}
	if !strings.Contains(name, "/") {
		candidates = candidates[:0]
		for _, folder := range strings.Split(valueOf(env, "PATH"), ":") {
			candidates = append(candidates, path.Join(folder, name))
		}
	}
	for _, file := range candidates {
		if !path.IsAbs(file) {
			file = path.Join(dir, file)
		}
		var st unix.Stat_t
		err := c.s.files.as(func() error { return unix.Stat(file, &st) })
		if err == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && st.Mode&0o111 != 0 {
			return file, nil
		}
	}
	return "", fail(frame.NotFound, fmt.Sprintf("the image has no program %q that can be executed", name))
}

// anyDir returns the working directory of an image's program: any folder that its user may enter.
func (c *command) anyDir() (string, error) {
	dir := path.Clean("/" + string(c.body.Cwd))
	var st unix.Stat_t
	if err := c.s.files.as(func() error { return unix.Stat(dir, &st) }); err != nil {
		return "", fmt.Errorf("enter working directory: %w", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return "", fail(frame.NotFound, "working directory is not a folder")
	}
	return dir, nil
}

// joinEnv replaces earlier variables by later ones of the same name, because programs disagree about which one counts.
func joinEnv(base, more []string) []string {
	joined := make([]string, 0, len(base)+len(more))
	at := make(map[string]int, len(base)+len(more))
	for _, list := range [][]string{base, more} {
		for _, variable := range list {
			name, _, _ := strings.Cut(variable, "=")
			if i, known := at[name]; known {
				joined[i] = variable
				continue
			}
			at[name] = len(joined)
			joined = append(joined, variable)
		}
	}
	return joined
}

func valueOf(env []string, name string) string {
	for _, variable := range env {
		if value, is := strings.CutPrefix(variable, name+"="); is {
			return value
		}
	}
	return ""
}
