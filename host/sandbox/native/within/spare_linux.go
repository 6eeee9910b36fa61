package within

import (
	"encoding/json"
	"errors"
	"fmt"

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

// take completes the process that was kept and answers the request. A process that cannot be completed ends.
func (s *server) take(r *request) {
	h := s.swap(nil)
	defer h.close()
	if h == nil || h.pid != r.Take {
		r.answer(0, errors.New("this process was not kept"))
		return
	}
	err := h.fit(&r.Config)
	if err == nil {
		done := make(chan struct{})
		apart(func() { err = h.mount(r.Config.Mounts); close(done) })
		<-done
	}
	if err == nil {
		err = h.complete(r.Nonce)
	}
	r.answer(h.pid, err)
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
		if next == len(c.all) || c.all[next].Target != m.Target || c.all[next].what != m.what {
			return fmt.Errorf("the process was made for other mounts than that at %s", m.Target)
		}
		next++
	}
	if next != len(c.all) {
		return errors.New("the process was made for fewer mounts")
	}
	return nil
}

// mount gives the sandbox its mounts. This thread gets descriptors and mounts of its own, and has to end.
func (h *spare) mount(mounts []Mount) error {
	if err := unix.Unshare(unix.CLONE_FILES); err != nil {
		return err
	}
	d := new(detached)
	if d.clone(mounts); d.err != nil {
		return d.err
	}
	// The kernel waits for all processors when it drops this copy of the host's mounts, so that is for the end of the thread.
	if _, err := unix.Open("/proc/thread-self/ns/mnt", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return fmt.Errorf("keep the host's mounts: %w", err)
	}
	if err := unix.Setns(h.mounts, unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("enter the sandbox's mounts: %w", err)
	}
	p := newPlan("", nil)
	p.step("open the root")
	p.openPath("/", &p.root)
	for i, m := range mounts {
		tree := int32(d.fds[i])
		p.attach(&tree, m.Target)
	}
	return p.here()
}
