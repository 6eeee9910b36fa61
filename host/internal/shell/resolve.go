package shell

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// builtins are the programs of the table that a shell runs itself.
var builtins = []string{"cd", "echo", "test", "true", "false", "pwd", ":", "umask", "exit"}

// binFolders are the folders of the system's programs, which only its administrator changes.
var binFolders = []string{"/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"}

// systemFolders are the folders that links in binFolders may lead to. /proc and /dev are none: their content differs from process to
// process, and the command runs in another one.
var systemFolders = []string{"/bin", "/sbin", "/usr", "/lib", "/etc/alternatives", "/nix/store"}

// Resolve finds the file that a shell on this machine with that PATH would run for a program, and the names that lead to it. It finds
// programs of the system only: the agent that asks could change any other.
func Resolve(program, searchPath string) (file string, names []string, err error) {
	if slices.Contains(builtins, program) {
		return "builtin " + program, nil, nil
	}
	found, err := lookUp(program, searchPath)
	if err != nil {
		return "", nil, err
	}
	if !slices.Contains(binFolders, filepath.Dir(found)) {
		return "", nil, fmt.Errorf("%s lies in no folder for the system's programs, so what it does may be changed", found)
	}
	const maxLinks = 40
	for range maxLinks {
		names = append(names, found)
		target, err := os.Readlink(found)
		if err != nil {
			break
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(found), target)
		}
		found = filepath.Clean(target)
	}
	if file, err = filepath.EvalSymlinks(names[0]); err != nil {
		return "", nil, fmt.Errorf("find the program %q: %w", program, err)
	}
	for _, n := range append(names, file) {
		if !slices.ContainsFunc(systemFolders, func(folder string) bool { return strings.HasPrefix(n, folder+"/") }) {
			return "", nil, fmt.Errorf("the program %q leads to %s, where what it does may be changed", program, n)
		}
	}
	return file, names, nil
}

// lookUp finds a program like a shell.
func lookUp(program, searchPath string) (string, error) {
	if strings.Contains(program, "/") {
		if !filepath.IsAbs(program) {
			return "", fmt.Errorf("the program %q is named from the working directory", program)
		}
		return filepath.Clean(program), nil
	}
	for _, folder := range filepath.SplitList(searchPath) {
		name := filepath.Join(folder, program)
		if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0 {
			return name, nil
		}
	}
	return "", fmt.Errorf("the program %q is not found", program)
}

// ResolveInside is Resolve for a container, whose files the host does not see.
func ResolveInside(program string) (file string, err error) {
	if strings.Contains(program, "/") && !slices.Contains(binFolders, filepath.Dir(filepath.Clean(program))) {
		return "", fmt.Errorf("the program %q lies where what it does may be changed", program)
	}
	return program, nil
}
