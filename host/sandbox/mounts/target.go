package mounts

import (
	"fmt"
	"path"
	"strings"
)

// TargetError is the error for one of the given targets.
type TargetError struct {
	Index   int
	Problem string
}

func (e *TargetError) Error() string { return e.Problem }

// kernels returns the paths in a container that belong to the kernel or the engine.
func kernels() []string {
	return []string{"/proc", "/sys", "/dev", "/tmp", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf"}
}

// programs returns the folders without which an image has no shell; /bin may be a link to /usr/bin or vice versa.
func programs() []string { return []string{"/bin", "/lib", "/lib64", "/usr/bin", "/usr/lib"} }

// CheckTargets checks the mount points in a container. workspace is the path of the workspace; "" means that there is none, and no /tmp of
// ours either. The error is a *TargetError.
func CheckTargets(workspace string, targets []string) error {
	for i, target := range targets {
		problem := checkTarget(workspace, target)
		for _, earlier := range targets[:i] {
			if problem == "" && (below(target, earlier) || below(earlier, target)) {
				problem = fmt.Sprintf("%q and %q overlap: mount them side by side", earlier, target)
			}
		}
		if problem != "" {
			return &TargetError{Index: i, Problem: problem}
		}
	}
	return nil
}

// systems returns the folders of an image that its programs need, in addition to those of programs.
func systems() []string { return []string{"/etc", "/run", "/sbin", "/usr", "/var"} }

// CheckWorkspace checks the path of the workspace in a container. It hides the image's files there, and commands own it.
func CheckWorkspace(dir string) error {
	switch {
	case strings.ContainsFunc(dir, func(c rune) bool { return c < ' ' || c == 0x7f || c == '\uFFFD' || c == ':' }) || len(dir) > 1024:
		return &TargetError{Problem: fmt.Sprintf("%q contains a colon or another unsuitable character, or is too long", dir)}
	case !path.IsAbs(dir) || path.Clean(dir) == "/":
		return &TargetError{Problem: fmt.Sprintf(`%q is not a folder inside the container: write an absolute path below /, such as "/workspace"`, dir)}
	case path.Clean(dir) != dir:
		return &TargetError{Problem: fmt.Sprintf("%q is not a clean path: write %q", dir, path.Clean(dir))}
	case strings.HasPrefix(dir, "/.flynn"):
		return &TargetError{Problem: fmt.Sprintf("%q is reserved by Flynn: choose another name", dir)}
	}
	for _, p := range append(programs(), systems()...) {
		if below(p, dir) {
			return &TargetError{Problem: fmt.Sprintf("%q hides %s of the image, which its programs need: choose a separate folder", dir, p)}
		}
	}
	for _, k := range kernels() {
		if below(dir, k) || below(k, dir) {
			return &TargetError{Problem: fmt.Sprintf("%q overlaps %s, which the container needs: choose a separate folder", dir, k)}
		}
	}
	return nil
}

func checkTarget(workspace, target string) string {
	switch {
	case strings.ContainsRune(target, ':'):
		return fmt.Sprintf("target %q contains a colon: write source, target and read_only as separate keys", target)
	case strings.ContainsFunc(target, func(c rune) bool { return c < ' ' || c == 0x7f || c == '\uFFFD' }) || len(target) > 1024:
		return fmt.Sprintf("target %q contains an unsuitable character, or is too long", target)
	case !path.IsAbs(target) || path.Clean(target) != target || target == "/":
		return fmt.Sprintf(`target %q is not a path inside the container: write a clean absolute path below /, such as "/data"`, target)
	case strings.HasPrefix(target, "/.flynn"):
		return fmt.Sprintf("target %q is reserved by Flynn: choose another name", target)
	case workspace == "":
	case below(workspace, target):
		return fmt.Sprintf("target %q hides the workspace %s: choose a path beside it", target, workspace)
	case below(target, workspace):
		return fmt.Sprintf("target %q lies in the workspace %s, where the engine would create folders owned by root: choose a path beside it", target, workspace)
	default:
		for _, p := range programs() {
			if below(p, target) {
				return fmt.Sprintf("target %q hides %s of the image, and with it the shell: choose a path below or beside it", target, p)
			}
		}
	}
	for _, k := range kernels() {
		if workspace == "" && k == "/tmp" {
			continue
		}
		if below(target, k) || below(k, target) {
			return fmt.Sprintf("target %q overlaps %s, which the container needs: choose another path", target, k)
		}
	}
	return ""
}
