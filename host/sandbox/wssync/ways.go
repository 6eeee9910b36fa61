package wssync

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"

	"github.com/flynnhost/flynn/host/sandbox/archive"
	"github.com/flynnhost/flynn/host/sandbox/frame"
	"github.com/flynnhost/flynn/host/sandbox/fsroot"
)

// errTooMuch ends a transfer that would fill the host's disk.
var errTooMuch = fmt.Errorf("more than %d bytes have changed", int64(maxCarried))

// fetch copies to the host what differs from the known state, in one exchange: the supervisor gets that state, and sends the content that
// differs.
func (c *Syncer) fetch(ctx context.Context, v Volume, home fsroot.Tree) error {
	now := make(map[string]frame.Record, len(c.known))
	var size int64
	changed := false
	body := frame.ExportBody{Path: []byte("."), Known: true, MaxFile: maxFile}
	began, err := export(ctx, v, body, bytes.NewReader(c.wire(c.unsettled)), func(r frame.Record, content io.Reader) error {
		name := string(r.Path)
		old, had := c.known[name]
		same := had && sameEntry(old, r)
		if r.Bare && !same {
			if had { // too large, or inaccessible to the workload's own user: the old version stays
				now[name] = old
			}
			return nil
		}
		r.Bare = false
		now[name] = r
		if same && (r.Type() != frame.TypeFile || !c.unsettled[name]) {
			return nil
		}
		if same {
			if content, same = unchanged(home, r, content); same {
				return nil
			}
			changed = true
		}
		if size += r.Size; size > maxCarried {
			return errTooMuch
		}
		return put(home, now, r, content)
	})
	if err != nil {
		return err
	}
	if err := c.drop(home, now); err != nil {
		return err
	}
	if changed || !c.knows(now) {
		c.seen.Store(c.set.changed(c.path, c.seen.Load()))
	}
	return c.remember(now, began)
}

// maxCompared bounds the size of files that are compared; larger ones are taken for changed.
const maxCompared = 1 << 20

// unchanged reports whether an unsettled file has the content that the host's has, and returns the content to read instead. A file that was
// changed on the host meanwhile stays as it is there.
func unchanged(home fsroot.Tree, r frame.Record, content io.Reader) (io.Reader, bool) {
	info, err := home.Root.Lstat(string(r.Path))
	if err != nil || !info.Mode().IsRegular() || info.Size() != r.Size || info.ModTime().UnixNano() != r.Mtime {
		return content, true
	}
	if r.Size > maxCompared {
		return content, false
	}
	inside, err := io.ReadAll(io.LimitReader(content, maxCompared))
	here, failed := home.Root.ReadFile(string(r.Path))
	return bytes.NewReader(inside), err == nil && failed == nil && bytes.Equal(inside, here)
}

// put puts an entry where it was inside. A folder above it may be missing, or be something else, because another container of the session has
// changed it meanwhile.
func put(home fsroot.Tree, now map[string]frame.Record, r frame.Record, content io.Reader) error {
	if !reachable(home, string(r.Path)) {
		var above []string
		for dir := path.Dir(string(r.Path)); dir != "."; dir = path.Dir(dir) {
			above = append(above, dir)
		}
		for _, dir := range slices.Backward(above) {
			if err := home.Put(now[dir], nil); err != nil {
				return err
			}
		}
	}
	return home.Put(r, content)
}

// reachable reports whether everything above a name is a folder. Through a link, another entry would be changed.
func reachable(home fsroot.Tree, name string) bool {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if info, err := home.Root.Lstat(dir); err != nil || !info.IsDir() {
			return false
		}
	}
	return true
}

// drop removes from the host what the volume does not have any more.
func (c *Syncer) drop(home fsroot.Tree, now map[string]frame.Record) error {
	for _, name := range topmost(c.known, func(name string) bool { _, is := now[name]; return !is }) {
		if !reachable(home, name) { // it went with the folder
			continue
		}
		if err := home.Root.RemoveAll(name); err != nil {
			return err
		}
	}
	return nil
}

// bring copies to the volume what differs on the host, and removes from it what both had and the host does not have any more.
func (c *Syncer) bring(ctx context.Context, v Volume, home fsroot.Tree) error {
	inside, _, err := contents(ctx, v)
	if err != nil {
		return err
	}
	here := make(map[string]frame.Record)
	err = home.Walk(ctx, func(e fsroot.Entry) error {
		here[string(e.Path)] = e.Record
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
		if err := v.Remove(ctx, name, true); err != nil {
			return err
		}
	}
	differs := func(r frame.Record) bool {
		old, is := inside[string(r.Path)]
		if !is || old.Type() != r.Type() {
			return true
		}
		known, had := c.known[string(r.Path)]
		return r.Type() != frame.TypeFolder && (!sameEntry(old, r) || had && !sameEntry(old, known))
	}
	if err := load(ctx, v, home, differs); err != nil {
		// Something that is not listed, such as a pipe, may be where an entry belongs.
		for _, name := range topmost(here, func(name string) bool { _, is := inside[name]; return !is }) {
			_ = v.Remove(ctx, name, true)
		}
		if err := load(ctx, v, home, differs); err != nil {
			return err
		}
	}
	inside, began, err := contents(ctx, v)
	if err != nil {
		return err
	}
	maps.DeleteFunc(inside, func(name string, _ frame.Record) bool { _, is := here[name]; return !is })
	return c.remember(inside, began)
}

// load sends the entries of a host folder that differ.
func load(ctx context.Context, v Volume, home fsroot.Tree, differs func(frame.Record) bool) error {
	return v.Import(ctx, ".", func(w io.Writer) error {
		out := bufio.NewWriterSize(w, frame.MaxData)
		err := home.Walk(ctx, func(e fsroot.Entry) error {
			if !differs(e.Record) {
				return nil
			}
			return e.Send(out)
		})
		if err != nil {
			return err
		}
		return out.Flush()
	})
}

// contents returns the records of everything in the volume, and when they were taken.
func contents(ctx context.Context, v Volume) (all map[string]frame.Record, began int64, err error) {
	all = make(map[string]frame.Record)
	began, err = export(ctx, v, frame.ExportBody{Path: []byte("."), Bare: true}, nil, func(r frame.Record, _ io.Reader) error {
		r.Bare = false
		all[string(r.Path)] = r
		return nil
	})
	return all, began, err
}

// export calls take for each record of the volume, and returns when it began.
func export(ctx context.Context, v Volume, body frame.ExportBody, known io.Reader, take func(r frame.Record, content io.Reader) error) (began int64, err error) {
	reply, err := v.Export(ctx, body, known, func(wire io.Reader) error { return archive.NewReader(wire).Each(take) })
	return reply.Began, err
}
