// Package netclient makes HTTP clients that check each address before they connect to it.
//
// Start with Transport. The package neither reads answers nor decides which addresses are allowed.
package netclient

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"
)

// maxHeader bounds the header of an answer, in bytes.
const maxHeader = 64 << 10

// Transport returns a transport that connects to the addresses that allow lets pass. It checks between the resolution of a name and the connection,
// and so the very address that is connected to: a name that resolves differently the second time does not help an attacker.
func Transport(allow func(netip.AddrPort) error) *http.Transport {
	control := func(network, address string, _ syscall.RawConn) error {
		if network != "tcp4" && network != "tcp6" {
			return fmt.Errorf("network %s is not allowed", network)
		}
		addr, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("read address: %w", err)
		}
		return allow(addr)
	}
	return &http.Transport{
		Proxy:                  nil, // a proxy would dial for us, past the check of the address
		DialContext:            (&net.Dialer{Timeout: 10 * time.Second, Control: control}).DialContext,
		DisableKeepAlives:      true, // each request is checked anew, and none leaves a connection behind
		ForceAttemptHTTP2:      true,
		MaxResponseHeaderBytes: maxHeader,
		TLSHandshakeTimeout:    10 * time.Second,
	}
}
