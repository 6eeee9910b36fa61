//go:build linux

package supervise

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

const (
	// proxyPort is the port of the proxy; the loopback interface belongs to the container.
	proxyPort = 3128
	// acceptPause is the delay after a failure to accept, for example for lack of descriptors.
	acceptPause = 50 * time.Millisecond
)

// outlet is the container's end of the proxy, a loopback port, and the socket of bridged commands. It does not interpret the data: each
// connection is passed to the host as two streams, and the host decides about it.
type outlet struct {
	s         *supervisor
	listeners map[frame.ConnectKind]*os.File
	slots     chan struct{} // holds a token for each client

	opening sync.Mutex // makes numbering and announcing a connection atomic
	last    uint32     // the last number

	mu      sync.Mutex
	clients map[uint32]*client
	paused  chan struct{} // closed when the host is back; nil while it is connected
	live    int           // running clients
}

// proxyEnv returns the variables by which programs find the proxy.
func proxyEnv() []string {
	url := fmt.Sprintf("http://127.0.0.1:%d", proxyPort)
	var env []string
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
		env = append(env, name+"="+url)
	}
	return append(env, "NO_PROXY=", "no_proxy=")
}

func openOutlet(s *supervisor) (*outlet, error) {
	o := &outlet{
		s: s, listeners: make(map[frame.ConnectKind]*os.File),
		slots: make(chan struct{}, frame.MaxConnections), clients: make(map[uint32]*client),
	}
	var err error
	if s.hello.Proxy {
		o.listeners[frame.ToProxy], err = listen(unix.AF_INET, &unix.SockaddrInet4{Port: proxyPort, Addr: [4]byte{127, 0, 0, 1}})
	}
	if err == nil && s.hello.Bridge {
		o.listeners[frame.ToBridge], err = listen(unix.AF_UNIX, &unix.SockaddrUnix{Name: bridgeSocket})
	}
	if err != nil {
		return nil, fmt.Errorf("open proxy or bridge: %w", err)
	}
	return o, nil
}

// listen opens a socket for programs inside to connect to.
func listen(family int, address unix.Sockaddr) (*os.File, error) {
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if family == unix.AF_INET {
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	}
	if err == nil {
		err = unix.Bind(fd, address)
	}
	if err == nil {
		err = unix.Listen(fd, frame.MaxConnections)
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), "listener"), nil
}

// run accepts connections until the supervisor ends.
func (o *outlet) run() {
	for kind, listener := range o.listeners {
		go o.serve(kind, listener)
	}
}

// serve accepts on one listener. Above the limit programs wait in the kernel's backlog.
func (o *outlet) serve(kind frame.ConnectKind, listener *os.File) {
	for {
		o.slots <- struct{}{}
		socket, err := accept(listener)
		for err != nil || kind == frame.ToBridge && !o.isWorkload(socket) {
			if err == nil {
				socket.Close()
			} else {
				time.Sleep(acceptPause)
			}
			socket, err = accept(listener)
		}
		go o.open(kind, socket).run()
	}
}

// open numbers a connection and announces it to the host.
func (o *outlet) open(kind frame.ConnectKind, socket *os.File) *client {
	o.opening.Lock()
	defer o.opening.Unlock()
	o.last++
	c := &client{
		o: o, id: frame.ConnectionID(o.last), socket: socket,
		in: frame.NewInbox(make(chan struct{}, 1)), window: frame.NewSendWindow(), sent: make(chan struct{}),
	}
	o.admit(c)
	o.s.send(frame.Frame{Type: frame.Connect, ID: c.id, Payload: frame.Encode(frame.ConnectBody{Kind: kind})})
	return c
}

// admit registers a client. While the host is gone it waits.
func (o *outlet) admit(c *client) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.paused != nil {
		back := o.paused
		o.mu.Unlock()
		<-back
		o.mu.Lock()
	}
	o.clients[c.id] = c
	o.live++
}

// pause drops all clients, because the host is gone, and delays further ones.
func (o *outlet) pause() {
	if o == nil {
		return
	}
	o.mu.Lock()
	if o.paused == nil {
		o.paused = make(chan struct{})
	}
	dropped := o.clients
	o.clients = make(map[uint32]*client)
	o.mu.Unlock()
	for _, c := range dropped {
		c.cut()
	}
}

// count adds n to the running clients, and returns their number.
func (o *outlet) count(n int) int {
	if o == nil {
		return 0
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.live += n
	return o.live
}

// resume admits clients again; those of the old host must be gone.
func (o *outlet) resume() {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.paused != nil {
		close(o.paused)
		o.paused = nil
	}
}

func accept(from *os.File) (*os.File, error) {
	raw, err := from.SyscallConn()
	if err != nil {
		return nil, err
	}
	var fd int
	var failure error
	err = raw.Read(func(listener uintptr) bool {
		fd, _, failure = unix.Accept4(int(listener), unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
		return failure != unix.EAGAIN
	})
	if err = errors.Join(err, failure); err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "client"), nil
}

// deliver passes a frame to its client. The host may have sent it before it learned that the client is gone.
func (o *outlet) deliver(f frame.Frame) error {
	if o == nil {
		return fmt.Errorf("%w: frame for a connection without a proxy", frame.ErrProtocol)
	}
	o.mu.Lock()
	c := o.clients[f.ID]
	if f.Type == frame.Drop {
		delete(o.clients, f.ID)
	}
	o.mu.Unlock()
	switch {
	case c == nil:
		return nil
	case f.Type == frame.Drop:
		c.drop()
		return nil
	case f.Type == frame.Data && f.Stream == frame.In:
		return c.in.Put(f.Payload)
	case f.Type == frame.Credit && f.Stream == frame.Out:
		return c.window.Grant(f.Payload)
	}
	return fmt.Errorf("%w: frame type %d on stream %d of a connection", frame.ErrProtocol, f.Type, f.Stream)
}
