package within

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Sizes in memory, in bytes.
const (
	rootBytes   = 1 << 20 // folders, links and small files of the view
	tmpBytes    = 64 << 20
	sharedBytes = 64 << 20 // of /dev/shm
)

// devices are those that every program may use.
var devices = []string{"null", "zero", "full", "random", "urandom", "tty"}

// hiddenFiles and hiddenFolders of /proc say much about the host, or change it; protected ones can be read. They are those that engines hide.
var (
	hiddenFiles     = []string{"/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/proc/interrupts"}
	hiddenFolders   = []string{"/proc/acpi", "/proc/asound", "/proc/scsi"}
	protectedInProc = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
)

// view makes the sandbox's files the root of this process.
func (c Config) view() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keep mounts to this process: %w", err)
	}
	if err := c.memory("/", rootBytes, 0o755); err != nil {
		return err
	}
	for _, name := range c.Host {
		if err := c.show(name); err != nil {
			return err
		}
	}
	for _, folder := range []string{"/etc", "/run", "/var", "/root", "/home", "/sys", "/proc", "/dev", "/tmp"} {
		if err := os.MkdirAll(c.at(folder), 0o755); err != nil {
			return err
		}
	}
	for _, f := range c.Files {
		if err := os.WriteFile(c.at(f.Path), []byte(f.Text), 0o644); err != nil {
			return err
		}
	}
	steps := []func() error{
		c.devices, c.processes, c.counters,
		func() error { return c.memory("/tmp", tmpBytes, 0o1777) },
		c.mounts, c.pivot,
	}
	for _, do := range steps {
		if err := do(); err != nil {
			return err
		}
	}
	return nil
}

// at returns where a path of the view is before the view is the root.
func (c Config) at(path string) string { return filepath.Join(c.Root, path) }

// memory mounts a folder in memory.
func (c Config) memory(path string, bytes int64, mode fs.FileMode) error {
	if err := c.folder(path); err != nil {
		return err
	}
	unixMode := uint32(mode.Perm())
	if mode&0o1000 != 0 {
		unixMode |= 0o1000
	}
	options := fmt.Sprintf("mode=%o,size=%d", unixMode, bytes)
	if err := unix.Mount("flynn", c.at(path), "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return fmt.Errorf("mount memory at %s: %w", path, err)
	}
	return nil
}

// folder makes a folder of the view, and its parents, if they are missing. A link on the way would lead out of the view, so there must be none.
func (c Config) folder(path string) error { return c.make(path, true) }

func (c Config) make(path string, isFolder bool) error {
	parts := strings.Split(strings.Trim(filepath.Clean(path), "/"), "/")
	here := c.Root
	for i, part := range parts {
		if part == "" {
			continue
		}
		here = filepath.Join(here, part)
		info, err := os.Lstat(here)
		last := i == len(parts)-1
		switch {
		case err == nil && info.Mode()&fs.ModeSymlink != 0:
			return fmt.Errorf("%s passes through a link at %s", path, strings.TrimPrefix(here, c.Root))
		case err == nil:
		case !errors.Is(err, fs.ErrNotExist):
			return err
		case last && !isFolder:
			err = os.WriteFile(here, nil, 0o644)
			if err != nil {
				return err
			}
		default:
			if err := os.Mkdir(here, 0o755); err != nil {
				return err
			}
		}
	}
	return nil
}

// show mounts a file or folder of the host at the same path, for reading.
func (c Config) show(name string) error {
	info, err := os.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode()&fs.ModeSymlink != 0:
		to, err := os.Readlink(name)
		if err == nil {
			err = c.folder(filepath.Dir(name))
		}
		if err == nil {
			err = os.Symlink(to, c.at(name))
		}
		return err
	}
	return c.bind(Mount{Source: name, Target: name, ReadOnly: true}, info.IsDir())
}

// bind mounts a file or folder of the host.
func (c Config) bind(m Mount, isFolder bool) error {
	if err := c.make(m.Target, isFolder); err != nil {
		return err
	}
	flags := uintptr(unix.MS_BIND)
	if !m.Alone {
		flags |= unix.MS_REC
	}
	if err := unix.Mount(m.Source, c.at(m.Target), "", flags, ""); err != nil {
		return fmt.Errorf("mount %s: %w", m.Target, err)
	}
	set := uint64(unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV)
	if m.ReadOnly {
		set |= unix.MOUNT_ATTR_RDONLY
	}
	return c.attributes(m.Target, set)
}

// attributes sets attributes of a mount and of those below it.
func (c Config) attributes(path string, set uint64) error {
	err := unix.MountSetattr(-1, c.at(path), unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: set})
	if err != nil {
		return fmt.Errorf("restrict the mount at %s (this needs Linux 5.12): %w", path, err)
	}
	return nil
}

// mounts mounts what the sandbox is given.
func (c Config) mounts() error {
	for _, m := range c.Mounts {
		if m.Source == "" {
			if err := c.memory(m.Target, m.Bytes, 0o1777); err != nil {
				return err
			}
			continue
		}
		info, err := os.Stat(m.Source)
		if err != nil {
			return err
		}
		if err := c.bind(m, info.IsDir()); err != nil {
			return err
		}
	}
	return nil
}

// devices makes /dev.
func (c Config) devices() error {
	if err := c.memory("/dev", rootBytes, 0o755); err != nil {
		return err
	}
	for _, name := range devices {
		path := "/dev/" + name
		if err := os.WriteFile(c.at(path), nil, 0o666); err != nil {
			return err
		}
		if err := unix.Mount(path, c.at(path), "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mount %s: %w", path, err)
		}
	}
	for name, to := range map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx"} {
		if err := os.Symlink(to, c.at("/dev/"+name)); err != nil {
			return err
		}
	}
	if err := c.folder("/dev/pts"); err != nil {
		return err
	}
	if err := unix.Mount("devpts", c.at("/dev/pts"), "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620"); err != nil {
		return fmt.Errorf("mount terminals: %w", err)
	}
	return c.memory("/dev/shm", sharedBytes, 0o1777)
}

// processes makes /proc, which shows the sandbox's processes.
func (c Config) processes() error {
	if err := unix.Mount("proc", c.at("/proc"), "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc (a container that hides parts of its own does not allow it): %w", err)
	}
	// System V memory that a command leaves would count towards all later ones; see package docker. Not every kernel lets a sandbox set it.
	for name, value := range map[string]string{"shm_rmid_forced": "1", "msgmni": "32", "sem": "250 32000 32 128"} {
		_ = os.WriteFile(c.at("/proc/sys/kernel/"+name), []byte(value), 0o644)
	}
	for _, path := range hiddenFiles {
		if err := unix.Mount(c.at("/dev/null"), c.at(path), "", unix.MS_BIND, ""); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("hide %s: %w", path, err)
		}
	}
	for _, path := range hiddenFolders {
		err := unix.Mount("flynn", c.at(path), "tmpfs", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, "size=0,mode=555")
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("hide %s: %w", path, err)
		}
	}
	for _, path := range protectedInProc {
		err := unix.Mount(c.at(path), c.at(path), "", unix.MS_BIND|unix.MS_REC, "")
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("protect %s: %w", path, err)
		}
		if err := c.attributes(path, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC); err != nil {
			return err
		}
	}
	return nil
}

// counters shows the sandbox's control groups, where the supervisor reads what was killed.
func (c Config) counters() error {
	if len(c.Counters) > 0 {
		if err := c.folder("/sys/fs/cgroup"); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Counters)) {
		m := Mount{Source: c.Counters[name], Target: filepath.Join("/sys/fs/cgroup", name), ReadOnly: true}
		if err := c.bind(m, true); err != nil {
			return err
		}
	}
	return nil
}

// pivot makes the view the root, with the host's files gone and its own root read-only.
func (c Config) pivot() error {
	if err := os.Chdir(c.Root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("make the view the root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil { // the old root, which is on top of the new one
		return fmt.Errorf("leave the old root: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	return unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, "")
}
