package sandbox

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// carry keeps a session's folder on the host and its volume on an engine elsewhere the same, through the frames. The
// host's folder is the workspace that lasts; the volume is where commands work on it.
//
// What both had last is remembered, over restarts too. So whatever differs in the volume was written by commands, and is
// brought home first; whatever then differs on the host was changed there while no container ran, and goes into the volume.
type carry struct {
	path   string // of the host's folder
	memory string // of the file with what is known
	log    *slog.Logger

	turn  chan struct{}           // holds a token while somebody carries
	known map[string]frame.Record // what both had last, as the volume describes it; nil: not read yet. The turn's
}

const (
	// carryTimeout bounds one way of all that has changed.
	carryTimeout = 10 * time.Minute
	// maxCarried bounds the bytes that come home at a time, maxCarriedFile those of one file. A larger one stays in the
	// volume.
	maxCarriedFile = 1 << 30
	maxCarried     = 16 << 30
	carryPrefix    = "carry-"
)

// carries are the carriers of the sessions; sandboxes of one session share theirs, as they share the workspace.
type carries struct {
	mu  sync.Mutex
	all map[string]*carry
}

// of returns the session's carrier.
func (cs *carries) of(session, folder, run string, log *slog.Logger) *carry {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.all == nil {
		cs.all = make(map[string]*carry)
	}
	if cs.all[session] == nil {
		cs.all[session] = &carry{
			path: folder, memory: filepath.Join(run, carryPrefix+filepath.Base(folder)), log: log, turn: make(chan struct{}, 1),
		}
	}
	return cs.all[session]
}

// locked does something that nobody else of the session does at the same time.
func (c *carry) locked(ctx context.Context, do func(ctx context.Context, home folder) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), carryTimeout)
	defer cancel()
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-c.turn }()
	root, err := os.OpenRoot(c.path)
	if err != nil {
		return err
	}
	defer root.Close()
	home := folder{root: root, mirror: true}
	if os.Geteuid() == 0 {
		home.owner = &owner{workloadID, workloadID}
	}
	return do(ctx, home)
}

// begin makes both the same before the first command of a container runs.
func (c *carry) begin(ctx context.Context, b *box) error {
	if c == nil {
		return nil
	}
	err := c.locked(ctx, func(ctx context.Context, home folder) error {
		if c.recall() {
			if err := c.fetch(ctx, b, home); err != nil {
				return err
			}
		}
		return c.bring(ctx, b, home)
	})
	if err != nil {
		return fmt.Errorf("carry the workspace to the sandbox: %w", err)
	}
	return nil
}

// settle brings home what has changed inside. A failure loses nothing: the volume keeps it for the next time.
func (c *carry) settle(ctx context.Context, b *box) {
	if c == nil || b.link.isDead() {
		return
	}
	if err := c.locked(ctx, func(ctx context.Context, home folder) error { return c.fetch(ctx, b, home) }); err != nil {
		c.log.Warn("workspace could not be brought home; it is tried again", "container", b.id, "error", err)
	}
}

// errTooMuch ends a transport that would fill the host's disk.
var errTooMuch = fmt.Errorf("more than %d bytes have changed", int64(maxCarried))

// fetch brings home what differs from what is known, in one exchange: the supervisor learns what is known, and sends the
// content of what is not.
func (c *carry) fetch(ctx context.Context, b *box, home folder) error {
	now := make(map[string]frame.Record, len(c.known))
	var size int64
	body := frame.ExportBody{Path: []byte("."), Known: true, MaxFile: maxCarriedFile}
	_, err := b.pack(ctx, body, c.wire(), func(r frame.Record, content io.Reader) error {
		name := string(r.Path)
		old, had := c.known[name]
		same := had && sameEntry(old, r)
		if r.Bare && !same {
			if had { // too large, or closed to the workload's own user: the old one stays
				now[name] = old
			}
			return nil
		}
		r.Bare = false
		now[name] = r
		if same {
			return nil
		}
		if size += r.Size; size > maxCarried {
			return errTooMuch
		}
		return home.put(r, content)
	})
	if err != nil {
		return err
	}
	if err := c.drop(home, now); err != nil {
		return err
	}
	return c.remember(now)
}

// drop removes from the host what the volume has no more.
func (c *carry) drop(home folder, now map[string]frame.Record) error {
	for _, name := range topmost(c.known, func(name string) bool { _, is := now[name]; return !is }) {
		if err := home.root.RemoveAll(name); err != nil {
			return err
		}
	}
	return nil
}

// bring puts into the volume what differs on the host, and removes there what both had and the host has no more.
func (c *carry) bring(ctx context.Context, b *box, home folder) error {
	inside, err := b.contents(ctx)
	if err != nil {
		return err
	}
	here := make(map[string]frame.Record)
	err = home.walk(ctx, ".", func(r frame.Record, _ func() (*os.File, error)) error {
		here[string(r.Path)] = r
		return nil
	})
	if err != nil {
		return err
	}
	gone := topmost(inside, func(name string) bool {
		r, is := here[name]
		_, had := c.known[name]
		return !is && had || is && r.Type() != inside[name].Type()
	})
	for _, name := range gone {
		body := frame.RemoveBody{Path: []byte(name), All: true}
		if err := b.transfer(ctx, request{typ: frame.Remove, body: body, reply: &struct{}{}}); err != nil {
			return fmt.Errorf("remove %s: %w", name, err)
		}
	}
	differs := func(r frame.Record) bool {
		old, is := inside[string(r.Path)]
		return !is || old.Type() != r.Type() || r.Type() != frame.TypeFolder && !sameEntry(old, r)
	}
	if err := b.load(ctx, home, differs); err != nil {
		return err
	}
	if inside, err = b.contents(ctx); err != nil {
		return err
	}
	maps.DeleteFunc(inside, func(name string, _ frame.Record) bool { _, is := here[name]; return !is })
	return c.remember(inside)
}

// load sends the entries of a folder of the host that differ.
func (b *box) load(ctx context.Context, home folder, differs func(frame.Record) bool) error {
	_, err := b.unpack(ctx, ".", func(w io.Writer) (Tally, error) {
		out := bufio.NewWriterSize(w, frame.MaxData)
		err := home.walk(ctx, ".", func(r frame.Record, content func() (*os.File, error)) error {
			if !differs(r) {
				return nil
			}
			return home.send(out, r, content)
		})
		if err == nil {
			err = out.Flush()
		}
		return Tally{}, err
	})
	return err
}

// contents describes everything in the workspace as the container has it.
func (b *box) contents(ctx context.Context) (map[string]frame.Record, error) {
	all := make(map[string]frame.Record)
	_, err := b.pack(ctx, frame.ExportBody{Path: []byte("."), Bare: true}, nil, func(r frame.Record, _ io.Reader) error {
		r.Bare = false
		all[string(r.Path)] = r
		return nil
	})
	return all, err
}

// sameEntry says whether two descriptions are of the same entry in the same state. A folder's times change with what is in
// it, and a link's with nothing that matters.
func sameEntry(a, b frame.Record) bool {
	if a.Type() != b.Type() || a.Size != b.Size || !bytes.Equal(a.Link, b.Link) {
		return false
	}
	switch a.Type() {
	case frame.TypeLink:
		return true
	case frame.TypeFolder:
		return a.Mode&0o777 == b.Mode&0o777
	}
	return a.Mode&0o777 == b.Mode&0o777 && a.Mtime == b.Mtime
}

// topmost returns the names that such says yes to, without those below another one of them.
func topmost(all map[string]frame.Record, such func(name string) bool) []string {
	var chosen []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if such(name) && !below(name, chosen) {
			chosen = append(chosen, name)
		}
	}
	return chosen
}

func below(name string, folders []string) bool {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if _, is := slices.BinarySearch(folders, dir); is {
			return true
		}
	}
	return false
}

// wire is what is known, as the supervisor reads it.
func (c *carry) wire() io.Reader {
	var wire []byte
	for _, name := range slices.Sorted(maps.Keys(c.known)) {
		r := c.known[name]
		r.Bare = true
		wire = r.Append(wire)
	}
	return bytes.NewReader(wire)
}

// recall reads what was known when this host, or the one before it, carried last. It says whether anything was.
func (c *carry) recall() bool {
	if c.known != nil {
		return true
	}
	f, err := os.Open(c.memory)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			c.log.Warn("what a workspace held last is not known", "error", err)
		}
		return false
	}
	defer f.Close()
	known := make(map[string]frame.Record)
	in := frame.NewRecordReader(f)
	for {
		r, err := in.Next()
		if err == io.EOF {
			c.known = known
			return true
		}
		if err != nil {
			c.log.Warn("what a workspace held last is not known", "error", err)
			return false
		}
		known[string(r.Path)] = r
	}
}

// remember keeps what both have now. Were it lost, the host's state would win at the next launch.
func (c *carry) remember(now map[string]frame.Record) error {
	changed := c.known == nil || !maps.EqualFunc(c.known, now, func(a, b frame.Record) bool { return sameEntry(a, b) && a.Mtime == b.Mtime })
	c.known = now
	if !changed {
		return nil
	}
	draft, err := os.CreateTemp(filepath.Dir(c.memory), "memory-*")
	if err != nil {
		return err
	}
	_, err = io.Copy(draft, c.wire())
	err = cmp.Or(err, draft.Close())
	if err == nil {
		err = os.Rename(draft.Name(), c.memory)
	}
	if err != nil {
		os.Remove(draft.Name())
	}
	return err
}
