//go:build linux

package supervise

import (
	"bufio"
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

// RunListening is Run for a supervisor to which hosts connect. After the nonce args may have the address to listen at, and then
// frame.IdentityFromInput and folders.
func RunListening(args []string, listen Listen) error {
	if done, err := runOther(args); done {
		return err
	}
	address, given := frame.DefaultAddress, len(args) > 2 && args[2] == frame.IdentityFromInput
	switch {
	case len(args) == 2 || given:
		address = args[1]
	case len(args) != 1:
		return errors.New("run as process 1 of a sandbox container with its nonce and, if it is not " + address + ", the address to listen at")
	}
	if err := first(); err != nil {
		return err
	}
	for _, folder := range args[min(len(args), 3):] {
		if err := os.Chmod(folder, 0o777); err != nil {
			return err
		}
	}
	identity, err := identity(given)
	if err != nil {
		return fmt.Errorf("read the identity of this sandbox: %w", err)
	}
	hosts, err := listen(identity, address)
	if err != nil {
		return fmt.Errorf("listen at %s: %w", address, err)
	}
	clear(identity)
	if given {
		if _, err := os.Stdout.WriteString(frame.NowListening); err != nil {
			return err
		}
	}
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

// identity returns the identity of this sandbox: that which the standard input gives, or that of the file.
func identity(given bool) ([]byte, error) {
	if single() {
		return nil, errors.New("the sandbox has no user of its own for commands, who could read it too")
	}
	if !given {
		return readIdentity(frame.IdentityPath)
	}
	p, err := bufio.NewReader(io.LimitReader(os.Stdin, maxIdentity)).ReadBytes(0)
	if err != nil {
		return nil, fmt.Errorf("the standard input ends before it: %w", err)
	}
	return p[:len(p)-1], nil
}

// readIdentity reads the file with the identity, of which only root may be able to read it: commands run as another user.
func readIdentity(path string) ([]byte, error) {
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
