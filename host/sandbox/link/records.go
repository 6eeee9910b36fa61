package link

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// Import makes the supervisor unpack the records (frame.Record) that write writes below a folder, all of them or none.
func (l *Link) Import(ctx context.Context, name string, write func(io.Writer) error) error {
	f, err := l.open(ctx, frame.Import, frame.ImportBody{Path: []byte(name)}, 0)
	if err != nil {
		return err
	}
	defer f.close()
	err = write(flowWriter{f, ctx})
	if err == nil {
		err = f.call.endInput()
	}
	if err == nil || errors.Is(err, frame.ErrClosed) { // the supervisor refuses more; its reply says why
		err = f.finish(ctx, nil, &struct{}{})
	}
	return err
}

// Export passes the records of a folder to read in their wire form. known, if not nil, are records whose content is not needed if they
// still match. If read returns an error that wraps frame.ErrProtocol, the link ends.
func (l *Link) Export(ctx context.Context, body frame.ExportBody, known io.Reader, read func(io.Reader) error) (frame.ExportReply, error) {
	f, err := l.open(ctx, frame.Export, body, endless)
	if err != nil {
		return frame.ExportReply{}, err
	}
	defer f.close()
	if known != nil {
		if err := f.send(ctx, known); err != nil {
			return frame.ExportReply{}, err
		}
	}
	if err := read(&flowReader{f: f, ctx: ctx}); err != nil {
		return frame.ExportReply{}, l.checked(err)
	}
	var reply frame.ExportReply
	err = f.finish(ctx, nil, &reply)
	if err == nil && (len(reply.Special) > frame.MaxLeft || len(reply.Closed) > frame.MaxLeft) {
		return reply, l.checked(fmt.Errorf("%w: too many entries in the lists of an export", frame.ErrProtocol))
	}
	reply.Skipped, reply.Torn = max(reply.Skipped, 0), max(reply.Torn, 0)
	return reply, err
}

// flowWriter writes to a flow's stream In. It needs no buffer if the pieces are large.
type flowWriter struct {
	f   *flow
	ctx context.Context
}

func (w flowWriter) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		n := min(len(rest), frame.MaxData)
		if err := w.f.push(w.ctx, rest[:n]); err != nil {
			return len(p) - len(rest), err
		}
		rest = rest[n:]
	}
	return len(p), nil
}

// flowReader reads a flow's stream Out.
type flowReader struct {
	f    *flow
	ctx  context.Context
	rest []byte // received but not read yet
}

func (r *flowReader) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		var err error
		if r.rest, err = r.f.next(r.ctx); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}
