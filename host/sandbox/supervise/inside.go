//go:build linux

package supervise

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// lookAround collects the evidence of where this process runs. The host compares it with what it requested.
func lookAround(nonce, workspace string) frame.WelcomeBody {
	w := lasting()
	w.Nonce, w.WorkspaceMount = nonce, isMount(workspace)
	return w
}

// lasting is the evidence that stays the same as long as this process runs.
var lasting = sync.OnceValue(func() frame.WelcomeBody {
	w := frame.WelcomeBody{Version: frame.Version, PID: os.Getpid()}
	status, _ := os.ReadFile("/proc/self/status")
	w.NoNewPrivs = statusField(status, "NoNewPrivs:") == "1"
	w.Seccomp = statusField(status, "Seccomp:") == "2"
	w.CapEff, _ = strconv.ParseUint(statusField(status, "CapEff:"), 16, 64)
	w.CapBnd, _ = strconv.ParseUint(statusField(status, "CapBnd:"), 16, 64)
	var root unix.Statfs_t
	if unix.Statfs("/", &root) == nil {
		w.RootReadOnly = root.Flags&unix.ST_RDONLY != 0
	}
	devices, _ := os.ReadFile("/proc/self/net/dev")
	w.Interfaces = interfaces(devices)
	return w
})

// interfaces returns the names in /proc/net/dev, which precede a colon; the two title lines have none.
func interfaces(devices []byte) []string {
	var names []string
	for line := range bytes.Lines(devices) {
		if name, _, ok := bytes.Cut(line, []byte(":")); ok {
			names = append(names, string(bytes.TrimSpace(name)))
		}
	}
	return names
}

// statusField returns the value of one line of /proc/PID/status.
func statusField(status []byte, name string) string {
	for line := range bytes.Lines(status) {
		if rest, ok := bytes.CutPrefix(line, []byte(name)); ok {
			return string(bytes.TrimSpace(rest))
		}
	}
	return ""
}

// mountPath decodes spaces, tabs, line feeds and backslashes, which the kernel writes as a backslash and three octal digits.
func mountPath(field string) string {
	if !strings.Contains(field, `\`) {
		return field
	}
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(field)
}

// isMount reports whether path is a mount point; see proc_pid_mountinfo(5). Since Linux 5.8 statx(2) says so in one call.
func isMount(path string) bool {
	var st unix.Statx_t
	if unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, 0, &st) == nil && st.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT != 0 {
		return st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
	}
	info, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range bytes.Lines(info) {
		if fields := strings.Fields(string(line)); len(fields) > 4 && mountPath(fields[4]) == path {
			return true
		}
	}
	return false
}

// identify reports what is mounted at the paths that the host names, before any command can run.
func (s *supervisor) identify(w *frame.WelcomeBody) {
	if len(s.hello.Mounts) == 0 {
		return
	}
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	w.BootID = string(bytes.TrimSpace(id))
	for _, place := range s.hello.Mounts {
		var st unix.Stat_t
		look := func() error { return unix.Lstat(string(place), &st) }
		if look() != nil { // its parent may be accessible to the workload only
			_ = s.files.as(look)
		}
		w.Mounts = append(w.Mounts, frame.FileID{Dev: st.Dev, Ino: st.Ino})
	}
}

// openScratch makes folders in memory writable for everybody, as /tmp is. The engine was asked to, but some runtimes give a mount the mode
// of the image's folder at that path. A failure is ignored: a command that needs the folder reports it. No command runs yet, so nothing
// changes between the check and the change.
func openScratch(folders [][]byte) {
	for _, folder := range folders {
		var fs unix.Statfs_t
		if unix.Statfs(string(folder), &fs) == nil && fs.Type == unix.TMPFS_MAGIC {
			_ = unix.Chmod(string(folder), 0o1777)
		}
	}
}
