package container

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/driver"
)

// ControlSocket is a Unix socket in a folder that a container mounts: a shorter way to its supervisor than
// the attached standard streams, which pass through two more processes on their way. Only a
// local engine has it; where the supervisor cannot connect, the frames stay on the streams.
//
// The supervisor connects before the first command runs, and the control socket is shut as soon as it has, so
// no command finds anybody listening. The folder stays where a lease lets the container outlast the host: a later
// host opens the same socket again, and then commands can connect to it as well (package reconcile).
type ControlSocket struct {
	folder   string
	listener *net.UnixListener
}

const (
	// ControlFolder is where containers see the folder, ControlPath the socket in it.
	ControlFolder = "/.flynn-lane"
	ControlPath   = ControlFolder + "/" + controlName
	controlName   = "s"
	// ControlPrefix begins the names of the folders on the host; see ControlFolderOf.
	ControlPrefix = "lane-"
	// controlTimeout bounds the wait for a supervisor that says it has connected.
	controlTimeout = 5 * time.Second
)

// NewControlSocket makes the folder and listens in it.
func NewControlSocket(folder string) (*ControlSocket, error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, fmt.Errorf("make the control socket: %w", err)
	}
	l := &ControlSocket{folder: folder}
	if err := l.listen(); err != nil {
		l.Close()
		return nil, fmt.Errorf("make the control socket: %w", err)
	}
	return l, nil
}

// listen binds through the folder's descriptor, because a socket's path has to be short.
func (l *ControlSocket) listen() error {
	dir, err := os.Open(l.folder)
	if err != nil {
		return err
	}
	defer dir.Close()
	name := filepath.Join("/proc/self/fd", strconv.Itoa(int(dir.Fd())), controlName)
	if l.listener, err = net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"}); err != nil {
		return err
	}
	l.listener.SetUnlinkOnClose(false) // the descriptor in the name is gone by then
	// The supervisor has no right to pass over permissions.
	return os.Chmod(filepath.Join(l.folder, controlName), 0o666)
}

// Mount is how the container sees the folder.
func (l *ControlSocket) Mount() driver.Mount {
	return driver.Mount{Source: l.folder, Target: ControlFolder, ReadOnly: true}
}

// Accept waits for the supervisor that says it has connected.
func (l *ControlSocket) Accept() (net.Conn, error) {
	if err := l.listener.SetDeadline(time.Now().Add(controlTimeout)); err != nil {
		return nil, err
	}
	return l.listener.Accept()
}

// Next waits for the next connection, until the socket is shut.
func (l *ControlSocket) Next() (net.Conn, error) { return l.listener.Accept() }

// ReopenControlSocket listens again in the folder that a container has mounted. A new folder would not do: the mount follows
// the old one.
func ReopenControlSocket(folder string) (*ControlSocket, error) {
	l := &ControlSocket{folder: folder}
	if err := os.Remove(filepath.Join(folder, controlName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reopen the control socket: %w", err)
	}
	if err := l.listen(); err != nil {
		l.Shut()
		return nil, fmt.Errorf("reopen the control socket: %w", err)
	}
	return l, nil
}

// Shut ends the listening; a connection made through the control socket stays, and so does the folder.
func (l *ControlSocket) Shut() {
	if l == nil || l.listener == nil {
		return
	}
	l.listener.Close()
	os.Remove(filepath.Join(l.folder, controlName))
}

// Close shuts the control socket for good; a connection made through it stays.
func (l *ControlSocket) Close() {
	if l == nil {
		return
	}
	l.Shut()
	os.RemoveAll(l.folder)
}

// ControlStream carries frames on the control socket and keeps the standard streams open beside it: their end is
// what ends the container.
type ControlStream struct {
	net.Conn
	stdio   driver.Stream
	drained chan struct{}
	once    sync.Once
}

// NewControlStream returns the stream over a connection of a control socket.
func NewControlStream(conn net.Conn, stdio driver.Stream) *ControlStream {
	s := &ControlStream{Conn: conn, stdio: stdio, drained: make(chan struct{})}
	go s.drain()
	return s
}

// drain passes on what the supervisor writes to stderr, and ends the stream with the container.
func (s *ControlStream) drain() {
	defer close(s.drained)
	_, _ = io.Copy(io.Discard, s.stdio)
	s.Conn.Close()
}

// Close ends both and waits for the goroutine.
func (s *ControlStream) Close() error {
	var err error
	s.once.Do(func() {
		err = errors.Join(s.stdio.Close(), s.Conn.Close())
		<-s.drained
	})
	return err
}

// ControlFolderOf is where the control socket of a container lies that a process has made, in the folder of its instance.
func ControlFolderOf(run, host, key string) string {
	return filepath.Join(run, ControlPrefix+host+"-"+key)
}
