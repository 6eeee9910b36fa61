//go:build linux

package supervise

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/sandbox/deleteonly"
	"github.com/flynnhost/flynn/host/sandbox/frame"
	"github.com/flynnhost/flynn/host/sandbox/ring"
)

// drainGrace is how long to wait for the output of an ended command whose pipes another process holds open.
const drainGrace = 100 * time.Millisecond

// command is one Exec request.
type command struct {
	s     *supervisor
	id    uint32
	body  frame.ExecBody
	stdin *frame.Inbox
	stop  chan frame.StopBody
	ring  *ring.Buffer // of a background command
	pumps [2]*pump
	spill *spill // may be nil
	// overDisk is set if it is ended because the workspace exceeds its limit.
	overDisk atomic.Bool
	// onlyDeletes is set for a command that may run although the workspace exceeds its limit.
	onlyDeletes bool

	// The fields below belong to the one goroutine that runs it.
	untouched *fingerprint // the workspace before it, if its changes are requested
	before    reading
	forked    time.Time
	alone     bool // it was fast, and nothing is left of it
	// number is its position among the commands started; beside is set if others ran when it started.
	number int64
	beside bool

	mu     sync.Mutex
	child  *child   // nil until it has started
	input  *os.File // our end of stdin; nil without one
	closed bool     // the result is sent, and no frame may follow
	// began is when it was requested; result is valid once closed is set.
	began  time.Time
	result frame.ExitBody
	// muted is set if the host is gone, or does not know this command yet.
	muted bool
	told  bool // the host has the result
}

func newCommand(s *supervisor, id uint32, body frame.ExecBody) *command {
	c := &command{
		s: s, id: id, body: body,
		stdin: frame.NewInbox(make(chan struct{}, 1)),
		stop:  make(chan frame.StopBody, 1),
		began: time.Now(),

		onlyDeletes: body.Argv == nil && deleteonly.Only(string(body.Script)),
	}
	if body.Background {
		c.ring = new(ring.Buffer)
	} else if body.Spill {
		c.spill = &spill{owner: s.spills}
	}
	for i, stream := range []uint8{frame.Out, frame.Err} {
		c.pumps[i] = newPump(c, stream)
	}
	return c
}

func (c *command) data(p []byte) error { return c.stdin.Put(p) }
func (c *command) end()                { c.stdin.End() }

func (c *command) grant(stream uint8, p []byte) error {
	if stream != frame.Out && stream != frame.Err {
		return fmt.Errorf("%w: credit for stream %d", frame.ErrProtocol, stream)
	}
	return c.pumps[stream-frame.Out].window.Grant(p)
}

// cut ends a command that a caller waits for. A background command continues, with its stdin closed.
func (c *command) cut() {
	c.stdin.End()
	c.closeWindows()
	if !c.body.Background {
		c.requestStop(frame.StopBody{Cancel: true})
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.muted = true
}

// closeWindows discards output that nobody takes.
func (c *command) closeWindows() {
	for _, p := range c.pumps {
		p.window.Close()
	}
}

// requestStop asks run to end the command; only the first request counts.
func (c *command) requestStop(b frame.StopBody) {
	select {
	case c.stop <- b:
	default:
	}
}

func (c *command) signal(number int) {
	c.mu.Lock()
	child := c.child
	c.mu.Unlock()
	if child == nil || number <= 0 || number > 64 {
		return
	}
	select {
	case <-child.exited:
	default:
		c.s.spawner.signalGroup(child, syscall.Signal(number))
	}
}

// run executes the request: start, wait or end, drain, report.
func (c *command) run() {
	if err := c.s.disk.admit(c.onlyDeletes || c.body.Argv != nil); err != nil {
		c.abandon(err)
		return
	}
	switch {
	case c.body.Changes && c.body.Background:
		c.untouched = c.s.tracker.lookAndKeep()
	case c.body.Changes:
		c.untouched = c.s.tracker.look()
	}
	fast := c.mayTakeFastPath() && c.s.fastSlots.enter()
	err := c.spawn(fast)
	if errors.Is(err, errNoRoom) && c.s.endOrphans() {
		err = c.spawn(fast)
	}
	if fast && err == nil {
		c.alone = c.endsFast(-1)
	}
	if fast {
		c.s.fastSlots.leave()
	}
	if err != nil {
		c.abandon(err)
		return
	}
	c.attend()
}

// attend handles a command that has started, to its end.
func (c *command) attend() {
	if c.alone {
		c.conclude(c.ended())
		return
	}
	c.open()
	result := c.await(c.child)
	if result.Kill == nil && !c.body.Background {
		result.Kill = c.s.endLeft(c.child)
	}
	c.drain()
	c.s.relieveReaper()
	c.conclude(result)
}

// conclude completes the result and reports it.
func (c *command) conclude(result frame.ExitBody) {
	defer c.s.disk.leave(c)
	after := c.s.meters.read()
	result.Wall = time.Since(c.forked)
	c.count(&result)
	// The counter is that of the container. It is attributed to this command if the command has failed, or if there was no other: in a
	// pipeline only the last part has an exit code.
	lone := c.s.running.Add(-1) == 0 && !c.beside && c.s.started.Load() == c.number
	result.OOM = after.oomKills > c.before.oomKills && (result.ExitCode != 0 || lone)
	result.PidsHit = after.refusedForks > c.before.refusedForks
	result.DiskHit = result.DiskHit || c.s.disk.outgrown(c)
	if c.body.Changes {
		result.Changes = c.changes()
	}
	c.report(result)
}

// changes returns the files that differ from before the command.
func (c *command) changes() *frame.ChangesBody {
	if c.untouched == nil {
		return &frame.ChangesBody{Partial: true}
	}
	if c.body.Background {
		defer c.s.tracker.drop(c.untouched)
	}
	return changes(c.untouched, c.s.tracker.look())
}

// count records how much output was dropped.
func (c *command) count(result *frame.ExitBody) {
	for _, p := range c.pumps {
		p.finish()
	}
	result.DroppedErr = c.pumps[1].dropped
	result.Dropped = c.pumps[0].dropped + result.DroppedErr
	if c.spill != nil {
		result.Spill = c.spill.finish(result.Dropped > 0)
	}
}

// spawn starts the shell without copying any output; fast means that the caller is about to wait for its end.
func (c *command) spawn(fast bool) error {
	dir, err := c.dir()
	if err != nil {
		return err
	}
	pipes, err := c.openStreams()
	if err != nil {
		return err
	}
	defer pipes.closeTheirs()
	env := frame.Texts(c.body.Env)
	if c.onlyDeletes {
		env = []string{deleteonly.Path}
	}
	path, argv, err := c.program(env, dir)
	if err != nil {
		pipes.closeOurs()
		return err
	}
	if c.forked.IsZero() {
		c.before, c.forked = c.s.meters.read(), time.Now()
	}
	child, err := c.s.spawner.startProgram(launch{path, argv, env, dir, pipes.theirs, pipes.terminal, fast})
	if errors.Is(err, unix.ENOENT) && c.body.Argv == nil {
		err = fail(frame.Internal, "the image has no /bin/sh, which commands need")
	}
	if err != nil {
		pipes.closeOurs()
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.child = child
	if pipes.ours[0] >= 0 {
		c.input = os.NewFile(uintptr(pipes.ours[0]), "pipe")
	}
	c.pumps[0].fd, c.pumps[1].fd = pipes.ours[1], pipes.ours[2]
	c.s.disk.enter(c)
	c.number, c.beside = c.s.started.Add(1), c.s.running.Add(1) > 1
	return nil
}

// open starts copying the streams of a command that lasts.
func (c *command) open() {
	c.s.spawner.handOver(c.child)
	if c.body.Background || c.body.Live {
		c.s.send(frame.Frame{Type: frame.Started, ID: c.id, Payload: frame.Encode(frame.StartedBody{PID: c.child.pid})})
	}
	for _, p := range c.pumps {
		p.open()
	}
	if c.body.Stdin {
		go c.feed(c.input)
	}
}

// openStreams creates the command's stdin, stdout and stderr.
func (c *command) openStreams() (*pipes, error) {
	if c.body.Terminal != nil {
		return openTerminal(c.s.files, *c.body.Terminal)
	}
	return openPipes(c.body.Stdin, c.body.Background, c.s.spawner.null)
}

// dir returns the absolute working directory. The check that it lies in the workspace is a formality: the command may change to any folder
// that it can enter.
func (c *command) dir() (string, error) {
	if c.body.Argv != nil {
		return c.anyDir()
	}
	dir := path.Join(c.s.hello.Workspace, string(c.body.Dir))
	if dir != c.s.hello.Workspace && !strings.HasPrefix(dir, strings.TrimSuffix(c.s.hello.Workspace, "/")+"/") {
		return "", fail(frame.Outside, "working directory leaves the workspace")
	}
	if c.body.Dir == nil {
		return dir, nil
	}
	err := c.s.files.as(func() error {
		fd, err := c.s.files.beneath(string(c.body.Dir), unix.O_PATH|unix.O_DIRECTORY)
		if err == nil {
			unix.Close(fd)
		}
		return err
	})
	if err != nil {
		return "", fmt.Errorf("enter working directory: %w", err)
	}
	return dir, nil
}

// await returns once the shell has ended, by itself or by the kill ladder.
func (c *command) await(child *child) frame.ExitBody {
	var expired <-chan time.Time
	if c.body.Timeout > 0 {
		timer := time.NewTimer(max(c.body.Timeout-time.Since(c.forked), 0))
		defer timer.Stop()
		expired = timer.C
	}
	var result frame.ExitBody
	select {
	case <-child.exited:
		setStatus(&result, child)
		return result
	case <-expired:
		result.TimedOut = true
	case b := <-c.stop:
		result.Canceled, result.DiskHit = b.Cancel, c.overDisk.Load()
	}
	if c.body.Terminal != nil {
		c.s.spawner.signalGroup(child, syscall.SIGHUP) // interactive shells ignore SIGTERM but not this
	}
	certificate := c.s.end(child)
	result.Kill = &certificate
	if c.body.Live {
		c.closeWindows() // its caller may not read any more
	}
	select {
	case <-child.exited:
		setStatus(&result, child)
	case <-time.After(drainGrace): // unkillable; it is reported as a survivor
		result.ExitCode = -1
	}
	return result
}

// feed writes stdin as it arrives. When the command does not read any more, the rest is dropped, but the host still gets its credit, so
// that it never blocks.
func (c *command) feed(w *os.File) {
	defer w.Close()
	broken := false
	for {
		p, credit, ended, err := c.stdin.Wait(c.s.ctx)
		if err != nil {
			return
		}
		if len(p) > 0 && !broken {
			_, err := w.Write(p)
			broken = err != nil
		}
		if credit != nil {
			c.giveCredit(credit)
		}
		if ended && c.body.Terminal != nil && !broken {
			_, _ = w.Write([]byte{endOfInput})
		}
		if ended {
			return
		}
	}
}

// drain waits for the ends of both streams, but not for other processes that hold them open.
func (c *command) drain() {
	timer := time.NewTimer(drainGrace)
	defer timer.Stop()
	for _, p := range c.pumps {
		select {
		case <-p.done:
		case <-timer.C:
			for _, p := range c.pumps {
				p.cut()
			}
			<-p.done
		}
	}
	<-c.pumps[1].done
}

func (c *command) giveCredit(credit []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed && !c.muted {
		c.s.send(frame.Frame{Type: frame.Credit, Stream: frame.In, ID: c.id, Payload: credit})
	}
}

// report sends the remaining output together with the result, in one write, so that everybody on the way to the host wakes up once.
func (c *command) report(result frame.ExitBody) {
	frames := append(c.pumps[0].rest(), c.pumps[1].rest()...)
	frames = append(frames, frame.Frame{Type: frame.Exit, ID: c.id, Payload: frame.Encode(result)})
	if !c.body.Background {
		c.s.spawner.release(c.child.tag)
	}
	c.mu.Lock()
	c.closed, c.result = true, result
	if c.muted {
		frames = nil // tell and rejoin send it
	}
	c.told = !c.muted
	c.s.closeWith(c.id, frames...)
	c.mu.Unlock()
	c.stdin.End()
	if c.input != nil {
		c.input.Close() // unblocks feed if nobody reads
	}
}

func (c *command) abandon(err error) {
	if c.body.Background && c.untouched != nil {
		c.s.tracker.drop(c.untouched)
	}
	c.s.mu.Lock()
	delete(c.s.kept, c.id)
	c.s.mu.Unlock()
	c.s.fail(c.id, err)
}

func (c *command) isRunning() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.closed
}

// setStatus records how the shell ended.
func setStatus(v *frame.ExitBody, child *child) {
	v.CPU, v.PeakMemory = child.cpu, child.peak
	v.ExitCode = child.status.ExitStatus()
	if child.status.Signaled() {
		v.ExitCode, v.Signal = -1, int(child.status.Signal())
		v.DiskHit = v.DiskHit || child.status.Signal() == unix.SIGXFSZ
	}
}
