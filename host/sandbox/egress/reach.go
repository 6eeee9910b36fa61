package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"

	"github.com/flynnhost/flynn/host/internal/netaddr"
)

// Network resolves names and dials addresses.
type Network interface {
	// Resolve returns the addresses of a name.
	Resolve(ctx context.Context, name string) ([]netip.Addr, error)
	// Dial connects to an address over TCP.
	Dial(ctx context.Context, addr netip.AddrPort) (net.Conn, error)
}

// Owner is a Network that knows the addresses of its own machine. Services on them are meant for neighbours, so they are refused even if
// they are public.
type Owner interface {
	Own() ([]netip.Addr, error)
}

// Neighbour is a Network that can reach private addresses. Without it the Address of a credential cannot be reached.
type Neighbour interface {
	// DialPrivate connects to exactly this address.
	DialPrivate(ctx context.Context, addr netip.AddrPort) (net.Conn, error)
}

var (
	_ Owner     = host{}
	_ Neighbour = host{}
)

// host is the Network of this process.
type host struct{}

// Resolve looks up the name with a final dot, which keeps the resolver from appending the host's own domain.
func (host) Resolve(ctx context.Context, name string) ([]netip.Addr, error) {
	return new(net.Resolver).LookupNetIP(ctx, "ip", name+".")
}

// Dial checks again the address that the kernel is about to connect to.
func (host) Dial(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
	dialer := net.Dialer{Control: func(_, address string, _ syscall.RawConn) error {
		final, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		return netaddr.Public(final.Addr())
	}}
	return dialer.DialContext(ctx, "tcp", addr.String())
}

// DialPrivate checks again the address that the kernel is about to connect to.
func (host) DialPrivate(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
	dialer := net.Dialer{Control: func(_, address string, _ syscall.RawConn) error {
		if final, err := netip.ParseAddrPort(address); err != nil || final != addr {
			return fmt.Errorf("connecting to %s instead of %s", address, addr)
		}
		return netaddr.Private(addr.Addr())
	}}
	return dialer.DialContext(ctx, "tcp", addr.String())
}

// Own returns the addresses of all interfaces.
func (host) Own() ([]netip.Addr, error) {
	return netaddr.Own()
}

// notOwn refuses the addresses of this machine.
func (p *Proxy) notOwn(addrs []netip.Addr) error {
	network, ok := p.config.Network.(Owner)
	if !ok {
		return nil
	}
	own, err := network.Own()
	if err != nil {
		return fmt.Errorf("cannot tell which addresses are this host's own: %w", err)
	}
	for _, a := range addrs {
		if err := netaddr.NotOf(own, a); err != nil {
			return err
		}
	}
	return nil
}

// maxAddrs bounds the addresses of a name that are tried.
const maxAddrs = 8

// pin resolves a host, once. A name with any address that is not public is refused entirely: its owner is either mistaken or is aiming at
// machines behind the host.
func (p *Proxy) pin(ctx context.Context, h netaddr.Host) ([]netip.Addr, error) {
	if c, ok := p.placed(h); ok {
		return []netip.Addr{c.Address.Addr()}, nil
	}
	addrs := []netip.Addr{h.Addr}
	if !h.IsAddr() {
		ctx, cancel := context.WithTimeout(ctx, p.config.DialTimeout)
		defer cancel()
		var err error
		if addrs, err = p.config.Network.Resolve(ctx, h.Name); err != nil {
			return nil, refuse(http.StatusBadGateway, fmt.Errorf("%s cannot be resolved", h.Name))
		}
	}
	if len(addrs) == 0 {
		return nil, refuse(http.StatusBadGateway, fmt.Errorf("%s has no address", h.Name))
	}
	for i, a := range addrs {
		if err := netaddr.Public(a); err != nil {
			return nil, refuse(http.StatusForbidden, err)
		}
		addrs[i] = a.Unmap()
	}
	if err := p.notOwn(addrs); err != nil {
		return nil, refuse(http.StatusForbidden, err)
	}
	return addrs[:min(len(addrs), maxAddrs)], nil
}

// connect connects to the host of a request that may carry secrets by then.
func (p *Proxy) connect(ctx context.Context, r *request, addrs []netip.Addr) (net.Conn, error) {
	c, ok := p.placed(r.Host)
	if !ok {
		return p.dial(ctx, addrs, r.Port)
	}
	network, ok := p.config.Network.(Neighbour)
	if !ok {
		return nil, refuse(http.StatusBadGateway, errors.New("addresses that are not public cannot be reached"))
	}
	ctx, cancel := context.WithTimeout(ctx, p.config.DialTimeout)
	defer cancel()
	conn, err := network.DialPrivate(ctx, c.Address)
	if err != nil {
		return nil, refuse(http.StatusBadGateway, fmt.Errorf("cannot connect: %w", err))
	}
	return conn, nil
}

// dial connects to the first of the pinned addresses that answers.
func (p *Proxy) dial(ctx context.Context, addrs []netip.Addr, port uint16) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, p.config.DialTimeout)
	defer cancel()
	var all error
	for i, a := range addrs {
		conn, err := p.dialOne(ctx, netip.AddrPortFrom(a, port), len(addrs)-i)
		if err == nil {
			return conn, nil
		}
		all = errors.Join(all, err)
	}
	return nil, refuse(http.StatusBadGateway, fmt.Errorf("cannot connect: %w", all))
}

// dialOne gives an address its share of the remaining time.
func (p *Proxy) dialOne(ctx context.Context, addr netip.AddrPort, left int) (net.Conn, error) {
	if err := netaddr.Public(addr.Addr()); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, p.config.DialTimeout/time.Duration(left))
	defer cancel()
	return p.config.Network.Dial(ctx, addr)
}
