package within

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// network is a network namespace with a loopback interface and nothing else. To make one takes longer than most of a start, so it is made beside the
// rest. It belongs to no user of the sandbox, which so could not change it with any privilege.
type network struct {
	fd   int
	err  error
	done chan struct{}
}

// prepare begins to make a network, which the next start takes.
func (s *server) prepare() {
	select {
	case s.networks <- newNetwork():
	default: // there are enough
	}
}

// network returns the network of a sandbox, or nil for the host's.
func (s *server) network(c Config) *network {
	if !c.Loopback {
		return nil
	}
	select {
	case n := <-s.networks:
		return n
	default:
		return newNetwork()
	}
}

func newNetwork() *network {
	n := &network{fd: -1, done: make(chan struct{})}
	apart(func() {
		defer close(n.done)
		if n.err = unix.Unshare(unix.CLONE_NEWNET); n.err == nil {
			n.err = startLoopback()
		}
		if n.err == nil {
			n.fd, n.err = unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		}
	})
	return n
}

// startLoopback starts the interface lo, as engines do.
func startLoopback() error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	request := struct { // ifreq of netdevice(7)
		name  [unix.IFNAMSIZ]byte
		flags uint16
		_     [22]byte
	}{flags: unix.IFF_UP | unix.IFF_RUNNING}
	copy(request.name[:], "lo")
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(socket), unix.SIOCSIFFLAGS, uintptr(unsafe.Pointer(&request))); e != 0 {
		return fmt.Errorf("start the loopback interface: %w", e)
	}
	return nil
}

// enter makes the network that of this thread, which stays in it until it enters another one.
func (n *network) enter() error {
	if n == nil {
		return nil
	}
	<-n.done
	if n.err != nil {
		return fmt.Errorf("make a network: %w", n.err)
	}
	defer unix.Close(n.fd)
	if err := unix.Setns(n.fd, unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter a network: %w", err)
	}
	return nil
}
