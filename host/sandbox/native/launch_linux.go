package native

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/internal/ps"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/native/imagefiles"
	"github.com/flynnhost/flynn/host/sandbox/native/within"
)

// hostFiles are the files of the host that programs need: programs, libraries, certificates, and how names and times are written. Nothing of
// a user is in them.
var hostFiles = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store",
	"/etc/alternatives", "/etc/ssl", "/etc/pki", "/etc/ca-certificates", "/etc/crypto-policies", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d",
	"/etc/localtime", "/etc/timezone", "/etc/mime.types", "/etc/protocols", "/etc/services", "/etc/profile", "/etc/profile.d", "/etc/bash.bashrc", "/etc/inputrc",
	"/etc/terminfo", "/etc/fonts", "/etc/java", "/etc/perl", "/etc/python3",
}

// within returns the inside of a sandbox. An image has users and names of its own, of which an engine replaces those of hosts alone.
func (d *Driver) within(c driver.Container, image imagefiles.Image) within.Config {
	w := within.Config{
		Root: d.folder, Image: image.Root, Env: image.Env, Loopback: c.Network != "host", CPUs: c.CPUs,
		Files: []within.File{
			{Path: "/etc/hosts", Text: hosts(c.Hosts)},
			{Path: "/etc/resolv.conf", Text: resolver(c.Network)},
			{Path: "/etc/hostname", Text: "sandbox\n"},
		},
	}
	if image.Root == "" {
		w.Host = hostFiles
		w.Files = append(w.Files,
			within.File{Path: "/etc/passwd", Text: "root:x:0:0:root:/root:/usr/sbin/nologin\n" + userLine(c) + "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"},
			within.File{Path: "/etc/group", Text: "root:x:0:\nnogroup:x:65534:\n"},
			within.File{Path: "/etc/nsswitch.conf", Text: "passwd: files\ngroup: files\nhosts: files dns\n"},
		)
	}
	if len(c.Entrypoint) > 0 {
		w.Program = c.Entrypoint[0]
	}
	w.Single, w.IDs = d.ids.single != "", d.ids.IDs
	if c.PidsLimit > 0 {
		w.Processes = uint64(c.PidsLimit + driver.OwnTasks)
	}
	for _, m := range c.Mounts {
		w.Mounts = append(w.Mounts, within.Mount{Source: m.Source, Target: m.Target, ReadOnly: m.ReadOnly, Alone: m.Alone, Bytes: m.Bytes})
	}
	return w
}

// maxResolver bounds the host's file of name servers in bytes.
const maxResolver = 16 << 10

// resolver returns the name servers of a sandbox: with the host's network they are the host's, as far as they can be read.
func resolver(network string) string {
	if network != "host" {
		return ""
	}
	text, err := os.ReadFile("/etc/resolv.conf")
	if err != nil {
		return ""
	}
	return string(text[:min(len(text), maxResolver)])
}

// userLine returns the line of the workload's user, who owns the workspace.
func userLine(c driver.Container) string {
	for _, m := range c.Mounts {
		info, err := os.Stat(m.Source)
		if err != nil || m.ReadOnly || m.Source == "" || !info.IsDir() {
			continue
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid != 0 {
			return fmt.Sprintf("sandbox:x:%d:%d:sandbox:%s:/bin/sh\n", st.Uid, st.Gid, m.Target)
		}
	}
	return ""
}

func hosts(more []string) string {
	text := "127.0.0.1 localhost sandbox\n::1 localhost\n"
	for _, h := range more {
		if name, address, ok := strings.Cut(h, ":"); ok {
			text += address + " " + name + "\n"
		}
	}
	return text
}

// launch starts the first process of a sandbox, or completes a spare one unless that is nil, and returns while it still sets itself up.
func (d *Driver) launch(ctx context.Context, id string, c wish, s *stream, taken *spare) (*life, error) {
	r := within.Request{Config: c.within}
	if len(c.Entrypoint) > 1 {
		r.Nonce = c.Entrypoint[1]
	}
	if taken != nil {
		if d.complete(ctx, taken, r, s) == nil {
			return taken.life, nil
		}
		d.dropSpare(context.WithoutCancel(ctx), taken)
	}
	l, err := d.begin(ctx, id, r, c.Container, s)
	if err == nil {
		s.copyErrors()
	}
	return l, err
}

// begin starts the first process of a sandbox, in control groups of this name.
func (d *Driver) begin(ctx context.Context, name string, r within.Request, c driver.Container, s *stream) (l *life, err error) {
	defer func() {
		if err != nil {
			s.abandon()
			d.groups.remove(name)
		}
	}()
	if err := s.open(); err != nil {
		return nil, err
	}
	group, err := d.groups.add(name, c)
	if err != nil {
		return nil, err
	}
	r.Config.Counters = group.shown()
	members, folder, err := group.open()
	if err != nil {
		return nil, err
	}
	files := append([]*os.File{s.connFar, s.connFar, s.far, s.repFar}, members...)
	if folder != nil {
		files = append(files, folder)
	}
	r.Members, r.Folder = len(members), folder != nil
	pid, process, err := d.server.start(ctx, d.supervisor, r, files...)
	closeFiles(append(members, folder)...)
	if err != nil {
		return nil, explain(err)
	}
	s.started()
	return living(pid, process, name), nil
}

// explain says what an error of the start of a process in namespaces means.
func explain(err error) error {
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return fmt.Errorf("this system does not let Flynn's user create user namespaces (%w): see docs/how-to/sandbox-without-an-engine.md", err)
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EUSERS):
		return fmt.Errorf("this system allows no more user namespaces (%w): raise user.max_user_namespaces with sysctl", err)
	}
	return err
}

// life is the first process of a sandbox.
type life struct {
	pid    int
	began  int64
	groups string        // the name of its control groups
	gone   chan struct{} // closed when it has ended; nil if another process started it
}

// living returns the life of a started process.
func living(pid int, process *os.File, groups string) *life {
	l := &life{pid: pid, groups: groups, gone: make(chan struct{})}
	if p, ok := ps.Find(l.pid); ok {
		l.began = p.Started
	}
	go func() {
		defer close(l.gone)
		within.AwaitEnd(process)
	}()
	return l
}

// regain returns the life that a record names.
func regain(id string, r record) *life {
	return &life{pid: r.PID, began: r.Began, groups: cmp.Or(r.Groups, id)}
}

// ended reports whether a process that this one has started has ended, which gone may say a moment later.
func (l *life) ended() bool {
	select {
	case <-l.gone:
		return true
	default:
	}
	handle, err := unix.PidfdOpen(l.pid, 0)
	if err != nil {
		return true
	}
	defer unix.Close(handle)
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(handle), Events: unix.POLLIN}}, 0)
	return n != 0 || err != nil
}

// lives reports whether the process of a record still runs.
func (r record) lives() bool {
	p, ok := ps.Find(r.PID)
	return ok && r.PID > 1 && p.Started == r.Began
}

// endPoll is how often the end of a process is checked that another one started.
const endPoll = 5 * time.Millisecond

// end kills the process, with which the kernel kills every process of the sandbox, and returns when it is gone.
func (l *life) end(ctx context.Context) error {
	if l.pid <= 1 {
		return nil
	}
	handle, err := unix.PidfdOpen(l.pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(handle)
	if !(record{PID: l.pid, Began: l.began}).lives() {
		return nil // another process has its id, or it is a zombie
	}
	if err := unix.PidfdSendSignal(handle, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	if l.gone != nil {
		select {
		case <-l.gone:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for {
		if n, err := unix.Poll([]unix.PollFd{{Fd: int32(handle), Events: unix.POLLIN}}, int(endPoll.Milliseconds())); n > 0 || err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// probe sets up a sandbox that ends at once.
func (d *Driver) probe(ctx context.Context) error {
	var err error
	if d.supervisor, err = d.find(); err != nil {
		return err
	}
	id := "probe-" + strconv.Itoa(os.Getpid()) // a command may probe beside a running host
	if err := d.write(id, record{Name: id, Created: time.Now()}); err != nil {
		return err
	}
	defer d.erase(id)
	s := &stream{stderr: io.Discard}
	c := driver.Container{Key: id, Network: "none", PidsLimit: 8}
	r := within.Request{Config: d.within(c, imagefiles.Image{})}
	r.Config.Probe = true
	l, err := d.begin(ctx, id, r, c, s)
	if err != nil {
		return err
	}
	s.copyErrors()
	defer d.groups.remove(id)
	defer s.Close()
	select {
	case <-l.gone:
		return s.outcome()
	case <-ctx.Done():
		return errors.Join(ctx.Err(), l.end(context.WithoutCancel(ctx)))
	}
}
