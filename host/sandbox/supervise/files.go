//go:build linux

package supervise

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// maxEntries bounds the listing of one folder.
const maxEntries = 20000

// files serves file requests. Every system call that checks an identity runs on one locked thread whose file-system user, group and
// supplementary groups are the workload's (setfsuid(2)). That thread keeps root's process identity, so the workload cannot signal it.
// Reading and writing an open file checks no identity and happens on other threads.
type files struct {
	jobs chan func()
	root int // the workspace, O_PATH
	// open is openBeneath.
	open func(root int, name string, flags, resolve uint64) (int, error)
}

func openFiles(h frame.HelloBody, w wall) (*files, error) {
	f := &files{jobs: make(chan func()), open: openBeneath}
	ready := make(chan error)
	go f.serve(h, w, ready)
	return f, <-ready
}

// serve runs as long as the supervisor; the thread is never returned to other goroutines.
func (f *files) serve(h frame.HelloBody, w wall, ready chan<- error) {
	runtime.LockOSThread()
	err := becomeFileUser(h.UID, h.GID)
	if err == nil {
		err = w.enclose()
	}
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

// becomeFileUser changes this thread only; wrappers like those of libc would change all threads.
func becomeFileUser(uid, gid int) error {
	if single() {
		return nil // it is the supervisor's
	}
	groups := [1]uint32{uint32(gid)}
	if err := rawSetgroups(&groups); err != nil {
		return fmt.Errorf("take the workload's groups: %w", err)
	}
	unix.RawSyscall(unix.SYS_SETFSGID, uintptr(gid), 0, 0)
	unix.RawSyscall(unix.SYS_SETFSUID, uintptr(uid), 0, 0)
	// The calls report no error; a call with an invalid id returns the current one.
	u, _, _ := unix.RawSyscall(unix.SYS_SETFSUID, ^uintptr(0), 0, 0)
	g, _, _ := unix.RawSyscall(unix.SYS_SETFSGID, ^uintptr(0), 0, 0)
	if int(u) == uid && int(g) == gid {
		return nil
	}
	return becomeEffectiveUser(uid, gid)
}

// becomeEffectiveUser is for runtimes without setfsuid (gVisor): it sets only this thread's effective ids to the workload's. The real and
// saved ids stay root's, and the kernel uses those to decide who may signal and trace it.
func becomeEffectiveUser(uid, gid int) error {
	const keep = ^uintptr(0)
	if _, _, e := unix.RawSyscall(unix.SYS_SETRESGID, keep, uintptr(gid), keep); e != 0 {
		return fmt.Errorf("take the workload's file group: %w", e)
	}
	if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, keep, uintptr(uid), keep); e != 0 {
		return fmt.Errorf("take the workload's file identity: %w", e)
	}
	r, e, s := unix.Getresuid()
	rg, eg, sg := unix.Getresgid()
	if r != 0 || e != uid || s != 0 || rg != 0 || eg != gid || sg != 0 {
		return fmt.Errorf("take the workload's file identity: ids are %d, %d, %d and %d, %d, %d", r, e, s, rg, eg, sg)
	}
	return nil
}

// as runs job with the workload's identity.
func (f *files) as(job func() error) error {
	done := make(chan error, 1)
	f.jobs <- func() { done <- job() }
	return <-done
}

// openRegular opens a regular file of the workspace for reading.
func (f *files) openRegular(name string) (file *os.File, st unix.Stat_t, err error) {
	err = f.as(func() error {
		handle, err := f.beneath(name, unix.O_PATH)
		if err != nil {
			return err
		}
		defer unix.Close(handle)
		file, st, err = reopenRegular(handle)
		return err
	})
	return file, st, err
}

// reopenRegular opens the file of an O_PATH descriptor for reading. It checks the type first: merely opening a FIFO or a device could block
// or have side effects.
func reopenRegular(handle int) (*os.File, unix.Stat_t, error) {
	var st unix.Stat_t
	if err := unix.Fstat(handle, &st); err != nil {
		return nil, st, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, st, fail(frame.NotRegular, "not a regular file")
	}
	fd, err := unix.Open(descriptor(handle), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, st, err
	}
	return os.NewFile(uintptr(fd), "file"), st, nil
}

// descriptor returns the path of an open file; see proc_pid_fd(5).
func descriptor(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

func (f *files) read(t *transfer, b frame.ReadBody) (any, error) {
	file, st, err := f.openRegular(string(b.Path))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if b.Head {
		b.Max = min(b.Max, max(st.Size-b.Offset, 0))
		t.head(frame.Entry{Name: []byte(path.Base(string(b.Path))), Size: st.Size, Mode: st.Mode, Mtime: st.Mtim.Nano()})
	}
	if _, err := io.CopyBuffer(onlyWriter{t}, io.NewSectionReader(file, b.Offset, b.Max), make([]byte, frame.MaxData)); err != nil {
		return nil, err
	}
	return frame.ReadReply{Size: st.Size}, nil
}

// head announces the file to the host. It is far smaller than the stream's initial credit.
func (t *transfer) head(e frame.Entry) {
	t.s.send(frame.Frame{Type: frame.Data, Stream: frame.Err, ID: t.id, Payload: frame.Encode(e)})
}

// stat describes a path, and its target if it is a link.
func (f *files) stat(_ *transfer, b frame.StatBody) (any, error) {
	var st unix.Stat_t
	err := f.as(func() error {
		handle, err := f.beneath(string(b.Path), unix.O_PATH)
		if err != nil {
			return err
		}
		defer unix.Close(handle)
		return unix.Fstat(handle, &st)
	})
	return frame.Entry{Name: []byte(path.Base(string(b.Path))), Size: st.Size, Mode: st.Mode, Mtime: st.Mtim.Nano()}, err
}

// onlyWriter hides ReadFrom, so that io.CopyBuffer uses its buffer.
type onlyWriter struct{ io.Writer }

// list sends the entries of a folder, one JSON object per line.
func (f *files) list(t *transfer, b frame.ListBody) (any, error) {
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
			continue // removed meanwhile
		}
		e := frame.Entry{Name: []byte(name), Size: st.Size, Mode: st.Mode, Mtime: st.Mtim.Nano()}
		if err := out.Encode(e); err != nil {
			return err
		}
	}
	return nil
}

// rawSetgroups sets the supplementary groups of this thread only; the wrapper in package syscall sets those of every thread.
func rawSetgroups(groups *[1]uint32) error {
	_, _, e := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(unsafe.Pointer(groups)), 0)
	if e != 0 {
		return e
	}
	return nil
}
