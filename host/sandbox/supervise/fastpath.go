//go:build linux

package supervise

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// Most commands are short. The goroutine that starts one waits for its end, takes what lies in its pipes, and answers. No other thread is woken for that, no descriptor watched and no timer
// set, which would take longer than all the rest that is ours to do. A command that is not over in time, that is spoken to
// meanwhile, or that leaves anything behind, goes on as one that lasts.
const (
	fastPathTime = 2 * time.Millisecond
	// maxFastPaths is how many goroutines other than the reading one may wait so at a time, each of which blocks a thread.
	maxFastPaths = 2
)

// fastSlots has room for the goroutines that wait.
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

// mayTakeFastPath reports whether the host needs nothing of the command but its result, and sends it nothing.
func (c *command) mayTakeFastPath() bool {
	b := &c.body
	return c.s.handles && !b.Background && !b.Live && !b.Stdin && b.Terminal == nil && (b.Timeout <= 0 || b.Timeout > fastPathTime)
}

// runHere is run on the reading goroutine itself, where that need not wait for anything but the command. It reports whether the
// command has begun.
func (c *command) runHere() bool {
	if !c.mayTakeFastPath() || c.body.Changes || c.body.Dir != nil || c.body.Argv != nil || !c.s.in.isQuiet() || !c.s.disk.ready() {
		return false
	}
	if c.spawn(true) != nil {
		return false // run makes room if that is it, or says what fails
	}
	c.alone = c.endsFast(c.s.in.fd)
	if c.alone && c.s.disk.ready() {
		c.attend()
	} else {
		go c.attend()
	}
	return true
}

// endsFast reports whether the command has ended soon, with little output and no process left behind. A frame on the line
// ends the waiting.
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

// ended is the result on a command that has ended by itself.
func (c *command) ended() (result frame.ExitBody) {
	setStatus(&result, c.child)
	return result
}

// watchable reports whether the kernel gives handles on processes that one can wait for; gVisor's does not.
func watchable() bool {
	fd, err := unix.PidfdOpen(unix.Getpid(), 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	_, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	return err == nil
}
