package link

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/flynnhost/flynn/host/sandbox/frame"
	"github.com/flynnhost/flynn/host/sandbox/machine"
)

// Call is one open request. Only those for commands leave the package. The link's goroutine delivers to it without blocking. The owner
// takes from the inboxes whenever notify fires, until done is closed.
type Call struct {
	link   *Link
	id     uint32      // set before begun is
	begun  atomic.Bool // the supervisor has received it
	notify chan struct{}
	inbox  [2]*frame.Inbox   // stdout, stderr
	credit *frame.SendWindow // for stdin
	done   chan struct{}
	answer answer // valid once done is closed

	// room is the number of bytes that each stream may still deliver; only the link's goroutine uses it.
	room [2]int64

	dialed chan struct{} // closed once the connection that it stands for is open; nil for other calls

	// The remaining fields are used by commands.
	isCommand bool
	isStarted bool // only the link's goroutine uses it
	started   chan frame.StartedBody
	input     sync.WaitGroup // waits for the goroutine that sends its stdin
	limit     int64          // of each stream's output
	spill     bool
}

// answer is the end of a call.
type answer struct {
	exit  *frame.ExitBody
	reply []byte
	err   error
}

// newCall returns a call whose streams may deliver room bytes each.
func (l *Link) newCall(room int64) *Call {
	notify := make(chan struct{}, 1)
	return &Call{
		link:   l,
		notify: notify,
		inbox:  [2]*frame.Inbox{frame.NewInbox(notify), frame.NewInbox(notify)},
		room:   [2]int64{room, room},
		credit: frame.NewSendWindow(),
		done:   make(chan struct{}),
	}
}

func (c *Call) receive(stream uint8, p []byte) error {
	if stream != frame.Out && stream != frame.Err {
		return fmt.Errorf("%w: data on stream %d", frame.ErrProtocol, stream)
	}
	i := stream - frame.Out
	if c.room[i] -= int64(len(p)); c.room[i] < 0 {
		return fmt.Errorf("%w: more output than was asked for", frame.ErrProtocol)
	}
	return c.inbox[i].Put(p)
}

func (c *Call) start(p []byte) error {
	var b frame.StartedBody
	if err := frame.Decode(p, &b); err != nil {
		return err
	}
	if b.PID <= 1 || c.isStarted || !c.isCommand {
		return fmt.Errorf("%w: started twice or as process %d", frame.ErrProtocol, b.PID)
	}
	c.isStarted = true
	c.started <- b
	return nil
}

// connected handles the news that a connection is open. Only the link's goroutine closes the channel.
func (c *Call) connected() error {
	if c.dialed == nil {
		return fmt.Errorf("%w: a connection that was not asked for", frame.ErrProtocol)
	}
	select {
	case <-c.dialed:
		return fmt.Errorf("%w: a connection that opens twice", frame.ErrProtocol)
	default:
		close(c.dialed)
		return nil
	}
}

func (c *Call) finish(a answer) {
	c.answer = a
	c.credit.Close() // stdin is not read any more
	for _, b := range c.inbox {
		b.End()
	}
	close(c.done)
}

// isOver reports whether the answer has arrived.
func (c *Call) isOver() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// maxReply bounds the body of a Reply, which is always a few numbers.
const maxReply = 4 << 10

// decode decodes the frame that ends the call: a result for a command, a reply for anything else, or a failure.
func (c *Call) decode(f frame.Frame) (answer, error) {
	switch {
	case f.Type == frame.Fail:
		var b frame.FailBody
		if err := frame.Decode(f.Payload, &b); err != nil {
			return answer{}, err
		}
		return answer{err: failure(b)}, nil
	case c.isCommand != (f.Type == frame.Exit):
		return answer{}, fmt.Errorf("%w: a command without a result, or a result of something else", frame.ErrProtocol)
	case f.Type == frame.Exit:
		var b frame.ExitBody
		if err := frame.Decode(f.Payload, &b); err != nil {
			return answer{}, err
		}
		return answer{exit: &b}, checkExit(b)
	case len(f.Payload) > maxReply:
		return answer{}, fmt.Errorf("%w: reply of %d bytes", frame.ErrProtocol, len(f.Payload))
	}
	return answer{reply: append([]byte(nil), f.Payload...)}, nil
}

// maxMessage bounds the part of a failure's message that is passed on.
const maxMessage = 1 << 10

// pidsError is the error of a command for which the process limit left no room.
type pidsError struct{ message string }

func (e pidsError) Error() string { return e.message }

// failure converts a Fail frame to the corresponding error.
func failure(b frame.FailBody) error {
	message := b.Message[:min(len(b.Message), maxMessage)]
	kinds := map[frame.Code]error{
		frame.NotFound:   machine.ErrNotFound,
		frame.Outside:    machine.ErrOutside,
		frame.NotRegular: machine.ErrNotRegular,
		frame.TooLarge:   machine.ErrTooLarge,
	}
	switch b.Code {
	case frame.NoProcess:
		return pidsError{message}
	case frame.DiskFull:
		return machine.ErrFull
	}
	if kind := kinds[b.Code]; kind != nil {
		return fmt.Errorf("%w (%q)", kind, message)
	}
	return fmt.Errorf("in the sandbox: %q", message)
}

// push sends p on stream In of a call or a connection, as credit and ctx allow, and returns how much was sent.
func (l *Link) push(ctx context.Context, id uint32, credit *frame.SendWindow, p []byte) (sent int, err error) {
	for sent < len(p) {
		n, err := credit.Take(ctx, min(len(p)-sent, frame.MaxData))
		if err != nil {
			return sent, err
		}
		if err := l.send(frame.Frame{Type: frame.Data, Stream: frame.In, ID: id, Payload: p[sent : sent+n]}); err != nil {
			return sent, err
		}
		sent += n
	}
	return sent, nil
}

// endInput ends stream In of a call.
func (c *Call) endInput() error {
	return c.link.send(frame.Frame{Type: frame.End, Stream: frame.In, ID: c.id})
}

// grant allows the other end to send more on a stream.
func (l *Link) grant(id uint32, stream uint8, credit []byte) error {
	return l.send(frame.Frame{Type: frame.Credit, Stream: stream, ID: id, Payload: credit})
}
