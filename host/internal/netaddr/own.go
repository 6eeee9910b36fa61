package netaddr

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
)

// Own returns the addresses of all interfaces of this machine. Even the public ones among them reach services that listen for the local
// network.
func Own() ([]netip.Addr, error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	var own []netip.Addr
	for _, a := range all {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			own = append(own, prefix.Addr().Unmap())
		}
	}
	return own, nil
}

// NotOf refuses an address that is one of own.
func NotOf(own []netip.Addr, a netip.Addr) error {
	if slices.Contains(own, a.Unmap()) {
		return fmt.Errorf("address %s is refused: it is this host's own", a)
	}
	return nil
}

// PublicAndNotOf is Public for an address that must not be one of own either. When own fails, every address is refused.
func PublicAndNotOf(own func() ([]netip.Addr, error), a netip.Addr) error {
	if err := Public(a); err != nil {
		return err
	}
	addrs, err := own()
	if err != nil {
		return fmt.Errorf("list the addresses of this host: %w", err)
	}
	return NotOf(addrs, a)
}
