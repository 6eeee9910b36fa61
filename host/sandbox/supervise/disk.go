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
	// A busy workspace is scanned at growing intervals, for at most one part in diskShare of the time.
	diskFirst = 20 * time.Millisecond
	diskMost  = 2 * time.Second
	diskShare = 10
	// tripEvery is how often the free space is checked while commands run.
	tripEvery = 20 * time.Millisecond
	// endTime bounds the wait for the end of commands; the kill ladder takes less.
	endTime = 5 * time.Second
)

// usage is the size of a workspace, or the free space of its file system.
type usage struct{ bytes, entries int64 }

// disk enforces the workspace's limit, as well as that is possible without support by the file system.
//
// A scan counts the whole workspace, and its result is binding: while that exceeds the limit, no file is written, only commands that delete
// can start, and running commands are ended. Nothing raises the limit. However many commands run, the limit is exceeded only once, by what
// is written before the next scan has ended.
//
// That scan comes soon. The free space of the file system is checked continually, which takes microseconds however many files there are:
// once it has shrunk by as much as the workspace was below its limit, by any writer, a scan is due, and the next command waits for it.
// Commands cannot starve the supervisor's scans, because they have the lowest priority; see threads.go.
//
// Nothing can take much disk space in an instant; see allocate.go. Files without a name count as far as they can be seen; see nameless.go.
// Other file systems mounted in the workspace do not count.
type disk struct {
	files *files
	limit usage
	// left returns the free space of the workspace's file system; ok is false if it does not report any.
	left  func() (free usage, ok bool)
	begun chan struct{} // receives when a command has begun
	took  time.Duration // duration of the last scan by watch; only watch uses it

	looking sync.Mutex // one scan at a time

	mu      sync.Mutex
	running map[*command]bool
	looked  bool
	held    usage // at the last scan
	free    usage // free space when the last scan began
	told    bool  // whether free is valid
	touched bool  // something was, or may have been, written since the last scan began
}

// openDisk returns nil if there is no limit. It also limits the size of single files, for this process and therefore for every command.
func openDisk(s *supervisor) (*disk, error) {
	if s.hello.DiskBytes <= 0 {
		return nil, nil
	}
	files, err := openFiles(s.hello, nil) // behind a wall it could not look at the files that commands have open
	if err != nil {
		return nil, err
	}
	// The signal would end us; with a handler the write fails instead. In commands it has its default again.
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

// left returns the free space of the workspace's file system, which all writers share.
func (f *files) left() (free usage, ok bool) {
	var st unix.Statfs_t
	if unix.Fstatfs(f.root, &st) != nil || st.Blocks == 0 {
		return usage{}, false
	}
	return usage{int64(st.Bfree) * st.Bsize, int64(st.Ffree)}, true
}

// errOverDisk refuses what would make a workspace grow that exceeds its limit.
var errOverDisk = fail(frame.DiskFull, "the workspace is over its disk limit")

// admit refuses a command or a file if the workspace exceeds its limit. It waits for a scan if one is due.
func (d *disk) admit(onlyDeletes bool) error {
	if d == nil || onlyDeletes || !d.settle() {
		return nil
	}
	return errOverDisk
}

// ready reports whether admit would accept a command without waiting.
func (d *disk) ready() bool {
	if d == nil {
		return true
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.due()
}

// settle reports whether the workspace exceeds its limit, after a scan if one is due.
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

// due reports whether a scan is needed to be sure that the workspace is within its limit. If it was not, one is always due: space may have
// been freed by something other than a command. d.mu is held.
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

// isOver reports whether the last scan found too much. d.mu is held.
func (d *disk) isOver() bool { return d.held.bytes > d.limit.bytes || d.held.entries > d.limit.entries }

// touch records that something is about to be written.
func (d *disk) touch() {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.touched = true
}

// enter and leave mark the begin and end of a command.
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

// outgrown reports whether a command that has just ended leaves a workspace that exceeds its limit. It scans only if that is possible.
func (d *disk) outgrown(c *command) bool { return d != nil && !c.onlyDeletes && d.settle() }

// busy reports whether one of the given commands runs; any command, if these is nil.
func (d *disk) busy(these []*command) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if these == nil {
		return len(d.running) > 0
	}
	return slices.ContainsFunc(these, func(c *command) bool { return d.running[c] })
}

// run watches until the supervisor ends.
func (d *disk) run() {
	d.settle()
	for range d.begun {
		d.watch()
	}
}

// watch scans until no command runs, and once after that.
func (d *disk) watch() {
	for pause := diskFirst; ; pause = min(2*pause, diskMost) {
		d.rest(max(pause, diskShare*d.took))
		busy := d.busy(nil) // one that begins from now on triggers the next watch
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

// rest waits for a while, or until a scan is due, but at least as long as the last scan took.
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

// end ends every command except those that only delete, because it is not known which one has grown the workspace.
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

// look scans the workspace and reports whether it exceeds its limit. It stops after more entries than are allowed. d.looking is held.
func (d *disk) look() bool {
	d.mu.Lock()
	d.free, d.told = d.left()
	d.touched = len(d.running) > 0
	d.mu.Unlock()
	var u usage
	w := survey{deep: true, force: true}
	w.see = func(_ []byte, _ string, st *unix.Stat_t) bool {
		u.entries++
		u.bytes += st.Blocks * 512 / max(int64(st.Nlink), 1) // each name of a file with several counts an equal part
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
