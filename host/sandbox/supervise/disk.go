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
	// Looks at a busy workspace come at growing intervals, and take no more than one part in diskShare of the time.
	diskFirst = 20 * time.Millisecond
	diskMost  = 2 * time.Second
	diskShare = 10
	// tripEvery is how often the file system is asked what it has left while commands run.
	tripEvery = 20 * time.Millisecond
	// endTime is how long the end of commands is waited for: the kill ladder takes less.
	endTime = 5 * time.Second
)

// usage is what a workspace holds, or what its file system has left.
type usage struct{ bytes, entries int64 }

// disk keeps the workspace's limit, as far as that can be done without a file system that keeps it.
//
// A look counts the whole workspace, and what it finds is final: while that is more than the limit no file is written and no
// command starts but one that only deletes, and what runs is ended. Nothing raises the limit. So however many commands run, the
// limit is overrun once, by what is written before the next look has ended.
//
// That look comes soon. What the file system has left is asked for all the time, which takes microseconds however many files
// there are: once it has shrunk by what the workspace still had room for, by whatever writer, a look is due, and the next command
// waits for it. The supervisor is not crowded out of its looks, because commands have the lowest priority; see threads.go.
//
// Nothing takes much of the disk in no time; see allocate.go. What has no name counts as far as it is seen; see nameless.go. What lies
// below a mount of its own does not count.
type disk struct {
	files *files
	limit usage
	// left is what the workspace's file system has left; ok is false where it does not say.
	left  func() (free usage, ok bool)
	begun chan struct{} // a command has begun
	took  time.Duration // the last look of watch; only that uses it

	looking sync.Mutex // one look at a time

	mu      sync.Mutex
	running map[*command]bool
	looked  bool
	held    usage // at the last look
	free    usage // what the file system had left when that began
	told    bool  // whether it said
	touched bool  // something was written, or may have been, since that began
}

// openDisk returns nil where there is no limit. It bounds single files as well, for this process and so for every command.
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
	refuseAllocation()
	return newDisk(files, usage{s.hello.DiskBytes, s.hello.DiskEntries}), nil
}

func newDisk(f *files, limit usage) *disk {
	return &disk{files: f, limit: limit, left: f.left, running: make(map[*command]bool), begun: make(chan struct{}, 1)}
}

// left is what the workspace's file system has left, for all writers.
func (f *files) left() (free usage, ok bool) {
	var st unix.Statfs_t
	if unix.Fstatfs(f.root, &st) != nil || st.Blocks == 0 {
		return usage{}, false
	}
	return usage{int64(st.Bfree) * st.Bsize, int64(st.Ffree)}, true
}

// errOverDisk refuses what would make an overfull workspace grow.
var errOverDisk = fail(frame.DiskFull, "the workspace is over its disk limit")

// admit refuses a command or a file where the workspace is overfull. It waits for a look if one is due.
func (d *disk) admit(onlyDeletes bool) error {
	if d == nil || onlyDeletes || !d.settle() {
		return nil
	}
	return errOverDisk
}

// ready reports whether admit would let a command pass at once.
func (d *disk) ready() bool {
	if d == nil {
		return true
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.due()
}

// settle reports whether the workspace is overfull, after a look if one is due.
func (d *disk) settle() bool {
	d.looking.Lock()
	defer d.looking.Unlock()
	d.mu.Lock()
	due, over := d.due(), d.isOver()
	d.mu.Unlock()
	if due {
		return d.look()
	}
	return over
}

// due reports whether nobody can be sure that the workspace is within its limit without another look. One that is overfull
// is always looked at: room need not be made by a command. d.mu is held.
func (d *disk) due() bool {
	if !d.looked || d.isOver() {
		return true
	}
	if !d.touched {
		return false
	}
	free, ok := d.left()
	room := usage{d.limit.bytes - d.held.bytes, d.limit.entries - d.held.entries}
	return !ok || !d.told || d.free.bytes-free.bytes > room.bytes || d.free.entries-free.entries > room.entries
}

// isOver reports whether the last look found too much. d.mu is held.
func (d *disk) isOver() bool { return d.held.bytes > d.limit.bytes || d.held.entries > d.limit.entries }

// touch notes that something is about to be written.
func (d *disk) touch() {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.touched = true
}

// enter and leave frame a command's run.
func (d *disk) enter(c *command) {
	if d == nil {
		return
	}
	d.mu.Lock()
	d.running[c], d.touched = true, true
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

// outgrown reports whether a command that has just ended leaves an overfull workspace. It looks only where that may be.
func (d *disk) outgrown(c *command) bool { return d != nil && !c.onlyDeletes && d.settle() }

// busy reports whether one of those commands runs; any, if none is named.
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
	d.settle()
	for range d.begun {
		d.watch()
	}
}

// watch looks until no command runs, and once after that.
func (d *disk) watch() {
	for pause := diskFirst; ; pause = min(2*pause, diskMost) {
		d.rest(max(pause, diskShare*d.took))
		busy := d.busy(nil) // one that begins from now on is announced to the next watch
		began := time.Now()
		d.looking.Lock()
		over := d.look()
		d.looking.Unlock()
		d.took = time.Since(began)
		if over {
			d.end()
			pause = diskFirst
		}
		if !busy {
			return
		}
	}
}

// rest waits so long, or until a look is due; but for no less than the last look took.
func (d *disk) rest(most time.Duration) {
	began := time.Now()
	tick := time.NewTicker(tripEvery)
	defer tick.Stop()
	for range tick.C {
		if rested := time.Since(began); rested >= most || rested >= d.took && !d.ready() {
			return
		}
	}
}

// end ends every command but those that only delete: nobody can say whose growth it was.
func (d *disk) end() {
	d.mu.Lock()
	all := make([]*command, 0, len(d.running))
	for c := range d.running {
		if !c.onlyDeletes {
			all = append(all, c)
		}
	}
	d.mu.Unlock()
	for _, c := range all {
		c.overDisk.Store(true)
		c.requestStop(frame.StopBody{})
	}
	if len(all) > 0 {
		poll(endTime, func() bool { return !d.busy(all) })
	}
}

// look counts what there is, and reports whether that is too much. It goes on until it has seen all, or more entries than there
// may be. d.looking is held.
func (d *disk) look() bool {
	d.mu.Lock()
	d.free, d.told = d.left()
	d.touched = len(d.running) > 0
	d.mu.Unlock()
	var u usage
	w := survey{deep: true, force: true}
	w.see = func(_ []byte, _ string, st *unix.Stat_t) bool {
		u.entries++
		u.bytes += st.Blocks * 512 / max(int64(st.Nlink), 1) // a file with several names is met as often
		return u.entries <= d.limit.entries
	}
	_ = d.files.as(func() error {
		w.run(d.files.root)
		u.bytes += nameless(w.dev)
		return nil
	})
	d.mu.Lock()
	defer d.mu.Unlock()
	d.held, d.looked = u, true
	return d.isOver()
}
