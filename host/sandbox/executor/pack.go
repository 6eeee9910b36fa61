package executor

import (
	"context"
	"fmt"
	"io"

	"github.com/flynnhost/flynn/host/sandbox/archive"
	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// Unpack lets the supervisor unpack the records that write writes.
func (x *Executor) Unpack(ctx context.Context, name string, write func(io.Writer) (archive.Tally, error)) (archive.Tally, error) {
	var tally archive.Tally
	err := x.link.Import(ctx, name, func(w io.Writer) (err error) {
		tally, err = write(w)
		return err
	})
	if err != nil {
		return archive.Tally{}, fmt.Errorf("unpack into %s: %w", name, err)
	}
	return tally, nil
}

// Pack passes the records of a folder to take one by one, except for git hooks. Each fits to those before it; content is valid during the
// call.
func (x *Executor) Pack(ctx context.Context, name string, hooks *archive.Hooks, take func(r frame.Record, content io.Reader) error) (archive.Tally, error) {
	var tally archive.Tally
	reply, err := x.link.Export(ctx, frame.ExportBody{Path: []byte(name)}, nil, func(wire io.Reader) error {
		return archive.NewReader(wire).Each(func(r frame.Record, content io.Reader) error {
			if hooks != nil && hooks.Has(r) {
				tally.Leave(string(r.Path), archive.Hook)
				return nil
			}
			tally.Count(r)
			return take(r, content)
		})
	})
	for _, path := range reply.Special {
		tally.Leave(string(path), archive.Special)
	}
	for _, path := range reply.Closed {
		tally.Leave(string(path), archive.Closed)
	}
	tally.Skipped += max(0, reply.Skipped-int64(len(reply.Special)+len(reply.Closed)))
	tally.Torn = reply.Torn
	return tally, err
}
