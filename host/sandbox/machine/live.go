package machine

import (
	"context"
	"io"
)

// Live is a process that somebody is talking to. Nothing that it writes is lost or capped, and it is held up when nobody reads.
// Close it, whatever happens; that ends it with everything it started.
type Live struct {
	Stdin          io.WriteCloser
	Stdout, Stderr io.Reader
	// Wait waits for the verdict, which comes when the process has ended and its output has been read.
	Wait  func(ctx context.Context) (Result, error)
	Close func() error
}

// Talker is a Machine whose processes can be talked to while they run. The end of ctx, or the command's Timeout, ends the process with
// everything it started, and the verdict says how.
type Talker interface {
	Talk(ctx context.Context, cmd Command) (*Live, error)
}
