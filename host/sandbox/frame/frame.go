// Package frame is the protocol between the host and the supervisor inside a sandbox: length-prefixed frames over one byte stream, with
// flow control per stream so that a flood of output never delays control frames.
//
// Start with Frame, Reader and Writer; the bodies of control frames are in body.go, the flow control in window.go. A Reader treats every
// byte as hostile: each field is bounded, each end accepts only the types that its peer may send, and any violation is an error after which
// the stream must be closed. The package knows nothing of processes, files or containers.
package frame

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Limits of the wire format.
const (
	// MaxPayload bounds the payload of any frame, in bytes.
	MaxPayload = 256 << 10
	// MaxData bounds the payload of a Data frame, so that control frames are not delayed for long.
	MaxData = 64 << 10
	// MaxScript bounds a script; the kernel limits one argument to 128 KiB.
	MaxScript = 120 << 10
	// MaxPath bounds a path (PATH_MAX).
	MaxPath = 4096
	// MaxConnections bounds the connections that are open at the same time; the supervisor delays further ones.
	MaxConnections = 64
	// MaxDialed bounds the connections to ports inside that are open at the same time.
	MaxDialed = 64

	headerSize = 12
	// maxLinkBody bounds the frames about the connection itself: a few numbers, or two digests.
	maxLinkBody = 512
)

// Type is the type of a frame.
type Type uint8

// The types that the host sends, and the supervisor accepts.
const (
	Hello   Type = 1  // body HelloBody; the first frame, id 0
	Exec    Type = 2  // body ExecBody; opens the request
	Stop    Type = 3  // body StopBody; ends the request's command with escalating signals, or cancels a file request
	Signal  Type = 4  // body SignalBody; signals the request's process group
	Forget  Type = 5  // drops a finished background command's record
	Output  Type = 6  // body OutputBody; reads a background command's kept output
	Read    Type = 7  // body ReadBody
	Write   Type = 8  // body WriteBody; the content follows as Data on stream In
	List    Type = 9  // body ListBody
	Data    Type = 10 // both ways: bytes of a stream
	End     Type = 11 // both ways: no more bytes on the stream
	Credit  Type = 12 // both ways: body is a big-endian uint32, the number of further bytes allowed
	Sweep   Type = 13 // body SweepBody; ends what a finished background command left running
	Drop    Type = 14 // both ways: ends the connection; from the host, after what was sent is delivered
	Resize  Type = 15 // body Size; resizes the request's terminal
	Import  Type = 16 // body ImportBody; the records follow as Data on stream In
	Export  Type = 17 // body ExportBody
	Remove  Type = 18 // body RemoveBody
	Stat    Type = 19 // body StatBody
	Welcome Type = 20 // body WelcomeBody; answers Hello
	Started Type = 21 // body StartedBody; the command has a process
	Exit    Type = 22 // body ExitBody; closes an Exec request
	Reply   Type = 23 // body depends on the request; closes it
	Fail    Type = 24 // body FailBody; closes the request
	Connect Type = 25 // body ConnectBody; a program inside has connected; opens the connection
	Renew   Type = 30 // body RenewBody; renews the lease
	Adopt   Type = 31 // both ways: body AdoptBody; the first frames on a reopened control socket
	Pause   Type = 33 // body PauseBody
	Dial    Type = 34 // body DialBody; connects to a port inside; the streams In and Out are the connection, an empty Reply its end
	Dialed  Type = 35 // the connection that Dial requested is open
	Listen  Type = 36 // requests the ports on which programs listen; the body is empty, that of the Reply a ListenReply
	Kept    Type = 32 // requests the background commands; they come as KeptEntry, one per line, followed by an empty Reply
)

// connectionBit marks the ids of connections, which the supervisor opens: their streams are In, towards the program, and Out. Requests,
// which the host opens, have ids without it.
const connectionBit = 1 << 31

// ConnectionID returns the id of the n-th connection.
func ConnectionID(n uint32) uint32 { return n | connectionBit }

// IsConnection reports whether an id is that of a connection.
func IsConnection(id uint32) bool { return id&connectionBit != 0 }

// Streams of a request.
const (
	In  uint8 = 0
	Out uint8 = 1
	Err uint8 = 2

	streams = 3
)

// Side is the reading end. It decides which types are acceptable.
type Side uint8

// The two ends.
const (
	HostSide       Side = 1
	SupervisorSide Side = 2
)

const (
	// IdentityPath is where a supervisor that listens finds its identity.
	IdentityPath = "/.flynn-identity"
	// DefaultAddress is where it listens unless told otherwise.
	DefaultAddress = ":7443"
	// IdentityFromInput is an argument after the address: the identity comes over the standard input in place of the file, up to a zero byte.
	// The supervisor then writes NowListening. Further arguments are folders of its user that it lets everybody write to.
	IdentityFromInput = "-"
	NowListening      = "listening\n"
	// RelayWord is the argument that makes the supervisor's program connect its standard streams with the address that follows.
	RelayWord = "relay"
)

// ErrTaken means that the supervisor belongs to a host with a higher epoch.
var ErrTaken = errors.New("another host has taken this sandbox over")

// ErrProtocol is wrapped by every error that means that the peer violated the protocol.
var ErrProtocol = errors.New("sandbox protocol broken")

var errAfterEnd = fmt.Errorf("%w: data after the end of a stream", ErrProtocol)

// Frame is one unit on the wire: 4 bytes payload length, 1 byte type, 1 byte stream,
// 2 bytes zero, 4 bytes request id, all big endian, then the payload.
type Frame struct {
	Type    Type
	Stream  uint8
	ID      uint32
	Payload []byte
}

// accepts reports whether a frame of type t may arrive at side.
func (side Side) accepts(t Type) bool {
	switch t {
	case Data, End, Credit, Drop, Adopt:
		return true
	case Hello, Exec, Stop, Signal, Forget, Output, Read, Write, List, Sweep, Import, Export, Remove, Stat, Renew, Pause, Kept, Resize, Dial, Listen:
		return side == SupervisorSide
	case Welcome, Started, Exit, Reply, Fail, Connect, Dialed:
		return side == HostSide
	}
	return false
}

// check refuses a frame that a correct peer would not send to side.
func (f Frame) check(side Side, size uint32, zero uint16) error {
	switch {
	case !side.accepts(f.Type):
		return fmt.Errorf("%w: unexpected frame type %d", ErrProtocol, f.Type)
	case zero != 0:
		return fmt.Errorf("%w: reserved bytes are %#x", ErrProtocol, zero)
	case f.Stream >= streams:
		return fmt.Errorf("%w: stream %d", ErrProtocol, f.Stream)
	case f.Stream != 0 && !f.ofStream():
		return fmt.Errorf("%w: stream %d on frame type %d", ErrProtocol, f.Stream, f.Type)
	case (f.ID == 0) != f.ofLink():
		return fmt.Errorf("%w: request id %d on frame type %d", ErrProtocol, f.ID, f.Type)
	case f.ofConnection() != IsConnection(f.ID) && !f.ofStream():
		return fmt.Errorf("%w: id %#x on frame type %d", ErrProtocol, f.ID, f.Type)
	case size > maxPayload(f.Type):
		return fmt.Errorf("%w: payload of %d bytes on frame type %d", ErrProtocol, size, f.Type)
	case f.Type == Credit && size != 4, f.Type == Data && size == 0:
		return fmt.Errorf("%w: payload of %d bytes on frame type %d", ErrProtocol, size, f.Type)
	}
	return nil
}

// ofStream reports whether both requests and connections have frames of this type.
func (f Frame) ofStream() bool { return f.Type == Data || f.Type == End || f.Type == Credit }

// ofLink reports whether frames of this type belong to neither a request nor a connection.
func (f Frame) ofLink() bool {
	return f.Type == Hello || f.Type == Welcome || f.Type == Renew || f.Type == Pause || f.Type == Adopt
}

// ofConnection reports whether only connections have frames of this type.
func (f Frame) ofConnection() bool { return f.Type == Connect || f.Type == Drop }

func maxPayload(t Type) uint32 {
	switch t {
	case End, Forget, Drop, Kept, Dialed:
		return 0
	case Renew, Pause, Adopt, Connect, Dial, Listen:
		return maxLinkBody
	case Credit:
		return 4
	case Data:
		return MaxData
	}
	return MaxPayload
}

// Append appends the frame's wire form to dst. It panics if the payload is larger than the limit, which is a bug of the caller.
func (f Frame) Append(dst []byte) []byte {
	if len(f.Payload) > int(maxPayload(f.Type)) {
		panic(fmt.Sprintf("frame: payload of %d bytes on type %d", len(f.Payload), f.Type))
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(f.Payload)))
	dst = append(dst, byte(f.Type), f.Stream, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, f.ID)
	return append(dst, f.Payload...)
}

// Reader reads frames from a stream.
type Reader struct {
	src  io.Reader
	side Side
	buf  []byte
	// buf[start:end] is read ahead, so that several small frames cost one read.
	start, end int
}

// NewReader returns a Reader for the given end of the line.
func NewReader(src io.Reader, side Side) *Reader {
	return &Reader{src: src, side: side, buf: make([]byte, 16<<10)}
}

// Next returns the next frame. Its payload is valid until the next call. The error is io.EOF at a clean end and wraps ErrProtocol if the
// peer violated the protocol.
func (r *Reader) Next() (Frame, error) {
	if err := r.fill(headerSize); err != nil {
		return Frame{}, err
	}
	h := r.buf[r.start : r.start+headerSize]
	size := binary.BigEndian.Uint32(h)
	f := Frame{Type: Type(h[4]), Stream: h[5], ID: binary.BigEndian.Uint32(h[8:])}
	if err := f.check(r.side, size, binary.BigEndian.Uint16(h[6:])); err != nil {
		return Frame{}, err
	}
	if err := r.fill(headerSize + int(size)); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return Frame{}, err
	}
	f.Payload = r.buf[r.start+headerSize : r.start+headerSize+int(size)]
	r.start += headerSize + int(size)
	return f, nil
}

// Buffered returns how many bytes of further frames are read ahead.
func (r *Reader) Buffered() int { return r.end - r.start }

// fill makes at least n bytes available, growing the buffer up to one whole frame.
func (r *Reader) fill(n int) error {
	if r.end-r.start >= n {
		return nil
	}
	if r.start > 0 {
		r.end = copy(r.buf, r.buf[r.start:r.end])
		r.start = 0
	}
	if n > len(r.buf) {
		grown := make([]byte, headerSize+MaxPayload)
		copy(grown, r.buf[:r.end])
		r.buf = grown
	}
	got, err := io.ReadAtLeast(r.src, r.buf[r.end:], n-r.end)
	if err == io.EOF && r.end > 0 {
		err = io.ErrUnexpectedEOF
	}
	r.end += got
	return err
}
