//go:build linux

package supervise

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// Most commands are short. The goroutine that starts one waits for its end, reads its pipes, and answers. No other thread is woken for
// that, no descriptor is watched and no timer set, which would take longer than everything else that we do. A command that does not end in
// time, that receives a frame meanwhile, or that leaves anything behind, continues on the ordinary path.
const (
	fastPathTime = 2 * time.Millisecond
	// maxFastPaths bounds the goroutines, other than the reading one, that wait like that at the same time, because each blocks a thread.
	maxFastPaths = 2
)

// fastSlots has a place for each waiting goroutine.
type fastSlots chan struct{}

func (f fastSlots) enter() bool {
	select {
	case f <- struct{}{}:
		return true
	default:
		return false
	}
}

func (f fastSlots) leave() { <-f }

// mayTakeFastPath reports whether the host needs only the result of the command, and sends it nothing.
func (c *command) mayTakeFastPath() bool {
	b := &c.body
	return c.s.handles && !b.Background && !b.Live && !b.Stdin && b.Terminal == nil && (b.Timeout <= 0 || b.Timeout > fastPathTime)
}

// runHere runs the command on the reading goroutine itself, if nothing but the command has to be waited for. It reports whether the command
// has begun.
func (c *command) runHere() bool {
	if !c.mayTakeFastPath() || c.body.Changes || c.body.Dir != nil || c.body.Argv != nil || !c.s.disk.ready() {
		return false
	}
	line, ok := c.s.in.quiet()
	if !ok {
		return false
	}
	if c.spawn(true) != nil {
		return false // run makes room if that is the problem, or reports the failure
	}
	c.alone = c.endsFast(line)
	if c.alone && c.s.disk.ready() {
		c.attend()
	} else {
		go c.attend()
	}
	return true
}

// endsFast reports whether the command has ended quickly, with little output and no process left behind. It stops waiting when a frame
// arrives.
func (c *command) endsFast(line int) bool {
	if c.child.handle < 0 || !c.awaitEnd(line) {
		return false
	}
	if !c.s.spawner.collect(c.child) {
		return false
	}
	c.child.closeHandle()
	swept := c.pumps[0].sweep()
	return c.pumps[1].sweep() && swept && c.child.childless
}

// awaitEnd waits for the child's end, or for a frame.
func (c *command) awaitEnd(line int) bool {
	fds := []unix.PollFd{{Fd: int32(c.child.handle), Events: unix.POLLIN}, {Fd: int32(line), Events: unix.POLLIN}}
	for {
		left := fastPathTime - time.Since(c.forked)
		_, err := unix.Poll(fds, int((max(left, 0)+time.Millisecond-1)/time.Millisecond))
		if err != unix.EINTR {
			return err == nil && fds[0].Revents != 0
		}
	}
}

// ended returns the result of a command that has ended by itself.
func (c *command) ended() (result frame.ExitBody) {
	setStatus(&result, c.child)
	return result
}

// watchable reports whether the kernel supports waiting on pidfds; gVisor does not.
func watchable() bool {
	fd, err := unix.PidfdOpen(unix.Getpid(), 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	_, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	return err == nil
}
