package native

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/native/within"
)

// A host keeps one process that is almost a sandbox: what the last sandbox had, without the folders that it was given. The next sandbox of the
// same kind takes it, which saves the start of the supervisor and half of the time. It has run nothing and knows nothing of a session. Every
// other sandbox is started as a whole.

// spareRest is how long no sandbox was started before the next spare process is: its preparation would slow down first commands.
const spareRest = 20 * time.Millisecond

// spareTimeout bounds the preparation of a spare process.
const spareTimeout = 20 * time.Second

// kind is everything that a spare process is made from. One serves a sandbox only if that has the same.
type kind struct {
	config      within.Config
	memory      int64
	pids        int64
	cpus        float64
	device, ino uint64 // of the supervisor's program
	changed     unix.Timespec
}

// kindOf returns the kind of a sandbox, or nil if it needs a process of its own.
func kindOf(w within.Config, c driver.Container) *kind {
	k := &kind{config: w, memory: c.MemoryBytes, pids: c.PidsLimit, cpus: c.CPUs}
	k.config.Mounts = nil
	for _, m := range w.Mounts {
		var st unix.Stat_t
		if m.Source != "" && unix.Stat(m.Source, &st) != nil || below(m.Target, w.Mounts) {
			return nil
		}
		switch {
		case m.Target == w.Program:
			k.device, k.ino, k.changed = uint64(st.Dev), st.Ino, st.Ctim
		case m.Source != "":
			m.Source, m.Later, m.File = "", true, st.Mode&unix.S_IFMT != unix.S_IFDIR
		}
		k.config.Mounts = append(k.config.Mounts, m)
	}
	if k.ino == 0 {
		return nil
	}
	return k
}

// below reports whether a path lies below a mount.
func below(path string, mounts []within.Mount) bool {
	for _, m := range mounts {
		if path != m.Target && strings.HasPrefix(filepath.Clean(path)+"/", filepath.Clean(m.Target)+"/") {
			return true
		}
	}
	return false
}

// later returns the mounts that a sandbox adds to a spare process.
func later(w within.Config) (mounts []within.Mount) {
	for _, m := range w.Mounts {
		if m.Target != w.Program && m.Source != "" {
			mounts = append(mounts, m)
		}
	}
	return mounts
}

// spare is such a process.
type spare struct {
	kind   *kind
	stream *stream
	life   *life
}

// spares keeps the spare process.
type spares struct {
	mu     sync.Mutex
	kept   *spare
	next   *kind // of the one to prepare
	timer  *time.Timer
	closed bool

	preparing sync.Mutex
}

// has reports whether there is one of a kind.
func (s *spares) has(k *kind) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return k != nil && s.kept != nil && reflect.DeepEqual(s.kept.kind, k)
}

// take returns the spare process if it is of a kind and lives, or nil. Nobody else gets it.
func (s *spares) take(k *kind) *spare {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k == nil || s.kept == nil || s.kept.life.ended() || !reflect.DeepEqual(s.kept.kind, k) {
		return nil
	}
	kept := s.kept
	s.kept = nil
	return kept
}

// prepareSpare prepares a spare process of a kind once no sandbox was started for a while.
func (d *Driver) prepareSpare(k *kind) {
	s := &d.spares
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || k == nil {
		return
	}
	s.next = k
	if s.timer == nil {
		s.timer = time.AfterFunc(spareRest, d.refreshSpare)
		return
	}
	s.timer.Reset(spareRest)
}

// refreshSpare makes the spare process one of the kind that is wanted. A failure is none of a sandbox: the next one is started as a whole.
func (d *Driver) refreshSpare() {
	s := &d.spares
	s.preparing.Lock()
	defer s.preparing.Unlock()
	s.mu.Lock()
	k, old := s.next, s.kept
	if s.closed || k == nil || old != nil && !old.life.ended() && reflect.DeepEqual(old.kind, k) {
		s.mu.Unlock()
		return
	}
	s.kept = nil
	s.mu.Unlock()
	name := fmt.Sprintf("%s%d-%s", sparePrefix, os.Getpid(), rand.Text())
	ctx, cancel := context.WithTimeout(context.Background(), spareTimeout)
	defer cancel()
	d.dropSpare(ctx, old)
	made, err := d.newSpare(ctx, name, k)
	if err != nil {
		return
	}
	s.mu.Lock()
	if !s.closed {
		s.kept, made = made, nil
	}
	s.mu.Unlock()
	d.dropSpare(ctx, made)
}

// newSpare starts a spare process, whose control groups have a name.
func (d *Driver) newSpare(ctx context.Context, name string, k *kind) (*spare, error) {
	s := new(stream)
	r := within.Request{Config: k.config, Spare: true}
	c := driver.Container{MemoryBytes: k.memory, PidsLimit: k.pids, CPUs: k.cpus}
	l, err := d.begin(ctx, name, r, c, s)
	if err != nil {
		return nil, err
	}
	made := &spare{k, s, l}
	deadline, _ := ctx.Deadline()
	if err = s.report.SetReadDeadline(deadline); err == nil {
		err = s.outcome()
	}
	if err == nil {
		err = s.report.SetReadDeadline(time.Time{})
	}
	if err != nil {
		d.dropSpare(ctx, made)
		return nil, err
	}
	return made, nil
}

// dropSpare ends a spare process that nobody has taken.
func (d *Driver) dropSpare(ctx context.Context, old *spare) {
	if old == nil {
		return
	}
	_ = old.life.end(ctx)
	old.stream.abandon()
	d.groups.remove(old.life.groups)
}

// closeSpare ends the spare process; there will be none.
func (d *Driver) closeSpare() {
	s := &d.spares
	s.mu.Lock()
	s.closed = true
	if s.timer != nil {
		s.timer.Stop()
	}
	s.mu.Unlock()
	s.preparing.Lock() // wait for the one that is being prepared
	defer s.preparing.Unlock()
	s.mu.Lock()
	kept := s.kept
	s.kept = nil
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
	defer cancel()
	d.dropSpare(ctx, kept)
}

// complete makes a sandbox of a spare process that was taken.
func (d *Driver) complete(ctx context.Context, taken *spare, r within.Request, s *stream) error {
	r.Take, r.Config = taken.life.pid, within.Config{Mounts: later(r.Config)}
	_, process, err := d.server.start(ctx, d.supervisor, r)
	if err == nil {
		process.Close() // it is known already
		s.adopt(taken.stream)
	}
	return err
}
