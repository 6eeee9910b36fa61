package link

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// Import has the supervisor unpack the records (frame.Record) that write writes below a folder, all of them or none.
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
	if err == nil || errors.Is(err, frame.ErrClosed) { // the supervisor wants no more; its reply says why
		err = f.finish(ctx, nil, &struct{}{})
	}
	return err
}

// Export hands the records of a folder to read, as they are on the wire. known, if not nil, are the records that need no content
// if they are still true. An error of read's that wraps frame.ErrProtocol ends the link like any other breach.
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
		return reply, l.checked(fmt.Errorf("%w: more entries are named than may be", frame.ErrProtocol))
	}
	reply.Skipped, reply.Torn = max(reply.Skipped, 0), max(reply.Torn, 0)
	return reply, err
}

// flowWriter is a flow's stream In. It need not be buffered for speed if it gets large pieces.
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

// flowReader is a flow's stream Out.
type flowReader struct {
	f    *flow
	ctx  context.Context
	rest []byte // come, but not read yet
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
