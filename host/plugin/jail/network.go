package jail

import (
	"maps"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
)

// network says where a plugin may connect to over the network.
type network struct {
	ports []int // of TCP
	all   bool  // any port
	names bool  // a host name has to be looked up
}

// Connect lets the process connect to entries (host:port), from its manifest and the operator's grants, and to the addresses in its
// settings. Only the ports are enforced, not the hosts.
func (c *Config) Connect(entries []string, settings map[string]any) {
	to := networkOf(entries, settings)
	c.Ports, c.AnyPort, c.Names = to.ports, to.all, to.names
}

func networkOf(entries []string, settings map[string]any) network {
	var n network
	found := map[int]bool{}
	for _, entry := range entries {
		host, port, err := net.SplitHostPort(entry)
		number, perr := strconv.Atoi(port)
		if err != nil || port == "*" || perr != nil {
			return network{all: true, names: true} // any port, or an entry that is only shown to people
		}
		found[number] = true
		n.names = n.names || !literal(host)
	}
	for _, a := range addresses(settings) {
		found[a.port] = true
		n.names = n.names || !literal(a.host)
	}
	if n.names {
		found[53] = true // DNS answers that are too long for a datagram come over TCP
	}
	n.ports = slices.Sorted(maps.Keys(found))
	return n
}

// literal reports whether a host needs no lookup.
func literal(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil || host == "localhost"
}

// address is a host and a port of it.
type address struct {
	host string
	port int
}

// addresses finds addresses in settings: URLs and host:port, at any depth.
func addresses(v any) []address {
	var out []address
	switch v := v.(type) {
	case map[string]any:
		for _, item := range v {
			out = append(out, addresses(item)...)
		}
	case []any:
		for _, item := range v {
			out = append(out, addresses(item)...)
		}
	case string:
		if a := addressOf(v); a.port > 0 {
			out = append(out, a)
		}
	}
	return out
}

// addressOf parses an address; its port is 0 if text is not one.
func addressOf(text string) address {
	var host, port string
	if u, err := url.Parse(text); err == nil && u.Host != "" {
		host, port = u.Hostname(), u.Port()
		if port == "" {
			port = map[string]string{"http": "80", "ws": "80", "https": "443", "wss": "443"}[u.Scheme]
		}
	} else if h, p, err := net.SplitHostPort(text); err == nil {
		host, port = h, p
	}
	n, err := strconv.Atoi(port)
	if err != nil || n < 1 || n > 65535 {
		return address{}
	}
	return address{host, n}
}
