package snapshot

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox/fsroot"
	"github.com/flynnhost/flynn/host/sandbox/quota"
)

// Take keeps the files of a session as they are before a turn changes them, unless that turn has called it before. If they cannot be kept,
// the reason is kept instead; the turn goes on in any case.
func (s *Store) Take(ctx context.Context, session message.WorkspaceKey, turn string) {
	one, err := s.open(session)
	if err == nil {
		defer one.unlock()
		if one.taken(turn) {
			return
		}
		_, err = one.take(ctx, entry{Turn: turn}, "")
	}
	if err != nil {
		s.Log.Warn("cannot keep the files of a workspace before a turn", "session", session, "turn", turn, "error", err)
	}
}

func (s *set) taken(turn string) bool {
	for _, e := range s.index.Snapshots {
		if e.Turn == turn && !e.Undo {
			return true
		}
	}
	return false
}

// take adds a snapshot, or the reason why there is none. An error means that not even the reason could be kept. The snapshot of the id needed
// is not removed to make room.
func (s *set) take(ctx context.Context, e entry, needed string) (entry, error) {
	e.ID, e.At = rand.Text(), s.now().UTC()
	if err := os.MkdirAll(filepath.Join(s.dir, blobs), 0o700); err != nil {
		return e, err
	}
	limit := s.Limit()
	if limit == 0 {
		e.Why = "no snapshots are taken: snapshot_disk under [limits] is 0"
	} else if err := s.keep(ctx, e.ID, needed, limit); err != nil {
		e.Why = whyNot(err)
		s.Log.Info("the files of a workspace were not kept before a turn", "session", s.session, "turn", e.Turn, "why", e.Why)
	}
	s.index.Snapshots = append(s.index.Snapshots, e)
	dropped := s.shorten(maxSnapshots, needed)
	if err := s.save(); err != nil || !dropped && e.Why == "" {
		return e, err
	}
	return e, s.sweep()
}

func whyNot(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Sprintf("to keep its files took longer than %s", takeTimeout)
	}
	return err.Error()
}

// Settle keeps what the files of a session look like at the end of a turn that has called Take, so that later changes can be told apart. The
// snapshot of a turn that has changed nothing is dropped.
func (s *Store) Settle(ctx context.Context, session message.WorkspaceKey, turn string) {
	one, err := s.open(session)
	if err == nil {
		defer one.unlock()
		if e := one.newest(); e != nil && !e.Undo && e.Turn == turn {
			err = one.settle(ctx, e)
		}
	}
	if err != nil {
		s.Log.Warn("cannot keep the state of a workspace after a turn", "session", session, "turn", turn, "error", err)
	}
}

func (s *set) settle(ctx context.Context, e *entry) error {
	ctx, cancel := context.WithTimeout(ctx, takeTimeout)
	defer cancel()
	now, err := scan(ctx, s.files, nil)
	if err != nil {
		return err
	}
	if !e.Undo && e.Why == "" && s.unchanged(e, now) {
		s.drop(len(s.index.Snapshots) - 1)
		return errors.Join(s.save(), s.sweep())
	}
	if err := s.write(e.ID+after, now); err != nil {
		return err
	}
	e.Settled = true
	return s.save()
}

// unchanged reports whether the files are as they were before a turn.
func (s *set) unchanged(e *entry, now state) bool {
	was, err := s.read(e.ID + before)
	if err != nil || len(was.Files) != len(now.Files) || !maps.Equal(was.Skipped, now.Skipped) {
		return false
	}
	for name, f := range now.Files {
		if old, is := was.Files[name]; !is || !old.untouched(f) {
			return false
		}
	}
	return true
}

// keep keeps the present files under an id.
func (s *set) keep(ctx context.Context, id, needed string, limit int64) error {
	ctx, cancel := context.WithTimeout(ctx, takeTimeout)
	defer cancel()
	last, lastID := s.lastState()
	var need int64
	var changed []fsroot.Entry
	now, done, err := scanOpen(ctx, s.files, func(e fsroot.Entry, f *file) error {
		if old, is := last.Files[f.Path]; is && old.serves(*f) {
			f.Blob, f.Settled = old.Blob, true
			return nil
		}
		need += allocated(e.Info)
		changed = append(changed, e)
		return nil
	})
	defer done()
	if err != nil {
		return err
	}
	used, err := s.makeRoom(need, needed, limit) // before anything is written
	if err != nil {
		return err
	}
	if lastID != "" && s.find(lastID) == nil { // the contents that it shares are gone
		return s.keep(ctx, id, needed, limit)
	}
	k := keeping{set: s, now: now, left: limit - used}
	for _, e := range changed {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := k.file(e); err != nil {
			return err
		}
	}
	return s.write(id+before, now)
}

// lastState returns the latest snapshot with its id, or an empty one.
func (s *set) lastState() (last state, id string) {
	for i := len(s.index.Snapshots) - 1; i >= 0; i-- {
		if e := s.index.Snapshots[i]; e.Why == "" {
			if last, err := s.read(e.ID + before); err == nil {
				return last, e.ID
			}
		}
	}
	return state{}, ""
}

// serves reports whether the content that was kept for a file is that of another state of it.
func (f file) serves(now file) bool {
	return f.Blob != "" && f.Settled && f.Dev == now.Dev && f.Ino == now.Ino && f.Ctime == now.Ctime && f.Size == now.Size
}

// makeRoom removes the oldest snapshots until need bytes fit, and returns how many are in use.
func (s *set) makeRoom(need int64, needed string, limit int64) (used int64, err error) {
	if need > limit {
		return 0, fmt.Errorf("to keep its files takes %s, and snapshot_disk under [limits] allows %s", quota.Size(need), quota.Size(limit))
	}
	for n := len(s.index.Snapshots) - 1; ; n-- {
		if used = s.size(); used+need <= limit {
			break
		}
		if n < 0 || len(s.index.Snapshots) == 1 && s.index.Snapshots[0].ID == needed {
			return 0, fmt.Errorf("to keep its files takes %s besides %s that are in use, and snapshot_disk under [limits] allows %s",
				quota.Size(need), quota.Size(used), quota.Size(limit))
		}
		s.shorten(n, needed)
		if err := errors.Join(s.save(), s.sweep()); err != nil {
			return 0, err
		}
	}
	if s.Reserve == nil {
		return used, nil
	}
	return used, s.Reserve(s.session, need)
}

// shorten drops the oldest entries but n and the needed one, and reports whether there were any.
func (s *set) shorten(n int, needed string) (dropped bool) {
	for i := 0; len(s.index.Snapshots) > n && i < len(s.index.Snapshots); {
		if s.index.Snapshots[i].ID == needed {
			i++
			continue
		}
		s.drop(i)
		dropped = true
	}
	return dropped
}

// sweep removes the files of snapshots that are not in the index any more, and contents that no snapshot has.
func (s *set) sweep() error {
	used := map[string]bool{}
	for _, e := range s.index.Snapshots {
		used[e.ID+before], used[e.ID+after] = true, true
		if e.Why != "" {
			continue
		}
		all, err := s.read(e.ID + before)
		if err != nil {
			return err
		}
		for _, f := range all.Files {
			used[f.Blob] = true
		}
	}
	used[indexFile], used[blobs] = true, true
	var errs error
	for _, dir := range []string{s.dir, filepath.Join(s.dir, blobs)} {
		names, err := os.ReadDir(dir)
		errs = errors.Join(errs, err)
		for _, n := range names {
			if !used[n.Name()] {
				errs = errors.Join(errs, os.Remove(filepath.Join(dir, n.Name())))
			}
		}
	}
	return errs
}

// keeping copies the contents of files into a snapshot.
type keeping struct {
	*set
	now  state
	left int64 // bytes that may be added
}

// settleAfter is how long after a change a file has to be copied so that another change would show in its Ctime. It is more than the clock
// tick of any file system.
const settleAfter = 3 * time.Second

// attempts bounds how often a file is copied that changes meanwhile.
const attempts = 3

// file keeps the content of one file. One that changes while it is copied, or cannot be read, is not covered.
func (k *keeping) file(e fsroot.Entry) error {
	name := string(e.Path)
	for range attempts {
		f, same, err := k.copy(e)
		if err != nil && !errors.Is(err, errUnreadable) {
			return err
		}
		if same {
			k.now.Files[name] = f
			return nil
		}
		if err != nil {
			break
		}
	}
	delete(k.now.Files, name)
	k.now.Skipped[name] = true
	return nil
}

var (
	errUnreadable = errors.New("the file cannot be read")
	errGrew       = errors.New("its files grew while they were kept")
)

// copy copies a file once, and reports whether it stayed the same meanwhile. f is the file that was copied.
func (k *keeping) copy(e fsroot.Entry) (f file, same bool, err error) {
	from, err := e.Open()
	if err != nil {
		return f, false, errUnreadable
	}
	defer from.Close()
	if f, err = stated(e, from); err != nil {
		return f, false, err
	}
	if f.Size > k.left { // not counting holes, which a file seldom has
		if info, err := from.Stat(); err != nil || allocated(info) > k.left {
			return f, false, errors.Join(err, errGrew)
		}
	}
	f.Blob = rand.Text()
	to, err := os.OpenFile(filepath.Join(k.dir, blobs, f.Blob), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return f, false, err
	}
	defer to.Close()
	f.Settled = k.set.now().Sub(time.Unix(0, f.Ctime)) > settleAfter
	if _, err := fsroot.Clone(to, from); err != nil {
		return f, false, err
	}
	info, err := to.Stat()
	if err != nil {
		return f, false, err
	}
	if k.left -= allocated(info); k.left < 0 {
		return f, false, errGrew
	}
	if now, err := stated(e, from); err != nil || !f.untouched(now) {
		return f, false, errors.Join(err, os.Remove(to.Name()))
	}
	return f, true, nil
}

// stated describes an entry as its open file is now.
func stated(e fsroot.Entry, f *os.File) (file, error) {
	info, err := f.Stat()
	if err != nil {
		return file{}, err
	}
	e.Info, e.Size, e.Mtime, e.Mode = info, info.Size(), info.ModTime().UnixNano(), e.Mode&^0o777|uint32(info.Mode().Perm())
	return describe(e), nil
}
