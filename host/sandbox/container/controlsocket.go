package container

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/driver"
)

// ControlSocket is a Unix socket in a folder that a container mounts. It is a shorter way to the supervisor than the attached standard
// streams, which pass through two more processes. Only an engine on this very kernel supports it; where the supervisor cannot connect, the
// frames stay on the streams.
//
// The supervisor connects before the first command runs, and the socket is shut as soon as it has, so no command can connect. The folder
// stays if a lease lets the container outlive the host: a later host reopens the socket, and then commands can connect to it as well
// (package reconcile).
type ControlSocket struct {
	folder   string
	listener *net.UnixListener
}

const (
	// ControlFolder is the folder's path in containers; ControlPath is the socket in it.
	ControlFolder = "/.flynn-control"
	ControlPath   = ControlFolder + "/" + controlName
	controlName   = "s"
	// ControlPrefix begins the names of these folders on the host; see ControlFolderOf.
	ControlPrefix = "control-"
	// controlTimeout bounds the wait for a supervisor that claims to have connected.
	controlTimeout = 5 * time.Second
)

// NewControlSocket creates the folder and listens in it. The error is errors.ErrUnsupported if engines of this system run in virtual
// machines, which share folders but not their sockets.
func NewControlSocket(folder string) (*ControlSocket, error) {
	l, err := NewControlFolder(folder)
	if err != nil {
		return nil, err
	}
	if err := l.listen(); err != nil {
		l.Close()
		return nil, fmt.Errorf("make the control socket: %w", err)
	}
	return l, nil
}

// NewControlFolder creates the folder only, for a supervisor that has a direct stream and needs the socket of a later host.
func NewControlFolder(folder string) (*ControlSocket, error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, fmt.Errorf("make the control socket: %w", err)
	}
	return &ControlSocket{folder: folder}, nil
}

// listen makes the socket in the folder.
func (l *ControlSocket) listen() (err error) {
	if l.listener, err = bind(l.folder); err != nil {
		return err
	}
	l.listener.SetUnlinkOnClose(false) // its path may be invalid by then
	// The supervisor has no capability to bypass file permissions.
	return os.Chmod(filepath.Join(l.folder, controlName), 0o666)
}

// Mount returns the mount by which the container sees the folder.
func (l *ControlSocket) Mount() driver.Mount {
	return driver.Mount{Source: l.folder, Target: ControlFolder, ReadOnly: true}
}

// Accept waits for a supervisor that claims to have connected.
func (l *ControlSocket) Accept() (net.Conn, error) {
	if err := l.listener.SetDeadline(time.Now().Add(controlTimeout)); err != nil {
		return nil, err
	}
	return l.listener.Accept()
}

// Next waits for the next connection until the socket is shut.
func (l *ControlSocket) Next() (net.Conn, error) { return l.listener.Accept() }

// ReopenControlSocket listens again in the folder that a container has mounted. A new folder would not do: the mount refers to the old one.
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

// Shut stops listening; an established connection and the folder stay.
func (l *ControlSocket) Shut() {
	if l == nil || l.listener == nil {
		return
	}
	l.listener.Close()
	os.Remove(filepath.Join(l.folder, controlName))
}

// Close shuts the control socket and removes its folder; an established connection stays.
func (l *ControlSocket) Close() {
	if l == nil {
		return
	}
	l.Shut()
	os.RemoveAll(l.folder)
}

// ControlStream carries frames over the control socket. It keeps the standard streams open, because closing them ends the container.
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

// drain copies the supervisor's stderr, and closes the stream when the container ends.
func (s *ControlStream) drain() {
	defer close(s.drained)
	_, _ = io.Copy(io.Discard, s.stdio)
	s.Conn.Close()
}

// Close closes both streams and waits for the goroutine.
func (s *ControlStream) Close() error {
	var err error
	s.once.Do(func() {
		err = errors.Join(s.stdio.Close(), s.Conn.Close())
		<-s.drained
	})
	return err
}

// ControlFolderOf returns the folder of a container's control socket, within run, the folder of the instance; host is the process that made
// it.
func ControlFolderOf(run, host, key string) string {
	return filepath.Join(run, ControlPrefix+host+"-"+key)
}
