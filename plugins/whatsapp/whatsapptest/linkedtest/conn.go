package linkedtest

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"context"
	"crypto/cipher"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/coder/websocket"
	"go.mau.fi/whatsmeow/binary"
	"go.mau.fi/whatsmeow/binary/token"
	"go.mau.fi/whatsmeow/proto/waWa6"
	"google.golang.org/protobuf/proto"
)

const (
	maxFrame   = 1 << 20 // bytes, also of a decompressed frame
	longFrame  = 1 << 10 // bytes; from here on the server compresses, so that both forms are spoken
	compressed = 2       // the flag in front of a frame
	patience   = time.Minute
	linger     = 5 * time.Second // for a client to leave by itself
	idle       = 2 * time.Minute // a client shows every half a minute that it lives
)

// header is what a client says first: WhatsApp, the version of the protocol, and the one of its dictionary of words.
var header = [4]byte{'W', 'A', 6, token.DictVersion}

// conn is one connection of a client. Only the goroutine that serves it reads; any may write.
type conn struct {
	socket  *websocket.Conn
	net     net.Conn // over socket
	buf     *bufio.Reader
	done    chan struct{} // closed when it is over
	static  [32]byte
	payload *waWa6.ClientPayload
	in      cipher.AEAD
	inCount uint32

	writing  sync.Mutex
	out      cipher.AEAD
	outCount uint32

	device *device  // nil until it is logged in; guarded by Server.mu, like all below
	active bool     // it has requested the messages that wait for it
	refs   []string // of the codes that it shows
	asked  string   // id of the stanza that gave it an identity, which it has to sign
}

func newConn(ctx context.Context, socket *websocket.Conn) *conn {
	n := websocket.NetConn(ctx, socket, websocket.MessageBinary)
	return &conn{socket: socket, net: n, buf: bufio.NewReader(n), done: make(chan struct{})}
}

// greet reads the header, and refuses every other version.
func (c *conn) greet() ([]byte, error) {
	var got [len(header)]byte
	if err := c.net.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(c.buf, got[:]); err != nil {
		return nil, fmt.Errorf("read the header: %w", err)
	}
	if got != header {
		return nil, fmt.Errorf("the header is %q, want %q", got, header)
	}
	return got[:], nil
}

// readFrame reads one frame: three bytes of length, most significant first, and as many bytes.
func readFrame(r io.Reader) ([]byte, error) {
	var length [3]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	n := int(length[0])<<16 | int(length[1])<<8 | int(length[2])
	if n == 0 || n > maxFrame {
		return nil, fmt.Errorf("a frame of %d bytes, want 1 to %d", n, maxFrame)
	}
	frame := make([]byte, n)
	_, err := io.ReadFull(r, frame)
	return frame, err
}

func (c *conn) writeFrame(frame []byte) error {
	if len(frame) > maxFrame {
		return fmt.Errorf("a frame of %d bytes, want at most %d", len(frame), maxFrame)
	}
	if err := c.net.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	n := len(frame)
	_, err := c.net.Write(append([]byte{byte(n >> 16), byte(n >> 8), byte(n)}, frame...))
	return err
}

func (c *conn) readProto(m proto.Message) error {
	frame, err := readFrame(c.buf)
	if err != nil {
		return err
	}
	return proto.Unmarshal(frame, m)
}

func (c *conn) writeProto(m proto.Message) error {
	frame, err := proto.Marshal(m)
	if err != nil {
		return err
	}
	return c.writeFrame(frame)
}

// read reads the next stanza.
func (c *conn) read() (*binary.Node, error) {
	if err := c.net.SetReadDeadline(time.Now().Add(idle)); err != nil {
		return nil, err
	}
	frame, err := readFrame(c.buf)
	if err != nil {
		return nil, err
	}
	plain, err := c.in.Open(nil, nonceOf(c.inCount), frame, nil)
	if err != nil {
		return nil, fmt.Errorf("open frame %d: %w", c.inCount, err)
	}
	c.inCount++
	return parse(plain)
}

// parse reads a stanza: a flag, and binary XML behind it. The library's reader panics at some that are wrong.
func parse(frame []byte) (node *binary.Node, err error) {
	defer func() {
		if p := recover(); p != nil {
			node, err = nil, fmt.Errorf("read a stanza: %v", p)
		}
	}()
	if len(frame) == 0 {
		return nil, errors.New("an empty frame")
	}
	flags, body := frame[0], frame[1:]
	if flags&compressed != 0 {
		z, err := zlib.NewReader(bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		if body, err = io.ReadAll(io.LimitReader(z, maxFrame+1)); err != nil {
			return nil, err
		}
		if len(body) > maxFrame {
			return nil, errors.New("a frame that grows beyond all bounds")
		}
	}
	return binary.Unmarshal(body)
}

// pack is the other direction.
func pack(node binary.Node) ([]byte, error) {
	plain, err := binary.Marshal(node)
	if err != nil || len(plain) < longFrame {
		return plain, err
	}
	packed := bytes.NewBuffer([]byte{compressed})
	z := zlib.NewWriter(packed)
	_, err = z.Write(plain[1:])
	return packed.Bytes(), errors.Join(err, z.Close())
}

// send sends a stanza. A connection that breaks is noticed by its reader.
func (c *conn) send(node binary.Node) {
	frame, err := pack(node)
	if err != nil {
		panic(fmt.Sprintf("linkedtest: write %s: %v", node.Tag, err)) // the fake's own mistake
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	_ = c.writeFrame(c.out.Seal(nil, nonceOf(c.outCount), frame, nil))
	c.outCount++
}

// cut breaks the connection. The last frames may be lost.
func (c *conn) cut() { _ = c.socket.CloseNow() }

// end ends the connection when the client has read everything. It waits for the client.
func (c *conn) end() { _ = c.socket.Close(websocket.StatusNormalClosure, "") }

// serve reads stanzas until the connection ends.
func (s *Server) serve(ctx context.Context, c *conn) {
	defer s.gone(c)
	prologue, err := c.greet()
	if err == nil {
		err = c.handshake(prologue, s.static)
	}
	if err != nil {
		s.refused(err)
		return
	}
	s.admit(c)
	for ctx.Err() == nil {
		node, err := c.read()
		if err != nil {
			return
		}
		s.take(c, node)
	}
}
