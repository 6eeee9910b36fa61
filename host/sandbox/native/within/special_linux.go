package within

import (
	"errors"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"
)

// devices are those that every program may use.
var devices = []string{"null", "zero", "full", "random", "urandom", "tty"}

// hiddenFiles and hiddenFolders of /proc say much about the host, or change it; protected ones can be read. They are those that engines hide.
var (
	hiddenFiles     = []string{"/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/proc/interrupts"}
	hiddenFolders   = []string{"/proc/acpi", "/proc/asound", "/proc/scsi"}
	protectedInProc = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
)

// devices makes /dev.
func (c Config) devices(p *plan) error {
	if err := p.memory("/dev", rootBytes, 0o755); err != nil {
		return err
	}
	for _, name := range devices {
		path := "/dev/" + name
		if err := p.make(path, file); err != nil {
			return err
		}
		p.attach(p.tree(path, false), path)
	}
	for name, to := range map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx"} {
		if err := p.link(to, "/dev/"+name); err != nil {
			return err
		}
	}
	return errors.Join(p.make("/dev/pts", directory), p.make("/dev/shm", directory))
}

// emptyProc mounts a /proc of no processes: the kernel lets a sandbox mount its own only where one is visible as a whole. The process that mounts
// it is the only one of its namespace, and ends.
func (p *plan) emptyProc() error {
	if err := p.make("/proc", directory); err != nil {
		return err
	}
	p.mountProc()
	return nil
}

func (p *plan) mountProc() {
	p.step("mount /proc (a container that hides parts of its own does not allow it)")
	p.do(unix.SYS_MOUNT, p.text("proc"), p.text(p.at("/proc")), p.text("proc"), unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, 0)
}

// processes mounts the /proc of the sandbox's processes over the empty one.
func (p *plan) processes() {
	p.mountProc()
	// System V memory that a command leaves would count towards all later ones; see package docker. Not every kernel lets a sandbox set it.
	for name, value := range map[string]string{"shm_rmid_forced": "1", "msgmni": "32", "sem": "250 32000 32 128"} {
		open, fd := p.descriptor(unix.SYS_OPENAT, uintptr(cwd), p.text(p.at("/proc/sys/kernel/"+name)), unix.O_WRONLY|unix.O_CLOEXEC)
		open.forgive = forgiveAll
		p.do(unix.SYS_WRITE, 0, p.text(value), uintptr(len(value))).with(0, fd).forgive = forgiveAll
		p.close(fd)
	}
	p.step("hide parts of /proc")
	null := p.text(p.at("/dev/null"))
	for _, path := range hiddenFiles {
		p.do(unix.SYS_MOUNT, null, p.text(p.at(path)), 0, unix.MS_BIND, 0).forgive = forgiveMissing
	}
	for _, path := range hiddenFolders {
		p.do(unix.SYS_MOUNT, p.text("flynn"), p.text(p.at(path)), p.text("tmpfs"), unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, p.text("size=0,mode=555")).forgive = forgiveMissing
	}
	const set = unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC
	for _, path := range protectedInProc {
		p.step("protect " + path)
		at := p.text(p.at(path))
		p.do(unix.SYS_MOUNT, at, at, 0, unix.MS_BIND|unix.MS_REC, 0).forgive = forgiveMissing
		attr := &unix.MountAttr{Attr_set: set}
		p.do(unix.SYS_MOUNT_SETATTR, uintptr(cwd), at, unix.AT_RECURSIVE, hold(p, attr), unsafe.Sizeof(*attr)).forgive = forgiveMissing
	}
}

// counterAt is where a sandbox sees a control group of its own, in which the supervisor reads what was killed.
func counterAt(name string) string { return filepath.Join("/sys/fs/cgroup", name) }
