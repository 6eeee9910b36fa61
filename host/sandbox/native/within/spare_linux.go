package within

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// spare is the first process of a sandbox whose supervisor awaits its settings.
type spare struct {
	pid     int
	config  Config
	view    string // what its view shows
	control int    // the other end of its control socket, with which it ends
	mounts  int    // its mount namespace
}

func (h *spare) close() {
	if h == nil {
		return
	}
	unix.Close(h.control)
	if h.mounts >= 0 {
		unix.Close(h.mounts)
	}
}

// complete gives the supervisor its settings, with which it begins to serve.
func (h *spare) complete(nonce string) error {
	text, err := json.Marshal(frame.Settings{Nonce: nonce, Writable: h.config.writable()})
	if err != nil {
		return err
	}
	if len(text) > frame.MaxSettings {
		return errors.New("the paths of the sandbox's mounts are too long: remove mounts")
	}
	if err := unix.Sendmsg(h.control, text, nil, nil, 0); err != nil && err != unix.EPIPE { // it reports by itself why it has ended
		return fmt.Errorf("complete a sandbox: %w", err)
	}
	return nil
}

// swap keeps a process, or none, in place of another, which it returns.
func (s *server) swap(h *spare) *spare {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.spare
	s.spare = h
	return before
}

// take completes the process that was kept and answers the request. A process that cannot be completed ends. It has to run on a thread that ends
// afterwards, and returns the descriptors to close then.
func (s *server) take(r *request) (left []int) {
	h := s.swap(nil)
	if h == nil || h.pid != r.Take {
		h.close()
		r.answer(0, errors.New("this process was not kept"))
		return nil
	}
	defer h.close()
	err := h.fit(&r.Config)
	if err == nil {
		left, err = h.mount(r.Config.Mounts)
	}
	if err == nil {
		err = h.complete(r.Nonce)
	}
	r.answer(h.pid, err)
	return left
}

// fit checks that what the process was made from is the same as before, and that mounts are what it expects.
func (h *spare) fit(c *Config) error {
	shows, err := h.config.shows()
	if err != nil {
		return err
	}
	if shows != h.view {
		return errors.New("files of the host were replaced since the process was made")
	}
	if err := c.resolve(); err != nil {
		return err
	}
	next := 0
	for _, m := range h.config.all {
		if !m.Later {
			continue
		}
		if next == len(c.all) || !m.takes(c.all[next]) {
			return fmt.Errorf("the process was made for other mounts than that at %s", m.Target)
		}
		next++
	}
	if next != len(c.all) {
		return errors.New("the process was made for fewer mounts")
	}
	return nil
}

// takes reports whether a mount is what one that is Later stands for.
func (m Mount) takes(other Mount) bool {
	other.Source, other.Later, other.File = "", m.Later, m.File
	return m == other
}

// mount gives the sandbox its mounts, and this thread the sandbox's.
func (h *spare) mount(mounts []Mount) (left []int, err error) {
	d := new(detached)
	d.clone(mounts)
	left = d.fds
	if d.err != nil {
		return left, d.err
	}
	// The kernel waits for all processors when it drops this copy of the host's mounts, so somebody else does that.
	host, err := unix.Open("/proc/thread-self/ns/mnt", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return left, fmt.Errorf("keep the host's mounts: %w", err)
	}
	left = append(left, host)
	if err := unix.Setns(h.mounts, unix.CLONE_NEWNS); err != nil {
		return left, fmt.Errorf("enter the sandbox's mounts: %w", err)
	}
	for i, m := range mounts {
		if err := attach(d.fds[i], m.Target); err != nil {
			return left, fmt.Errorf("mount %s: %w", m.Target, err)
		}
	}
	return left, nil
}

// attach puts a mount in its place. See plan.open for how that is opened.
func attach(tree int, target string) error {
	at, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	for _, part := range strings.Split(clean(target), "/") {
		if err != nil {
			return err
		}
		above := at
		at, err = unix.Openat(above, cmp.Or(part, "."), unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		unix.Close(above)
	}
	if err != nil {
		return err
	}
	defer unix.Close(at)
	return unix.MoveMount(tree, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}
