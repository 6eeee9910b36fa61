package netaddr

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
)

// Own returns the addresses of all interfaces of this machine. They lead to what listens here for its neighbours, also where they are public.
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

// PublicAndNotOf is Public for an address that must not be one of own either. Where own cannot be told, every address is refused.
func PublicAndNotOf(own func() ([]netip.Addr, error), a netip.Addr) error {
	if err := Public(a); err != nil {
		return err
	}
	addrs, err := own()
	if err != nil {
		return fmt.Errorf("cannot tell which addresses are this host's own: %w", err)
	}
	return NotOf(addrs, a)
}
