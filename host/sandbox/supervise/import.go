//go:build linux

package supervise

import (
	"errors"
	"io"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/sandbox/frame"
	"github.com/flynnhost/flynn/host/sandbox/removeall"
)

// importTree unpacks the host's records into a new folder next to their destination, and moves them there when all have arrived.
func (f *files) importTree(t *transfer, b frame.ImportBody) (any, error) {
	var im *importer
	err := f.as(func() (err error) {
		im, err = f.newImporter(path.Clean("./" + string(b.Path)))
		return err
	})
	if err != nil {
		return nil, err
	}
	defer f.as(im.close)
	defer t.s.disk.touch()
	if err := im.unpack(frame.NewRecordReader(t), t.s.disk); err != nil {
		return nil, err
	}
	return struct{}{}, f.as(im.settle)
}

// importer unpacks into a new folder below anchor.
type importer struct {
	f      *files
	anchor int    // the deepest existing folder on the way to the destination
	name   string // of the folder to unpack in, in anchor
	top    int    // that folder
	rest   string // the missing part of the destination's path, or "."
}

// newImporter finds the anchor of a destination. Its methods run with the workload's identity, except unpack.
func (f *files) newImporter(place string) (*importer, error) {
	im := &importer{f: f, rest: ".", top: -1}
	for {
		fd, err := f.openFolder(place)
		if err == nil {
			im.anchor = fd
			break
		}
		if err != unix.ENOENT || place == "." {
			return nil, err
		}
		im.rest = path.Join(path.Base(place), im.rest)
		place = path.Dir(place)
	}
	im.name = draftName()
	err := unix.Mkdirat(im.anchor, im.name, 0o700)
	if err == nil {
		im.top, err = unix.Openat(im.anchor, im.name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	}
	if err == nil && im.rest != "." {
		var fd int
		if fd, err = im.folder(im.rest); err == nil {
			unix.Close(fd)
		}
	}
	if err != nil {
		im.close()
		return nil, err
	}
	return im, nil
}

func (im *importer) close() error {
	if im.top >= 0 {
		unix.Close(im.top)
	}
	err := removeall.Tree(im.anchor, im.name, nil)
	return errors.Join(err, unix.Close(im.anchor))
}

// unpack creates what the records describe, as long as the workspace has room.
func (im *importer) unpack(in *frame.RecordReader, d *disk) error {
	buf := make([]byte, frame.MaxData)
	for {
		r, err := in.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := d.admit(false); err != nil {
			return err
		}
		d.touch()
		if err := im.entry(r, in, buf); err != nil {
			return &os.PathError{Op: "unpack", Path: string(r.Path), Err: err}
		}
	}
}

func (im *importer) entry(r frame.Record, in *frame.RecordReader, buf []byte) error {
	name := path.Join(im.rest, string(r.Path))
	switch {
	case r.Type() == frame.TypeFolder:
		return im.f.as(func() error { return im.makeFolder(name, r.Mode) })
	case r.Type() == frame.TypeLink:
		return im.f.as(func() error {
			return im.in(name, func(at int, base string) error { return unix.Symlinkat(string(r.Link), at, base) })
		})
	case len(r.Link) > 0:
		return im.f.as(func() error { return im.alias(name, path.Join(im.rest, string(r.Link))) })
	}
	var file *os.File
	err := im.f.as(func() error {
		return im.in(name, func(at int, base string) error {
			fd, err := unix.Openat(at, base, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
			if err == nil {
				file = os.NewFile(uintptr(fd), "file")
			}
			return err
		})
	})
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := io.CopyBuffer(onlyWriter{file}, onlyReader{in}, buf); err != nil {
		return err
	}
	return im.f.as(func() error { return finish(file, r) })
}

// finish sets the mode and time of a complete file.
func finish(file *os.File, r frame.Record) error {
	if err := unix.Fchmod(int(file.Fd()), r.Mode&0o777); err != nil || r.Mtime == 0 {
		return err
	}
	times := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, unix.NsecToTimespec(r.Mtime)}
	return unix.UtimesNanoAt(unix.AT_FDCWD, descriptor(int(file.Fd())), times, 0)
}

// in calls do with the parent folder of name, created if it is missing, and the last component.
func (im *importer) in(name string, do func(at int, base string) error) error {
	at, err := im.folder(path.Dir(name))
	if err != nil {
		return err
	}
	defer unix.Close(at)
	return do(at, path.Base(name))
}

// folder opens a folder below top, creating what is missing. It follows no links, so neither a record nor a command that interferes can
// redirect another record.
func (im *importer) folder(name string) (int, error) {
	return openMaking(name, func(name string) (int, error) {
		return im.f.open(im.top, name, unix.O_PATH|unix.O_DIRECTORY, unix.RESOLVE_NO_SYMLINKS)
	})
}

// makeFolder creates a folder that stays accessible to its owner, because more will be added.
func (im *importer) makeFolder(name string, mode uint32) error {
	fd, err := im.folder(name)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Fchmodat(unix.AT_FDCWD, descriptor(fd), mode&0o777|0o700, 0)
}

// alias creates another name for the file of an earlier record.
func (im *importer) alias(name, old string) error {
	return im.in(old, func(from int, base string) error {
		return im.in(name, func(at int, new string) error { return unix.Linkat(from, base, at, new, 0) })
	})
}

// settle moves everything to its destination, unless something there is in the way.
func (im *importer) settle() error {
	if err := merge(im.top, im.anchor, 0, inTheWay); err != nil {
		return err
	}
	return merge(im.top, im.anchor, 0, move)
}

// merge calls leaf for each entry of from that is missing in to, or that is not a folder in both; it descends into folders that both have.
func merge(from, to, depth int, leaf func(from, to int, name string, is bool, st unix.Stat_t) error) error {
	if depth > maxDepth {
		return fail(frame.TooLarge, "folders are too deep")
	}
	dir, err := openFolder(from, ".")
	if err != nil {
		return err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := mergeOne(int(dir.Fd()), to, name, depth, leaf); err != nil {
			return err
		}
	}
	return nil
}

func mergeOne(from, to int, name string, depth int, leaf func(from, to int, name string, is bool, st unix.Stat_t) error) error {
	var old, st unix.Stat_t
	err := unix.Fstatat(to, name, &old, unix.AT_SYMLINK_NOFOLLOW)
	if err != nil && err != unix.ENOENT {
		return err
	}
	is := err == nil
	if err := unix.Fstatat(from, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	if !is || st.Mode&unix.S_IFMT != unix.S_IFDIR || old.Mode&unix.S_IFMT != unix.S_IFDIR {
		return leaf(from, to, name, is, old)
	}
	a, err := openFolder(from, name)
	if err != nil {
		return err
	}
	defer a.Close()
	b, err := openFolder(to, name)
	if err != nil {
		return err
	}
	defer b.Close()
	return merge(int(a.Fd()), int(b.Fd()), depth+1, leaf)
}

// inTheWay refuses to replace anything but a file or link, and by anything but a file or link.
func inTheWay(from, to int, name string, is bool, old unix.Stat_t) error {
	if !is {
		return nil
	}
	var st unix.Stat_t
	if err := unix.Fstatat(from, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	kind := old.Mode & unix.S_IFMT
	if st.Mode&unix.S_IFMT == unix.S_IFDIR || kind != unix.S_IFREG && kind != unix.S_IFLNK {
		return fail(frame.NotRegular, name+" is in the way")
	}
	return nil
}

func move(from, to int, name string, _ bool, _ unix.Stat_t) error {
	return unix.Renameat(from, name, to, name)
}
