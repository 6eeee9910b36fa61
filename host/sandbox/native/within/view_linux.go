package within

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Sizes in memory, in bytes.
const (
	rootBytes   = 1 << 20 // folders, links and small files of the view
	tmpBytes    = 64 << 20
	sharedBytes = 64 << 20 // of /dev/shm
)

// clean returns a path without slashes at its ends, as plan.paths has it.
func clean(path string) string { return strings.Trim(filepath.Clean("/"+path), "/") }

// base makes what all sandboxes with the same view share. It becomes the root of a process that only holds it; see views.
func (c Config) base(p *plan) error {
	p.step("keep mounts to the process")
	p.do(unix.SYS_MOUNT, p.text(""), p.text("/"), 0, unix.MS_REC|unix.MS_PRIVATE, 0)
	p.step("mount memory for the view of files")
	p.do(unix.SYS_MOUNT, p.text("flynn"), p.text(p.base), p.text("tmpfs"), unix.MS_NOSUID|unix.MS_NODEV, p.text(fmt.Sprintf("mode=755,size=%d", rootBytes)))
	p.openPath(p.base, &p.root)
	for _, name := range c.Host {
		if err := p.show(name); err != nil {
			return err
		}
	}
	for _, name := range []string{"/etc", "/run", "/var", "/root", "/home", "/sys", "/tmp", "/dev", "/proc"} {
		if err := p.make(name, directory); err != nil {
			return err
		}
	}
	for _, f := range c.Files {
		if err := p.write(f); err != nil {
			return err
		}
	}
	if err := c.targets(p); err != nil {
		return err
	}
	if c.Image != "" {
		c.image(p)
	}
	if err := errors.Join(c.devices(p), p.emptyProc()); err != nil {
		return err
	}
	p.pivot()
	return nil
}

// targets makes what the sandbox's own mounts are mounted on. One below another is made when that is there.
func (c Config) targets(p *plan) error {
	for _, m := range c.all {
		if err := p.make(m.Target, m.what); err != nil {
			return err
		}
		p.paths[clean(m.Target)] = given
	}
	return nil
}

// fill mounts what a sandbox has for itself. Its view is the root already.
func (c Config) fill(p *plan) error {
	p.step("open the root")
	p.openPath("/", &p.root)
	p.step("mount terminals")
	p.do(unix.SYS_MOUNT, p.text("devpts"), p.text("/dev/pts"), p.text("devpts"), unix.MS_NOSUID|unix.MS_NOEXEC, p.text("newinstance,ptmxmode=0666,mode=620"))
	p.processes()
	for _, memory := range []Mount{{Target: "/dev/shm", Bytes: sharedBytes}, {Target: "/tmp", Bytes: tmpBytes}} {
		if err := p.memory(memory.Target, memory.Bytes, 0o1777); err != nil {
			return err
		}
	}
	return c.mounts(p)
}

// at returns where a path of the view is. It is for paths that are the view's own.
func (p *plan) at(path string) string { return filepath.Join(p.base, path) }

// open opens a path of the view. A link on the way could lead out of the view, so none is followed: what is below one, or mounted on one that
// should be a folder, is an error. Each part is opened by itself, because the unit of a service refuses openat2.
func (p *plan) open(path string, fd *int32) *int32 {
	at, parts := &p.root, strings.Split(clean(path), "/")
	for i, part := range parts {
		next := fd
		if i < len(parts)-1 {
			next = new(int32)
		}
		p.do(unix.SYS_OPENAT, 0, p.text(cmp.Or(part, ".")), unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC).with(0, at).out = next
		if at != &p.root {
			p.close(at)
		}
		at = next
	}
	return fd
}

// make makes a folder or an empty file of the view, and the folders above, if they are missing.
func (p *plan) make(path string, what kind) error {
	here, parent := "", ""
	parts := strings.Split(clean(path), "/")
	for i, part := range parts {
		parent, here = here, strings.TrimPrefix(here+"/"+part, "/")
		wanted := directory
		if i == len(parts)-1 {
			wanted = what
		}
		switch known := p.paths[here]; {
		case known == link:
			return fmt.Errorf("%s passes through a link at /%s", path, here)
		case known == given:
			return nil
		case known != unknown:
			continue
		}
		p.step("make /" + here)
		at, name := &p.root, here
		if p.paths[parent] == foreign { // the sandbox may change it meanwhile
			at, name = p.open(parent, new(int32)), part
		}
		if wanted == directory {
			p.do(unix.SYS_MKDIRAT, 0, p.text(name), 0o755).with(0, at).forgive = forgiveExisting
		} else {
			p.do(unix.SYS_MKNODAT, 0, p.text(name), unix.S_IFREG|0o644, 0).with(0, at).forgive = forgiveExisting
		}
		p.paths[here] = wanted
		if at != &p.root {
			p.close(at)
			p.paths[here] = foreign
		}
	}
	return nil
}

// write makes a small file.
func (p *plan) write(f File) error {
	if err := p.make(filepath.Dir(f.Path), directory); err != nil {
		return err
	}
	p.step("write " + f.Path)
	c, fd := p.descriptor(unix.SYS_OPENAT, 0, p.text(clean(f.Path)), unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
	c.with(0, &p.root)
	p.do(unix.SYS_WRITE, 0, p.text(f.Text), uintptr(len(f.Text))).with(0, fd).want = uintptr(len(f.Text))
	p.close(fd)
	p.paths[clean(f.Path)] = file
	return nil
}

// link makes a link.
func (p *plan) link(to, path string) error {
	if err := p.make(filepath.Dir(path), directory); err != nil {
		return err
	}
	p.step("make the link " + path)
	p.do(unix.SYS_SYMLINKAT, p.text(to), 0, p.text(clean(path))).with(1, &p.root)
	p.paths[clean(path)] = link
	return nil
}

// memory mounts a folder in memory.
func (p *plan) memory(path string, bytes int64, mode uint32) error {
	if err := p.make(path, directory); err != nil {
		return err
	}
	p.step("mount memory at " + path)
	fd := p.open(path, new(int32))
	p.do(unix.SYS_FCHDIR).with(0, fd)
	p.do(unix.SYS_MOUNT, p.text("flynn"), p.text("."), p.text("tmpfs"), unix.MS_NOSUID|unix.MS_NODEV, p.text(fmt.Sprintf("mode=%o,size=%d", mode, bytes)))
	p.close(fd)
	return nil
}

// show mounts a file or folder of the host at the same path, for reading.
func (p *plan) show(name string) error {
	info, err := os.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode()&fs.ModeSymlink != 0:
		to, err := os.Readlink(name)
		if err != nil {
			return err
		}
		return p.link(to, name)
	}
	return p.bind(Mount{Source: name, Target: name, ReadOnly: true}, info.IsDir())
}

// bind mounts a file or folder of the host. It has its attributes before anybody can see it.
func (p *plan) bind(m Mount, isFolder bool) error {
	what := file
	if isFolder {
		what = directory
	}
	if err := p.make(m.Target, what); err != nil {
		return err
	}
	tree := p.tree(m.Source, !m.Alone)
	p.step("restrict the mount at " + m.Target + " (this needs Linux 5.12)")
	p.do(unix.SYS_MOUNT_SETATTR, 0, p.text(""), unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, hold(p, m.attributes()), unsafe.Sizeof(unix.MountAttr{})).with(0, tree)
	p.attach(tree, m.Target)
	p.mounted(m.Target, what)
	return nil
}

// mounted records that a file or folder of the host is mounted.
func (p *plan) mounted(target string, what kind) {
	if what == directory {
		what = foreign
	}
	p.paths[clean(target)] = what
}

// tree makes a mount of a file or folder of the host, and of what is mounted below, that is not attached anywhere.
func (p *plan) tree(source string, deep bool) *int32 {
	p.step("mount " + source)
	flags := uintptr(unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC)
	if deep {
		flags |= unix.AT_RECURSIVE
	}
	_, tree := p.descriptor(unix.SYS_OPEN_TREE, uintptr(cwd), p.text(source), flags)
	return tree
}

// attach puts a mount in its place.
func (p *plan) attach(tree *int32, target string) {
	p.step("mount " + target)
	at := p.open(target, new(int32))
	p.do(unix.SYS_MOVE_MOUNT, 0, p.text(""), 0, p.text(""), unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH).with(0, tree).with(2, at)
	p.close(at)
	p.close(tree)
}

// mounts mounts what the sandbox is given. The mounts of its sources have come with the word that its ids are mapped.
func (c Config) mounts(p *plan) error {
	next := int32(firstFree)
	for _, m := range c.all {
		if m.Later {
			continue
		}
		if m.Source == "" {
			if err := p.memory(m.Target, m.Bytes, 0o1777); err != nil {
				return err
			}
			continue
		}
		if err := p.make(m.Target, m.what); err != nil {
			return err
		}
		tree := next
		next++
		p.attach(&tree, m.Target)
		p.mounted(m.Target, m.what)
	}
	return nil
}

// pivot makes the view the root, with the host's files gone and its own root read-only.
func (p *plan) pivot() {
	p.step("make the view the root")
	p.do(unix.SYS_FCHDIR).with(0, &p.root)
	here := p.text(".")
	p.do(unix.SYS_PIVOT_ROOT, here, here)
	p.step("leave the old root")
	p.do(unix.SYS_UMOUNT2, here, unix.MNT_DETACH) // it is on top of the new one
	p.do(unix.SYS_CHDIR, p.text("/"))
	p.step("make the root read-only")
	for _, path := range []string{"/", "/dev"} {
		p.do(unix.SYS_MOUNT, p.text(""), p.text(path), 0, unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, 0)
	}
}
