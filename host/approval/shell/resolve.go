package shell

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// builtins are those of a shell's own commands that only do what they are told.
var builtins = []string{"cd", "echo", "printf", "test", "true", "false", "pwd", ":", "kill", "wait", "umask", "exit", "read"}

// Resolve finds the file that a shell on this machine would run for a program, and the names that lead to it. Programs below dir
// are refused, and so are those that are named from where the shell stands: whoever may write there would choose what runs.
func Resolve(program, dir string) (file string, names []string, err error) {
	if slices.Contains(builtins, program) {
		return "builtin " + program, nil, nil
	}
	if strings.Contains(program, "/") && !filepath.IsAbs(program) {
		return "", nil, fmt.Errorf("the program %q is named from the working directory", program)
	}
	found, err := exec.LookPath(program)
	if err != nil {
		return "", nil, fmt.Errorf("find the program %q: %w", program, err)
	}
	const maxLinks = 40
	for range maxLinks {
		if found, err = filepath.Abs(found); err != nil {
			return "", nil, err
		}
		names = append(names, found)
		target, err := os.Readlink(found)
		if err != nil {
			break
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(found), target)
		}
		found = target
	}
	if file, err = filepath.EvalSymlinks(names[0]); err != nil {
		return "", nil, fmt.Errorf("find the program %q: %w", program, err)
	}
	for _, n := range append(names, file) {
		if dir != "" && below(n, dir) {
			return "", nil, fmt.Errorf("the program %q lies in the workspace, where what it does can be changed", program)
		}
	}
	return file, names, nil
}

func below(path, dir string) bool {
	if real, err := filepath.EvalSymlinks(dir); err == nil && within(path, real) {
		return true
	}
	return within(path, dir)
}

func within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}

// placesOfPrograms are where images keep programs that commands in a container cannot replace.
var placesOfPrograms = []string{"/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"}

// ResolveInside is Resolve for a container, of which no more is known than what it is made of.
func ResolveInside(program string) (file string, err error) {
	if strings.Contains(program, "/") && !slices.Contains(placesOfPrograms, filepath.Dir(filepath.Clean(program))) {
		return "", fmt.Errorf("the program %q lies where what it does may be changed", program)
	}
	return program, nil
}
