//go:build linux

package supervise

import (
	"bytes"
	"os"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// identify tells the host what really was mounted at the places that it names, before any command can run.
func (s *supervisor) identify(w *frame.WelcomeBody) {
	if len(s.hello.Mounts) == 0 {
		return
	}
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	w.BootID = string(bytes.TrimSpace(id))
	for _, place := range s.hello.Mounts {
		var st unix.Stat_t
		look := func() error { return unix.Lstat(string(place), &st) }
		if look() != nil { // its parent may be the workload's alone
			_ = s.files.as(look)
		}
		w.Mounts = append(w.Mounts, frame.FileID{Dev: st.Dev, Ino: st.Ino})
	}
}
