package within

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// apply maps the ids of a process.
func (m IDs) apply(pid int, single bool) error {
	if m.Programs[0] == "" {
		proc, err := unix.Open("/proc", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(proc)
		return m.write(proc, pid, single)
	}
	var failed [2]error
	done := make(chan struct{})
	for i, ranges := range [][]Range{m.Users, m.Groups} {
		go func() {
			defer func() { done <- struct{}{} }()
			args := append([]string{strconv.Itoa(pid)}, strings.Fields(lines(ranges))...)
			if said, err := exec.Command(m.Programs[i], args...).CombinedOutput(); err != nil {
				failed[i] = fmt.Errorf("%s: %w: %s", m.Programs[i], err, strings.TrimSpace(string(said)))
			}
		}()
	}
	for range failed {
		<-done
	}
	if failed[0] != nil {
		return failed[0]
	}
	return failed[1]
}

// write maps the ids without the system's programs. Where a user maps only himself, the kernel wants the right to set groups given up first.
// proc is the folder /proc.
func (m IDs) write(proc, pid int, single bool) error {
	groups := "allow"
	if single {
		groups = "deny"
	}
	for _, file := range []struct{ name, text string }{{"uid_map", lines(m.Users)}, {"setgroups", groups}, {"gid_map", lines(m.Groups)}} {
		fd, err := unix.Openat(proc, strconv.Itoa(pid)+"/"+file.name, unix.O_WRONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			_, err = unix.Write(fd, []byte(file.text))
			unix.Close(fd)
		}
		if err != nil {
			return fmt.Errorf("map the ids of a sandbox: %w", err)
		}
	}
	return nil
}

// inner returns the ids of a namespace in one that has these: they stay the same.
func (m IDs) inner() IDs {
	same := func(ranges []Range) (out []Range) {
		for _, r := range ranges {
			out = append(out, Range{Inside: r.Inside, Outside: r.Inside, Size: r.Size})
		}
		return out
	}
	return IDs{Users: same(m.Users), Groups: same(m.Groups)}
}

// lines are those of a file such as uid_map; see user_namespaces(7).
func lines(ranges []Range) (text string) {
	for _, r := range ranges {
		text += fmt.Sprintf("%d %d %d\n", r.Inside, r.Outside, r.Size)
	}
	return text
}
