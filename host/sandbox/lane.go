package sandbox

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
)

// A lane is a Unix socket in a folder that a container mounts: a shorter way to its supervisor than
// the attached standard streams, which pass through two more processes on their way. Only a
// local engine has it; where the supervisor cannot connect, the frames stay on the streams.
//
// The supervisor connects before the first command runs, and the lane is shut as soon as it has, so
// no command finds anybody listening. The folder stays where a lease lets the container outlast the host: a later
// host opens the same lane again, and then commands can connect to it as well (adopt.go).
type lane struct {
	folder   string
	listener *net.UnixListener
}

const (
	// lanePath is where containers see the folder, laneSocket the socket in it.
	lanePath   = "/.flynn-lane"
	laneSocket = "s"
	lanePrefix = "lane-"
	// laneTimeout bounds the wait for a supervisor that says it has connected.
	laneTimeout = 5 * time.Second
)

func newLane(folder string) (*lane, error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, fmt.Errorf("make lane: %w", err)
	}
	l := &lane{folder: folder}
	if err := l.listen(); err != nil {
		l.close()
		return nil, fmt.Errorf("make lane: %w", err)
	}
	return l, nil
}

// listen binds through the folder's descriptor, because a socket's path has to be short.
func (l *lane) listen() error {
	dir, err := os.Open(l.folder)
	if err != nil {
		return err
	}
	defer dir.Close()
	name := filepath.Join("/proc/self/fd", strconv.Itoa(int(dir.Fd())), laneSocket)
	if l.listener, err = net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"}); err != nil {
		return err
	}
	l.listener.SetUnlinkOnClose(false) // the descriptor in the name is gone by then
	// The supervisor has no right to pass over permissions.
	return os.Chmod(filepath.Join(l.folder, laneSocket), 0o666)
}

func (l *lane) mount() Mount { return Mount{Source: l.folder, Target: lanePath, ReadOnly: true} }

// accept waits for the supervisor.
func (l *lane) accept() (net.Conn, error) {
	if err := l.listener.SetDeadline(time.Now().Add(laneTimeout)); err != nil {
		return nil, err
	}
	return l.listener.Accept()
}

// reopenLane listens again in the folder that a container has mounted. A new folder would not do: the mount follows
// the old one.
func reopenLane(folder string) (*lane, error) {
	l := &lane{folder: folder}
	if err := os.Remove(filepath.Join(folder, laneSocket)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reopen lane: %w", err)
	}
	if err := l.listen(); err != nil {
		l.shut()
		return nil, fmt.Errorf("reopen lane: %w", err)
	}
	return l, nil
}

// shut ends the listening; a connection made through the lane stays, and so does the folder.
func (l *lane) shut() {
	if l == nil || l.listener == nil {
		return
	}
	l.listener.Close()
	os.Remove(filepath.Join(l.folder, laneSocket))
}

// close shuts the lane for good; a connection made through it stays.
func (l *lane) close() {
	if l == nil {
		return
	}
	l.shut()
	os.RemoveAll(l.folder)
}

// laneStream carries frames on the lane and keeps the standard streams open beside it: their end is
// what ends the container.
type laneStream struct {
	net.Conn
	stdio   Stream
	drained chan struct{}
	once    sync.Once
}

func newLaneStream(conn net.Conn, stdio Stream) *laneStream {
	s := &laneStream{Conn: conn, stdio: stdio, drained: make(chan struct{})}
	go s.drain()
	return s
}

// drain passes on what the supervisor writes to stderr, and ends the stream with the container.
func (s *laneStream) drain() {
	defer close(s.drained)
	_, _ = io.Copy(io.Discard, s.stdio)
	s.Conn.Close()
}

// Close ends both and waits for the goroutine.
func (s *laneStream) Close() error {
	var err error
	s.once.Do(func() {
		err = errors.Join(s.stdio.Close(), s.Conn.Close())
		<-s.drained
	})
	return err
}
