package cgroup

import (
	"bufio"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrNone means that this process is in no group of a controller, or not in one that it can see.
var ErrNone = errors.New("this system has no such control groups for Flynn")

// inside is the group into which HandOn moves this process.
const inside = "flynn-host"

// Own returns the folder of this process's group of a controller, such as memory, and the version of its hierarchy. HandOn does not change it.
func Own(controller string) (dir string, version int, err error) {
	dir, version, err = own("/proc/self/cgroup", "/proc/self/mountinfo", controller)
	if filepath.Base(dir) == inside {
		dir = filepath.Dir(dir)
	}
	return dir, version, err
}

func own(groups, mounts, controller string) (dir string, version int, err error) {
	text, err := os.ReadFile(groups)
	if err != nil {
		return "", 0, err
	}
	var v1, v2 string
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(parts) != 3:
		case slices.Contains(strings.Split(parts[1], ","), controller):
			v1 = parts[2]
		case parts[0] == "0" && parts[1] == "":
			v2 = parts[2]
		}
	}
	switch {
	case v1 != "":
		dir, err = folder(mounts, "cgroup", controller, v1)
		return dir, 1, err
	case v2 != "":
		dir, err = folder(mounts, "cgroup2", "", v2)
		return dir, 2, err
	}
	return "", 0, ErrNone
}

// folder finds where a hierarchy is mounted, and the group in it; see proc_pid_mountinfo(5).
func folder(mounts, kind, option, group string) (string, error) {
	f, err := os.Open(mounts)
	if err != nil {
		return "", err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		mount, super, ok := strings.Cut(lines.Text(), " - ")
		m, s := strings.Fields(mount), strings.Fields(super)
		if !ok || len(m) < 5 || len(s) < 3 || s[0] != kind || option != "" && !slices.Contains(strings.Split(s[2], ","), option) {
			continue
		}
		if rest, err := filepath.Rel(m[3], group); err == nil && filepath.IsLocal(rest) {
			return filepath.Join(m[4], rest), nil
		}
	}
	return "", ErrNone
}

// HandOn enables controllers for the children of a group of version 2. Such a group cannot contain processes, so this process moves into a
// child if it is alone in the group, unless somebody else manages the group.
func HandOn(dir string, controllers ...string) error {
	err := enable(dir, controllers)
	if !errors.Is(err, unix.EBUSY) {
		return err
	}
	members, rerr := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	switch {
	case rerr != nil || strings.TrimSpace(string(members)) != strconv.Itoa(os.Getpid()):
		return errors.New("the host is not alone in its control group")
	case os.Geteuid() == 0 && !delegated(dir):
		return errors.New("systemd manages its control group: write Delegate=yes into the unit")
	}
	child := filepath.Join(dir, inside)
	if err := os.Mkdir(child, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := os.WriteFile(filepath.Join(child, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0o644); err != nil {
		return err
	}
	return enable(dir, controllers)
}

func enable(dir string, controllers []string) error {
	return os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+strings.Join(controllers, " +")), 0o644)
}

// delegated reports whether systemd has delegated a group to its processes. Other users than root could not write there otherwise.
func delegated(dir string) bool {
	for _, attr := range []string{"user.delegate", "trusted.delegate"} {
		value := make([]byte, 1)
		if n, err := unix.Getxattr(dir, attr, value); err == nil && string(value[:n]) == "1" {
			return true
		}
	}
	return false
}
