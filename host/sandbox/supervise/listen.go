//go:build linux

package supervise

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// Listen listens at an address with the identity of this sandbox's supervisor. It returns the channel of the hosts that come, one after the
// other; the connection to the one before is over by then.
type Listen func(identity []byte, address string) (<-chan io.ReadWriteCloser, error)

const (
	// maxIdentity bounds the size of an identity.
	maxIdentity = 64 << 10
	// firstHostTimeout bounds the wait for the first host.
	firstHostTimeout = 5 * time.Minute
)

// RunListening is Run for a supervisor to which hosts connect. After the nonce args may have the address to listen at.
func RunListening(args []string, listen Listen) error {
	if done, err := runOther(args); done {
		return err
	}
	address := frame.DefaultAddress
	switch len(args) {
	case 1:
	case 2:
		address = args[1]
	default:
		return errors.New("run as process 1 of a sandbox container with its nonce and, if it is not " + address + ", the address to listen at")
	}
	if err := first(); err != nil {
		return err
	}
	identity, err := readIdentity(frame.IdentityPath)
	if err != nil {
		return fmt.Errorf("read the identity of this sandbox: %w", err)
	}
	hosts, err := listen(identity, address)
	if err != nil {
		return fmt.Errorf("listen at %s: %w", address, err)
	}
	clear(identity)
	select {
	case host := <-hosts:
		out := new(outgoing)
		out.attach(host)
		defer out.hangUp() // tells the host that we end
		s := newSupervisor(out, hosts)
		if err := s.prepare(); err != nil {
			return err
		}
		return s.serve(args[0], host)
	case <-time.After(firstHostTimeout):
		return fmt.Errorf("no host has connected within %v", firstHostTimeout)
	}
}

// readIdentity reads the file with the identity, of which only root may be able to read it: commands run as another user.
func readIdentity(path string) ([]byte, error) {
	if single() {
		return nil, errors.New("the sandbox has no user of its own for commands, who could read it too")
	}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Uid != 0 || st.Mode&0o077 != 0 {
		return nil, fmt.Errorf("%s has mode %#o and owner %d: it must be a file that only root can read", path, st.Mode, st.Uid)
	}
	p, err := io.ReadAll(io.LimitReader(f, maxIdentity+1))
	if err == nil && len(p) > maxIdentity {
		err = fmt.Errorf("%s is longer than %d bytes", path, maxIdentity)
	}
	return p, err
}
