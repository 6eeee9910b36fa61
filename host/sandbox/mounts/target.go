package mounts

import (
	"fmt"
	"path"
	"strings"
)

// TargetError says which of the targets given is wrong.
type TargetError struct {
	Index   int
	Problem string
}

func (e *TargetError) Error() string { return e.Problem }

// kernels are the places inside that are the kernel's or the engine's.
func kernels() []string {
	return []string{"/proc", "/sys", "/dev", "/tmp", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf"}
}

// programs are the places without which no image has a shell, whichever way round /bin and /usr/bin are.
func programs() []string { return []string{"/bin", "/lib", "/lib64", "/usr/bin", "/usr/lib"} }

// CheckTargets judges the places that mounts take in a container whose workspace is at that path; "" is a container without
// one, which has no /tmp of ours either. Its error is a *TargetError.
func CheckTargets(workspace string, targets []string) error {
	for i, target := range targets {
		problem := checkTarget(workspace, target)
		for _, earlier := range targets[:i] {
			if problem == "" && (below(target, earlier) || below(earlier, target)) {
				problem = fmt.Sprintf("%q and %q lie over each other: mount them side by side", earlier, target)
			}
		}
		if problem != "" {
			return &TargetError{Index: i, Problem: problem}
		}
	}
	return nil
}

// systems are folders of an image that its programs need, besides those in programs.
func systems() []string { return []string{"/etc", "/run", "/sbin", "/usr", "/var"} }

// CheckWorkspace judges the place that the workspace takes in a container. It hides what the image has there, and commands
// own it.
func CheckWorkspace(dir string) error {
	switch {
	case strings.ContainsFunc(dir, func(c rune) bool { return c < ' ' || c == 0x7f || c == '\uFFFD' || c == ':' }) || len(dir) > 1024:
		return &TargetError{Problem: fmt.Sprintf("%q has a colon or another character that no such path should have, or is too long", dir)}
	case !path.IsAbs(dir) || path.Clean(dir) == "/":
		return &TargetError{Problem: fmt.Sprintf(`%q is not a folder inside the container: write an absolute path below /, such as "/workspace"`, dir)}
	case path.Clean(dir) != dir:
		return &TargetError{Problem: fmt.Sprintf("%q is not the shortest way to write it: write %q", dir, path.Clean(dir))}
	case strings.HasPrefix(dir, "/.flynn"):
		return &TargetError{Problem: fmt.Sprintf("%q is Flynn's own: choose another name", dir)}
	}
	for _, p := range append(programs(), systems()...) {
		if below(p, dir) {
			return &TargetError{Problem: fmt.Sprintf("%q hides %s of the image, which its programs need: choose a folder of its own", dir, p)}
		}
	}
	for _, k := range kernels() {
		if below(dir, k) || below(k, dir) {
			return &TargetError{Problem: fmt.Sprintf("%q lies over %s, which the container needs: choose a folder of its own", dir, k)}
		}
	}
	return nil
}

func checkTarget(workspace, target string) string {
	switch {
	case strings.ContainsRune(target, ':'):
		return fmt.Sprintf("target %q has a colon: write source, target and read_only as keys of their own", target)
	case strings.ContainsFunc(target, func(c rune) bool { return c < ' ' || c == 0x7f || c == '\uFFFD' }) || len(target) > 1024:
		return fmt.Sprintf("target %q has a character that no path should have, or is too long", target)
	case !path.IsAbs(target) || path.Clean(target) != target || target == "/":
		return fmt.Sprintf(`target %q is not a path inside the container: write a clean absolute path below /, such as "/data"`, target)
	case strings.HasPrefix(target, "/.flynn"):
		return fmt.Sprintf("target %q is Flynn's own: choose another name", target)
	case workspace == "":
	case below(workspace, target):
		return fmt.Sprintf("target %q hides the workspace %s: choose a place beside it", target, workspace)
	case below(target, workspace):
		return fmt.Sprintf("target %q lies in the workspace %s, where the engine would make folders of root's: choose a place beside it", target, workspace)
	default:
		for _, p := range programs() {
			if below(p, target) {
				return fmt.Sprintf("target %q hides %s of the image, and with it the shell: choose a place below or beside it", target, p)
			}
		}
	}
	for _, k := range kernels() {
		if workspace == "" && k == "/tmp" {
			continue
		}
		if below(target, k) || below(k, target) {
			return fmt.Sprintf("target %q lies over %s, which the container needs: choose another place", target, k)
		}
	}
	return ""
}
