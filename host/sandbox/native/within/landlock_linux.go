package within

import (
	"os"
	"slices"

	"github.com/landlock-lsm/go-landlock/landlock"
	"golang.org/x/sys/unix"
)

// landlock is a second wall behind the view: whatever a command manages to mount or to reach, it writes below the folders of the view that are
// for writing and nowhere else. It reaches no abstract socket of the host either, which a sandbox with the host's network would share, and
// signals nothing outside. A kernel that has none of this, or only a part, leaves it to the view.
func (c Config) landlock() error {
	const read = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	const write = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	rules := []landlock.Rule{
		landlock.PathAccess(read, "/"),
		landlock.PathAccess(write, "/proc"),
		landlock.PathAccess(write|unix.LANDLOCK_ACCESS_FS_IOCTL_DEV, "/dev"),
		landlock.RWDirs("/tmp", "/dev/shm").WithRefer(),
	}
	for _, m := range c.Mounts {
		if m.ReadOnly || slices.Contains([]string{"/tmp", "/dev/shm"}, m.Target) {
			continue
		}
		info, err := os.Stat(m.Target)
		if err != nil {
			return err
		}
		if !info.IsDir() {
			rules = append(rules, landlock.RWFiles(m.Target))
			continue
		}
		rules = append(rules, landlock.RWDirs(m.Target).WithRefer())
	}
	if err := landlock.V6.BestEffort().RestrictPaths(rules...); err != nil {
		return err
	}
	return landlock.V6.BestEffort().RestrictScoped()
}
