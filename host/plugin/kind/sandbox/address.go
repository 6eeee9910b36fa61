package sandbox

import (
	"errors"
	"fmt"
	"net/netip"
	"path"
	"strings"

	"github.com/flynnhost/flynn/host/internal/netaddr"
)

// maxSocket is the longest path of a Unix socket.
const maxSocket = 107

// checkEndpoint refuses what the host must not dial for a driver. The program that answers there has to prove by TLS that it is the supervisor
// before it gets a byte, so a lying driver can only have the host open a connection. It may name services of this machine and of private
// networks, where engines are; not addresses that mean no single machine, nor the metadata services of clouds. Names are refused, because they
// can mean another address with each question; public addresses are refused unless the operator allows them.
func checkEndpoint(network, address string, public bool) error {
	switch network {
	case "unix":
		if len(address) > maxSocket || !path.IsAbs(address) || path.Clean(address) != address || address == "/" || strings.ContainsRune(address, 0) {
			return fmt.Errorf("%.120q is not the absolute path of a socket of at most %d bytes", address, maxSocket)
		}
		return nil
	case "tcp":
		at, err := netip.ParseAddrPort(address)
		if err != nil || at.String() != address || at.Port() == 0 || at.Addr().Zone() != "" || at.Addr().Is4In6() {
			return fmt.Errorf("%.80q is not an IP address and a port", address)
		}
		if netaddr.Private(at.Addr()) == nil {
			return nil
		}
		if err := netaddr.Public(at.Addr()); err != nil {
			return fmt.Errorf("%s is neither private nor public", address)
		}
		if !public {
			return fmt.Errorf("%s is public: write public = true in its [drivers] table if containers are meant to be there", address)
		}
		return nil
	}
	return errors.New("the network must be unix or tcp")
}
