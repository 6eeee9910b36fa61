package jail

import (
	"maps"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
)

// network is what a plugin may connect to over the network.
type network struct {
	ports []int // of TCP
	all   bool  // any port
	names bool  // some host has a name, which has to be looked up
}

// Connect lets the process connect to what its manifest asks for and the operator grants, as host:port, and to the addresses in its
// settings. Of hosts, only the ports are cut down.
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
			return network{all: true, names: true} // it asks for more than one port, or in a way that is only shown
		}
		found[number] = true
		n.names = n.names || !literal(host)
	}
	for _, a := range addresses(settings) {
		found[a.port] = true
		n.names = n.names || !literal(a.host)
	}
	if n.names {
		found[53] = true // answers of the name service that are too long for a datagram
	}
	n.ports = slices.Sorted(maps.Keys(found))
	return n
}

// literal reports whether a host is found without a name service.
func literal(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil || host == "localhost"
}

// address is a host and a port of it.
type address struct {
	host string
	port int
}

// addresses are those in settings: URLs and host:port, at any depth.
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

// addressOf reads an address; its port is 0 when text is none.
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
