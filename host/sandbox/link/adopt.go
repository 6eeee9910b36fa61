package link

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// ErrStranger means that the connected peer is not the supervisor.
var ErrStranger = errors.New("it is not the supervisor")

// Adopt begins a conversation with a supervisor that another host has left: both ends prove that they know the secret, and the supervisor
// lists its background commands, at most most. Afterwards conn is as after Greet; pass each entry to Resume, and the reader to Serve. The
// error is frame.ErrTaken if a host with no lower epoch came before. conn is closed if it takes longer than patience; after another error the
// caller closes it.
func Adopt(conn io.ReadWriteCloser, patience time.Duration, secret []byte, epoch uint64, most int) (*frame.Reader, []frame.KeptEntry, error) {
	late := time.AfterFunc(patience, func() { conn.Close() })
	defer late.Stop()
	reader, out := frame.NewReader(conn, frame.HostSide), frame.NewWriter(conn)
	if err := prove(reader, out, secret, epoch); err != nil {
		return nil, nil, err
	}
	entries, err := askKept(reader, out, most)
	if err == nil && !late.Stop() {
		err = os.ErrDeadlineExceeded
	}
	return reader, entries, err
}

// prove sends a challenge, checks the answer, and answers the peer's challenge.
func prove(reader *frame.Reader, out *frame.Writer, secret []byte, epoch uint64) error {
	x := frame.Exchange{Host: frame.AdoptBody{Challenge: make([]byte, frame.SecretSize), Epoch: epoch}}
	rand.Read(x.Host.Challenge) // never fails; see its documentation
	send := func(b frame.AdoptBody) error {
		return out.Send(frame.Frame{Type: frame.Adopt, Payload: frame.Encode(b)})
	}
	if err := send(x.Host); err != nil {
		return err
	}
	f, err := reader.Next()
	if err != nil {
		return err
	}
	if f.Type != frame.Adopt {
		return ErrStranger
	}
	if err := frame.Decode(f.Payload, &x.Supervisor); err != nil {
		return err
	}
	if !frame.SupervisorSide.Proven(x.Supervisor.Proof, secret, x) {
		return ErrStranger
	}
	if x.Taken() {
		return frame.ErrTaken
	}
	return send(frame.AdoptBody{Proof: frame.HostSide.Prove(secret, x)})
}

// maxKept bounds the wire form of one background command.
const maxKept = 2*frame.MaxScript + 1<<10

// keptID is the id of the request for the background commands. It is larger than the ids of commands, and free again afterwards.
const keptID = 1<<31 - 1

// askKept requests the background commands before any other frame.
func askKept(reader *frame.Reader, out *frame.Writer, most int) ([]frame.KeptEntry, error) {
	if err := out.Send(frame.Frame{Type: frame.Kept, ID: keptID}); err != nil {
		return nil, err
	}
	inbox := frame.NewInbox(make(chan struct{}, 1))
	var lines bytes.Buffer
	for {
		f, err := reader.Next()
		switch {
		case err != nil:
			return nil, err
		case f.ID != keptID:
			return nil, fmt.Errorf("%w: frame type %d before the list of commands", frame.ErrProtocol, f.Type)
		case f.Type == frame.Reply:
			return parseKept(&lines, most)
		case f.Type != frame.Data || f.Stream != frame.Out || lines.Len()+len(f.Payload) > most*maxKept:
			return nil, fmt.Errorf("%w: frame type %d in the list of commands", frame.ErrProtocol, f.Type)
		}
		if err := inbox.Put(f.Payload); err != nil {
			return nil, err
		}
		p, credit, _ := inbox.Take()
		lines.Write(p)
		if credit == nil {
			continue
		}
		if err := out.Send(frame.Frame{Type: frame.Credit, Stream: frame.Out, ID: keptID, Payload: credit}); err != nil {
			return nil, err
		}
	}
}

// parseKept parses one frame.KeptEntry per line.
func parseKept(lines io.Reader, most int) ([]frame.KeptEntry, error) {
	var entries []frame.KeptEntry
	requests, numbers := map[uint32]bool{}, map[int]bool{}
	d := json.NewDecoder(lines)
	d.DisallowUnknownFields()
	for {
		var e frame.KeptEntry
		err := d.Decode(&e)
		if err == io.EOF {
			return entries, nil
		}
		if err == nil {
			err = checkKept(e)
		}
		if err != nil || requests[e.Request] || numbers[e.Process] || len(entries) >= most {
			return nil, fmt.Errorf("%w: malformed list of commands: %w", frame.ErrProtocol, errors.Join(err))
		}
		requests[e.Request], numbers[e.Process] = true, true
		entries = append(entries, e)
	}
}

// maxNumber bounds the numbers of background commands.
const maxNumber = 1 << 30

func checkKept(e frame.KeptEntry) error {
	switch {
	case e.Request == 0 || e.Request >= keptID:
		return fmt.Errorf("request %#x", e.Request)
	case e.Process < 0 || e.Process > maxNumber:
		return fmt.Errorf("process %d", e.Process)
	case e.PID <= 1:
		return fmt.Errorf("process id %d", e.PID)
	case len(e.Script) > frame.MaxScript:
		return fmt.Errorf("command of %d bytes", len(e.Script))
	case e.Started <= 0:
		return fmt.Errorf("start at %d", e.Started)
	case e.Exit != nil:
		return checkExit(*e.Exit)
	}
	return nil
}

// Resume registers a background command of an adopted supervisor. It must be called before Serve.
func (l *Link) Resume(e frame.KeptEntry) *Call {
	c := l.NewCall()
	c.id, c.isStarted = e.Request, true
	c.begun.Store(true)
	l.next = max(l.next, e.Request)
	if e.Exit != nil {
		c.finish(answer{exit: e.Exit})
	} else {
		l.calls[c.id] = c
	}
	return c
}
