package wssync

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"

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
	body := frame.ExportBody{Path: []byte("."), Known: true, MaxFile: maxFile}
	err := export(ctx, v, body, bytes.NewReader(c.wire()), func(r frame.Record, content io.Reader) error {
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
		if same {
			return nil
		}
		if size += r.Size; size > maxCarried {
			return errTooMuch
		}
		return home.Put(r, content)
	})
	if err != nil {
		return err
	}
	if err := c.drop(home, now); err != nil {
		return err
	}
	if !c.knows(now) {
		c.seen.Store(c.set.changed(c.path, c.seen.Load()))
	}
	return c.remember(now)
}

// drop removes from the host what the volume does not have any more.
func (c *Syncer) drop(home fsroot.Tree, now map[string]frame.Record) error {
	for _, name := range topmost(c.known, func(name string) bool { _, is := now[name]; return !is }) {
		if err := home.Root.RemoveAll(name); err != nil {
			return err
		}
	}
	return nil
}

// bring copies to the volume what differs on the host, and removes from it what both had and the host does not have any more.
func (c *Syncer) bring(ctx context.Context, v Volume, home fsroot.Tree) error {
	inside, err := contents(ctx, v)
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
		return !is || old.Type() != r.Type() || r.Type() != frame.TypeFolder && !sameEntry(old, r)
	}
	if err := load(ctx, v, home, differs); err != nil {
		return err
	}
	if inside, err = contents(ctx, v); err != nil {
		return err
	}
	maps.DeleteFunc(inside, func(name string, _ frame.Record) bool { _, is := here[name]; return !is })
	return c.remember(inside)
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

// contents returns the records of everything in the volume.
func contents(ctx context.Context, v Volume) (map[string]frame.Record, error) {
	all := make(map[string]frame.Record)
	err := export(ctx, v, frame.ExportBody{Path: []byte("."), Bare: true}, nil, func(r frame.Record, _ io.Reader) error {
		r.Bare = false
		all[string(r.Path)] = r
		return nil
	})
	return all, err
}

// export calls take for each record of the volume.
func export(ctx context.Context, v Volume, body frame.ExportBody, known io.Reader, take func(r frame.Record, content io.Reader) error) error {
	_, err := v.Export(ctx, body, known, func(wire io.Reader) error { return archive.NewReader(wire).Each(take) })
	return err
}
