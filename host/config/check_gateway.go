package config

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

func (c *checker) gateway() {
	g, at := c.cfg.Gateway, keyPath{"gateway"}
	c.loopback(at.child("listen"), g.Listen)
	c.hooks(at, g)
	c.previews(at.child("preview_origin"), g)
	for i, origin := range g.Origins {
		u, err := url.Parse(origin)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || origin != u.Scheme+"://"+u.Host {
			c.report(at.child("origins").index(i), fmt.Sprintf("%q is not an origin", origin), `write scheme and host, such as "https://flynn.example.com"`)
		}
	}
}

// previews checks the origin of previews. A host of the console's own below it would be the same site for cookies, but not the same origin.
func (c *checker) previews(at keyPath, g Gateway) {
	if g.PreviewOrigin == "" {
		return
	}
	u, err := url.Parse(g.PreviewOrigin)
	name := ""
	if err == nil {
		name, _ = strings.CutPrefix(u.Hostname(), "*.")
	}
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || g.PreviewOrigin != u.Scheme+"://"+u.Host || name == u.Hostname() || name == "" || strings.Contains(name, "*") {
		c.report(at, fmt.Sprintf("%q is not an origin with a * for the names of previews", g.PreviewOrigin), `write scheme and host, such as "https://*.preview.example.com"`)
	}
}

// hooks checks the listener for webhooks. It must differ from the gateway's: a proxy on the internet must not lead to the page.
func (c *checker) hooks(at keyPath, g Gateway) {
	if g.HooksListen != "" {
		c.loopback(at.child("hooks_listen"), g.HooksListen)
		if _, port, err := net.SplitHostPort(g.HooksListen); err == nil && port != "0" && g.HooksListen == g.Listen {
			c.report(at.child("hooks_listen"), "it is the gateway's own address", "choose another port, so that the proxy for webhooks cannot lead to the page")
		}
	}
	if g.PublicURL == "" {
		return
	}
	if g.HooksListen == "" {
		c.report(at.child("public_url"), "hooks_listen is not set", `set hooks_listen = "127.0.0.1:7352" and point the proxy there`)
	}
	u, err := url.Parse(g.PublicURL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		c.report(at.child("public_url"), fmt.Sprintf("%q is not an address of a server", g.PublicURL), `write one such as "https://flynn.example.com"`)
	case u.User != nil:
		c.report(at.child("public_url"), "it contains a user or a password", "remove them: plugins and platforms see this address")
	}
}

// loopback keeps the gateway off the network.
func (c *checker) loopback(at keyPath, address string) {
	host, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		c.report(at, fmt.Sprintf("%q is not an address and port", address), `write one such as "127.0.0.1:7351"`)
		return
	}
	ip, err := netip.ParseAddr(host)
	if host != "localhost" && (err != nil || !ip.Unmap().IsLoopback()) {
		c.report(at, fmt.Sprintf("%q is not a loopback address", address),
			fmt.Sprintf(`write "127.0.0.1:%s" and put a reverse proxy or an SSH tunnel before it`, port))
	}
}
