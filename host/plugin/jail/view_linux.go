package jail

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Namespaces are the Linux namespaces in which a process can have a view of files: its own root, with nothing but what it may use. Landlock
// does not restrict unix sockets, such as that of a container engine, but a socket outside the view cannot be found.
type Namespaces struct {
	Why   string // the reason why there are none; empty if there are
	flags uintptr
}

// FindNamespaces tests what the system allows: root may have a mount namespace, other users one within a user namespace, if at all.
func FindNamespaces() Namespaces {
	n := Namespaces{flags: unix.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		n.flags |= unix.CLONE_NEWUSER
	}
	// Starting a program that does not exist fails with ErrNotExist only if the namespaces could be made.
	cmd := &exec.Cmd{Path: "/nonexistent/flynn"}
	n.Apply(cmd)
	if err := cmd.Start(); !errors.Is(err, fs.ErrNotExist) {
		return Namespaces{Why: fmt.Sprintf("this system does not let Flynn's user create a mount namespace: %v", err)}
	}
	return n
}

// Apply makes cmd start in the namespaces, with the same user.
func (n Namespaces) Apply(cmd *exec.Cmd) {
	to := &syscall.SysProcAttr{Cloneflags: n.flags}
	cmd.SysProcAttr = to
	if n.flags&unix.CLONE_NEWUSER != 0 {
		to.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
		to.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
		to.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SETPCAP} // only in these namespaces, until the launcher drops them
	}
}

// shown is one file or folder of a view.
type shown struct {
	name     string
	writable bool
}

// shownFiles are the existing files and folders of the view, each after its parents. All of /proc is included, because a process
// can find itself there in several ways; Landlock restricts what it may read of it.
func (c Config) shownFiles() []shown {
	out := []shown{{"/proc", true}}
	for _, name := range slices.Concat(c.Write, c.Sockets) {
		out = append(out, shown{name, true})
	}
	for _, name := range c.Read {
		out = append(out, shown{name, false})
	}
	slices.SortStableFunc(out, func(a, b shown) int { return cmp.Compare(a.name, b.name) })
	out = slices.CompactFunc(out, func(a, b shown) bool { return a.name == b.name })
	return slices.DeleteFunc(out, func(s shown) bool {
		_, err := os.Stat(s.name)
		if _, linked := c.Links[s.name]; linked {
			return true
		}
		return err != nil || s.name != "/proc" && strings.HasPrefix(s.name, "/proc/")
	})
}

// enterView makes the view of files the root of this process, which must be in its own mount namespace.
func (c Config) enterView() error {
	if c.Root == "" {
		return errors.New(c.NoView)
	}
	if slices.Contains(c.Read, "/") || slices.Contains(c.Write, "/") {
		return errors.New("the plugin may use all files")
	}
	here, err := os.Getwd()
	if err != nil {
		return err
	}
	files := c.shownFiles()
	if err := c.buildView(files); err != nil {
		return err
	}
	if err := os.Chdir(c.Root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("make the view the root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil { // the old root, which is on top of the new one
		return fmt.Errorf("leave the old root: %w", err)
	}
	return errors.Join(os.Chdir("/"), readOnly("/", 0), os.Chdir(here))
}

// buildView mounts the files at Root.
func (c Config) buildView(files []shown) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keep mounts to this process: %w", err)
	}
	if err := unix.Mount("flynn", c.Root, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size=1m,nr_inodes=2k"); err != nil {
		return fmt.Errorf("mount a view of files: %w", err)
	}
	if err := unix.Mount("", c.Root, "", unix.MS_UNBINDABLE, ""); err != nil { // not into itself
		return err
	}
	for _, f := range files {
		if err := f.mount(c.Root); err != nil {
			return fmt.Errorf("show %s: %w", f.name, err)
		}
	}
	for name, target := range c.Links {
		if err := c.link(name, target); err != nil {
			return fmt.Errorf("show %s: %w", name, err)
		}
	}
	return nil
}

// link creates a link in the view, unless the view shows the file's folder: then changes of the file are visible anyway.
func (c Config) link(name, target string) error {
	for _, shown := range slices.Concat(c.Read, c.Write) {
		if shown != name && strings.HasPrefix(name, strings.TrimSuffix(shown, "/")+"/") {
			return nil
		}
	}
	link := filepath.Join(c.Root, name)
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		return err
	}
	return os.Symlink(target, link)
}

func (s shown) mount(root string) error {
	target := filepath.Join(root, s.name)
	info, err := os.Stat(s.name)
	if err != nil {
		return err
	}
	if _, err := os.Stat(target); err != nil {
		if err := makeLike(info, target); err != nil {
			return err
		}
	}
	if err := unix.Mount(s.name, target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	if s.writable {
		return nil
	}
	return readOnly(target, unix.AT_RECURSIVE)
}

// makeLike creates a mount point for a file or a folder.
func makeLike(info fs.FileInfo, target string) error {
	if info.IsDir() {
		return os.MkdirAll(target, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(target, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

// readOnly makes a mount read-only, independently of Landlock.
func readOnly(target string, flags uint) error {
	return unix.MountSetattr(-1, target, flags, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID})
}
