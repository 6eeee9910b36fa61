//go:build linux

package supervise

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// maxEntries bounds the listing of one folder.
const maxEntries = 20000

// files serves file requests. Everything that the kernel checks against an identity happens on
// one locked thread whose file-system user, group and supplementary groups are the workload's
// (setfsuid(2)); that thread keeps root's process identity, so the workload cannot signal
// it. Reading and writing an open file needs no identity and happens elsewhere.
type files struct {
	jobs chan func()
	root int // the workspace, O_PATH
	temp atomic.Uint64
}

func openFiles(h frame.HelloBody) (*files, error) {
	f := &files{jobs: make(chan func())}
	ready := make(chan error)
	go f.serve(h, ready)
	return f, <-ready
}

// serve lives as long as the supervisor; the thread is never given back to other goroutines.
func (f *files) serve(h frame.HelloBody, ready chan<- error) {
	runtime.LockOSThread()
	err := becomeFileUser(h.UID, h.GID)
	if err == nil {
		f.root, err = unix.Open(h.Workspace, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	}
	ready <- err
	if err != nil {
		return
	}
	for job := range f.jobs {
		job()
	}
}

// becomeFileUser switches this thread only; libc-style wrappers would switch them all.
func becomeFileUser(uid, gid int) error {
	groups := [1]uint32{uint32(gid)}
	if err := rawSetgroups(&groups); err != nil {
		return fmt.Errorf("take the workload's groups: %w", err)
	}
	unix.RawSyscall(unix.SYS_SETFSGID, uintptr(gid), 0, 0)
	unix.RawSyscall(unix.SYS_SETFSUID, uintptr(uid), 0, 0)
	// The calls report no error; asking with an invalid id returns the one in force.
	u, _, _ := unix.RawSyscall(unix.SYS_SETFSUID, ^uintptr(0), 0, 0)
	g, _, _ := unix.RawSyscall(unix.SYS_SETFSGID, ^uintptr(0), 0, 0)
	if int(u) != uid || int(g) != gid {
		return errors.New("take the workload's file identity: the kernel or runtime has no setfsuid")
	}
	return nil
}

// as runs job with the workload's identity.
func (f *files) as(job func() error) error {
	done := make(chan error, 1)
	f.jobs <- func() { done <- job() }
	return <-done
}

// beneath opens a path below the workspace; no link, not even a magic one, can lead out of it.
// It follows links within. Kernels before 5.6 have no openat2: there a path with any link is refused.
func (f *files) beneath(name string, flags uint64) (int, error) {
	if strings.ContainsRune(name, 0) || len(name) > frame.MaxPath {
		return -1, fail(frame.NotFound, "path is malformed")
	}
	how := unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS}
	for range 32 {
		fd, err := unix.Openat2(f.root, name, &how)
		switch err {
		case unix.EAGAIN: // a rename raced with ".."
			continue
		case unix.ENOSYS, unix.EPERM:
			return f.walk(name, flags)
		}
		return fd, err
	}
	return -1, unix.EAGAIN
}

// walk is beneath without openat2, one component at a time.
func (f *files) walk(name string, flags uint64) (int, error) {
	at := f.root
	parts := strings.Split(path.Clean(name), "/")
	for i, part := range parts {
		if part == ".." || path.IsAbs(name) {
			return -1, unix.EXDEV
		}
		use := unix.O_PATH | unix.O_DIRECTORY
		if i == len(parts)-1 {
			use = int(flags)
		}
		next, err := unix.Openat(at, part, use|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if at != f.root {
			unix.Close(at)
		}
		if err != nil {
			return -1, err
		}
		at = next
	}
	return at, nil
}

// openRegular opens a regular file for reading. It looks before it opens: merely opening a FIFO or a
// device could block or have effects.
func (f *files) openRegular(name string) (*os.File, int64, error) {
	var file *os.File
	var st unix.Stat_t
	err := f.as(func() error {
		handle, err := f.beneath(name, unix.O_PATH)
		if err != nil {
			return err
		}
		defer unix.Close(handle)
		if err := unix.Fstat(handle, &st); err != nil {
			return err
		}
		if st.Mode&unix.S_IFMT != unix.S_IFREG {
			return fail(frame.NotRegular, "not a regular file")
		}
		fd, err := unix.Open("/proc/self/fd/"+strconv.Itoa(handle), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		file = os.NewFile(uintptr(fd), "file")
		return nil
	})
	return file, st.Size, err
}

func (f *files) read(t *transfer, body []byte) (any, error) {
	var b frame.ReadBody
	if err := frame.Decode(body, &b); err != nil {
		return nil, err
	}
	file, size, err := f.openRegular(string(b.Path))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if _, err := io.CopyBuffer(onlyWriter{t}, io.NewSectionReader(file, b.Offset, b.Max), make([]byte, frame.MaxData)); err != nil {
		return nil, err
	}
	return frame.ReadReply{Size: size}, nil
}

// onlyWriter hides ReadFrom and the like, so that io.CopyBuffer uses its buffer.
type onlyWriter struct{ io.Writer }

// list sends the entries of a folder, one JSON object a line.
func (f *files) list(t *transfer, body []byte) (any, error) {
	var b frame.ListBody
	if err := frame.Decode(body, &b); err != nil {
		return nil, err
	}
	var lines bytes.Buffer
	err := f.as(func() error {
		fd, err := f.beneath(string(b.Path), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK)
		if err == unix.ENOTDIR {
			return fail(frame.NotRegular, "not a folder")
		}
		if err != nil {
			return err
		}
		dir := os.NewFile(uintptr(fd), "folder")
		defer dir.Close()
		return listInto(json.NewEncoder(&lines), dir)
	})
	if err != nil {
		return nil, err
	}
	_, err = t.Write(lines.Bytes())
	return struct{}{}, err
}

func listInto(out *json.Encoder, dir *os.File) error {
	names, err := dir.Readdirnames(maxEntries + 1)
	if err != nil && err != io.EOF {
		return err
	}
	if len(names) > maxEntries {
		return fail(frame.TooLarge, fmt.Sprintf("folder has more than %d entries", maxEntries))
	}
	for _, name := range names {
		var st unix.Stat_t
		if err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			continue // gone since
		}
		e := frame.Entry{Name: []byte(name), Size: st.Size, Mode: st.Mode, Mtime: st.Mtim.Nano()}
		if err := out.Encode(e); err != nil {
			return err
		}
	}
	return nil
}
