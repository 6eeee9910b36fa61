//go:build linux

package supervise

import (
	"fmt"
	"os"
	"os/signal"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

const (
	// The first look comes so long after a command's start, the next ones at growing intervals; but looking never takes more
	// than one part in diskShare of the time.
	diskFirst = 20 * time.Millisecond
	diskMost  = 2 * time.Second
	diskShare = 20
	// diskTime bounds one look. What it has not seen by then does not count.
	diskTime = 2 * time.Second
	// endTime is how long the end of commands is waited for: the kill ladder takes less.
	endTime = 5 * time.Second
	// What an overfull workspace may grow before a command is ended for it: a command that makes room writes a little, too.
	slackBytes   = 1 << 20
	slackEntries = 100
)

// usage is what a workspace holds.
type usage struct{ bytes, entries int64 }

// disk ends commands that outgrow the workspace's limit.
//
// It is no hard quota. Between two looks a command may write what the disk takes, so the limit can be overrun by so much;
// what is open and has no name is not seen, nor what lies in a folder whose rights the workload has taken from itself. A
// hard limit takes a file system with quotas below the workspace.
type disk struct {
	files *files
	limit usage
	// allowed is the limit, or what is there if that was more before.
	allowed usage

	mu      sync.Mutex
	running map[*command]bool
	begun   chan struct{} // a command has
}

// openDisk returns nil where there is no limit. It bounds single files as well, for us and thereby for every command.
func openDisk(s *supervisor) (*disk, error) {
	if s.hello.DiskBytes <= 0 {
		return nil, nil
	}
	files, err := openFiles(s.hello)
	if err != nil {
		return nil, err
	}
	// The signal would end us; with a handler the write fails instead. Commands get its default back.
	signal.Notify(make(chan os.Signal, 1), unix.SIGXFSZ)
	single := uint64(s.hello.DiskBytes)
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: single, Max: single}); err != nil {
		return nil, fmt.Errorf("bound the size of files: %w", err)
	}
	limit := usage{s.hello.DiskBytes, s.hello.DiskEntries}
	return &disk{files: files, limit: limit, allowed: limit, running: make(map[*command]bool), begun: make(chan struct{}, 1)}, nil
}

// enter and leave frame a command's run.
func (d *disk) enter(c *command) {
	if d == nil {
		return
	}
	d.mu.Lock()
	d.running[c] = true
	d.mu.Unlock()
	select {
	case d.begun <- struct{}{}:
	default:
	}
}

func (d *disk) leave(c *command) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.running, c)
}

// busy says whether one of those commands runs; of any, if none is named.
func (d *disk) busy(these []*command) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if these == nil {
		return len(d.running) > 0
	}
	return slices.ContainsFunc(these, func(c *command) bool { return d.running[c] })
}

// run watches for as long as we live.
func (d *disk) run() {
	d.allowed = d.look().atLeast(d.limit)
	for range d.begun {
		d.watch()
	}
}

// watch looks until no command runs, and once after that.
func (d *disk) watch() {
	var took time.Duration
	for pause := diskFirst; ; pause = min(2*pause, diskMost) {
		if d.rest(pause, diskShare*took) {
			pause = diskFirst
		}
		busy := d.busy(nil) // one that begins from now on is announced to the next watch
		began := time.Now()
		held := d.look()
		took = time.Since(began)
		switch {
		case !busy: // there is nobody to blame
			d.allowed = held.atLeast(d.limit)
			return
		case held.outgrows(d.allowed, d.limit):
			d.end()
			pause = diskFirst
		default:
			d.allowed = held.atMost(d.allowed).atLeast(d.limit)
		}
	}
}

// rest waits for the next look, or for a command to begin, but no shorter than least. It says whether one has begun.
func (d *disk) rest(pause, least time.Duration) bool {
	earliest := time.Now().Add(max(diskFirst, least))
	timer := time.NewTimer(max(pause, least))
	defer timer.Stop()
	select {
	case <-timer.C:
		return false
	case <-d.begun:
		time.Sleep(time.Until(earliest))
		return true
	}
}

// end ends all commands, because nobody can say whose growth it was. What is there then is allowed to the next ones.
func (d *disk) end() {
	d.mu.Lock()
	all := make([]*command, 0, len(d.running))
	for c := range d.running {
		all = append(all, c)
	}
	d.mu.Unlock()
	for _, c := range all {
		c.overDisk.Store(true)
		c.requestStop(frame.StopBody{})
	}
	poll(endTime, func() bool { return !d.busy(all) })
	d.allowed = d.look().atLeast(d.limit)
}

// look counts what there is.
func (d *disk) look() usage {
	var u usage
	w := survey{deep: true, deadline: time.Now().Add(diskTime)}
	w.see = func(_ []byte, _ string, st *unix.Stat_t) bool {
		u.entries++
		u.bytes += st.Blocks * 512 / max(int64(st.Nlink), 1) // a file with several names is met as often
		return u.entries <= 2*d.limit.entries
	}
	_ = d.files.as(func() error { w.run(d.files.root); return nil })
	return u
}

// outgrows says whether a workspace holds more than is allowed; where that is more than the limit, clearly more.
func (u usage) outgrows(allowed, limit usage) bool {
	if allowed.bytes > limit.bytes {
		allowed.bytes += slackBytes
	}
	if allowed.entries > limit.entries {
		allowed.entries += slackEntries
	}
	return u.bytes > allowed.bytes || u.entries > allowed.entries
}

func (u usage) atLeast(v usage) usage { return usage{max(u.bytes, v.bytes), max(u.entries, v.entries)} }
func (u usage) atMost(v usage) usage  { return usage{min(u.bytes, v.bytes), min(u.entries, v.entries)} }
