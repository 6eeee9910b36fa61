package config

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
)

func (c *checker) gateway() {
	g, at := c.cfg.Gateway, keyPath{"gateway"}
	c.loopback(at.child("listen"), g.Listen)
	for i, origin := range g.Origins {
		u, err := url.Parse(origin)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || origin != u.Scheme+"://"+u.Host {
			c.report(at.child("origins").index(i), fmt.Sprintf("%q is no origin", origin), `write scheme and host, such as "https://flynn.example.com"`)
		}
	}
}

// loopback keeps the gateway off the network: whoever reaches it can run tools.
func (c *checker) loopback(at keyPath, address string) {
	host, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		c.report(at, fmt.Sprintf("%q is no address and port", address), `write one such as "127.0.0.1:7351"`)
		return
	}
	ip, err := netip.ParseAddr(host)
	if host != "localhost" && (err != nil || !ip.Unmap().IsLoopback()) {
		c.report(at, fmt.Sprintf("%q is not a loopback address", address),
			fmt.Sprintf(`write "127.0.0.1:%s" and put a reverse proxy or an SSH tunnel before it`, port))
	}
}
