//go:build linux

package supervise

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/sandbox/frame"
	"github.com/flynnhost/flynn/host/sandbox/rawfork"
)

// Tags are supplementary group ids. The range is mapped by a user namespace of 65536 ids, and is above the ids that images use.
const (
	firstTag = 40000
	tagCount = 20000
)

// errNoRoom means that the process limit does not allow another process.
var errNoRoom = fail(frame.NoProcess, "start process: the pids limit leaves no room; end background processes first")

// spawner is the only place that forks, so that the reaper can distinguish children from orphans.
type spawner struct {
	uid, gid int
	env      []string
	null     int // descriptor of /dev/null
	oomScore int // descriptor of our own oom_score_adj, or -1
	reaper   reaper
	scanner  scanner // finds processes that are stuck in a fork
	starts   startWatch
	ownPeak  atomic.Int64 // of our own memory, as last measured
	starter  starter      // of commands

	// mu is held from before a fork until the child is registered in children.
	mu       sync.Mutex
	children map[int]*child
	tags     map[int]bool
	nextTag  int
}

// child is a process that we started and will reap.
type child struct {
	pid, tag int
	handle   int           // a descriptor that becomes readable when it ends, or -1; the goroutine that started it closes it
	exited   chan struct{} // closed once the following fields are set
	status   syscall.WaitStatus
	cpu      time.Duration
	peak     int64 // bytes
	// childless is set if no process was started between its start and its end.
	childless bool
}

// newSpawner returns a spawner that starts no programs before begin.
func newSpawner() (*spawner, error) {
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", os.DevNull, err)
	}
	s := &spawner{
		null:     null,
		oomScore: -1,
		reaper:   newReaper(),
		children: make(map[int]*child),
		tags:     make(map[int]bool),
	}
	// If this fails, commands merely keep our own score.
	if fd, err := unix.Open("/proc/self/oom_score_adj", unix.O_WRONLY|unix.O_CLOEXEC, 0); err == nil {
		s.oomScore = fd
	}
	return s, nil
}

// begin prepares to start programs as the workload, behind a wall.
func (s *spawner) begin(h frame.HelloBody, w wall) {
	s.uid, s.gid, s.env, s.starter = h.UID, h.GID, fixedEnv(h), newStarter(w)
}

// fixedEnv returns the environment of every command, without the variables of a request: what the image sets, which is in our own
// environment, overridden by our own variables.
func fixedEnv(h frame.HelloBody) []string {
	image := imageEnv(os.Environ())
	path := cmp.Or(valueOf(image, "PATH"), "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	if h.Bridge {
		path = bridgeFolder + ":" + path
	}
	env := joinEnv([]string{"LANG=C.UTF-8"}, image)
	env = joinEnv(env, []string{"PATH=" + path, "HOME=" + h.Workspace})
	if h.Proxy {
		env = joinEnv(env, proxyEnv())
	}
	return joinEnv(env, frame.Texts(h.Env))
}

// runtimeEnv are variables that Go's runtime reads before main starts. The engine is asked to set them to nothing, so that no image changes
// how the supervisor works; see package docker.
func runtimeEnv() []string {
	return []string{"GODEBUG", "GOGC", "GOMAXPROCS", "GOMEMLIMIT", "GOTRACEBACK"}
}

// imageEnv returns the image's part of our own environment.
func imageEnv(own []string) []string {
	return slices.DeleteFunc(slices.Clone(own), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return name == "" || slices.Contains(runtimeEnv(), name)
	})
}

// start runs argv as the workload's user in its own session, with a tag.
func (s *spawner) start(argv, env []string, dir string, files [3]int) (*child, error) {
	c, err := s.startProgram(launch{path: argv[0], argv: argv, env: env, dir: dir, files: files})
	if err == nil {
		s.handOver(c)
	}
	return c, err
}

// launch describes the start of a program.
type launch struct {
	path      string // argv may have another name for it
	argv, env []string
	dir       string
	files     [3]int
	terminal  bool // files are all one, which becomes its controlling terminal
	fast      bool // the caller waits for its end, and gets a descriptor for that
}

// startProgram starts a program as the workload's user. Call handOver or collect afterwards.
func (s *spawner) startProgram(l launch) (*child, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	tag, err := s.takeTag()
	if err != nil {
		return nil, err
	}
	s.setOOMScore("500") // so that the kernel kills the workload before us
	defer s.setOOMScore("0")
	handle := -1
	sys := &syscall.SysProcAttr{Setsid: true, Setctty: l.terminal} // descriptor 0
	if !single() {
		sys.Credential = &syscall.Credential{Uid: uint32(s.uid), Gid: uint32(s.gid), Groups: []uint32{uint32(s.gid), uint32(tag)}}
	}
	if l.fast {
		sys.PidFD = &handle
	}
	var c *child
	stopped := s.unstuck(tag, func() {
		s.starter.do(func() {
			c, err = s.fork(l.path, l.argv, &syscall.ProcAttr{
				Dir:   l.dir,
				Env:   joinEnv(s.env, l.env),
				Files: []uintptr{uintptr(l.files[0]), uintptr(l.files[1]), uintptr(l.files[2])},
				Sys:   sys,
			})
		})
	})
	if err != nil {
		delete(s.tags, tag)
		return nil, err
	}
	c.tag, c.handle = tag, handle
	if stopped {
		delete(s.tags, tag)
		s.handOver(c)
		return nil, errStopped
	}
	return c, nil
}

// fork starts a process and registers it in children. s.mu is held.
func (s *spawner) fork(path string, argv []string, attr *syscall.ProcAttr) (*child, error) {
	var pid int
	var err error
	unrelaxed(func() { pid, err = syscall.ForkExec(path, argv, attr) })
	c, err := s.enroll(pid, err)
	if err != nil && err != errNoRoom {
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	return c, err
}

// copyOf starts a copy of a thread of this process, which runs a function; see package rawfork.
func (s *spawner) copyOf(run func(unsafe.Pointer), arg unsafe.Pointer) (*child, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.enroll(rawfork.Start(0, rawfork.Anywhere, run, arg))
}

// enroll registers a process that was started, if it was. s.mu is held.
func (s *spawner) enroll(pid int, err error) (*child, error) {
	if errors.Is(err, unix.EAGAIN) {
		return nil, errNoRoom
	}
	if err != nil {
		return nil, err
	}
	c := &child{pid: pid, handle: -1, exited: make(chan struct{})}
	s.children[pid] = c
	return c, nil
}

func (s *spawner) setOOMScore(v string) {
	if s.oomScore >= 0 {
		_, _ = unix.Pwrite(s.oomScore, []byte(v), 0)
	}
}

// takeTag returns a tag that no command has. s.mu is held.
func (s *spawner) takeTag() (tag int, err error) {
	if single() {
		s.starter.do(func() { tag, err = newNames() })
		if err == nil {
			s.tags[tag] = true
		}
		return tag, err
	}
	for range tagCount {
		tag := firstTag + s.nextTag%tagCount
		s.nextTag++
		if !s.tags[tag] {
			s.tags[tag] = true
			return tag, nil
		}
	}
	return 0, errors.New("no free command tag")
}

// isOrphan reports whether a tag belongs to a command that is over.
func (s *spawner) isOrphan(tag int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return (single() || tag >= firstTag && tag < firstTag+tagCount) && !s.tags[tag]
}

// release frees a tag once its command's record is gone.
func (s *spawner) release(tag int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.tags, tag)
}

// signalGroup signals the process group that c leads or led. No other command can get this group id while c is among children; afterwards
// that is checked.
func (s *spawner) signalGroup(c *child, sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if owner := s.children[c.pid]; owner != nil && owner != c {
		return
	}
	_ = syscall.Kill(-c.pid, sig)
}
