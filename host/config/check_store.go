package config

import (
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
)

// store reads the address of the database.
func (c *checker) store() {
	s, at := &c.cfg.Store, keyPath{"store", "url_env"}
	if s.URLEnv == "" {
		return
	}
	s.URL = c.fromEnv(at, s.URLEnv, false)
	if s.URL == "" && !c.secretless {
		c.report(at, fmt.Sprintf("environment variable %s is not set", s.URLEnv), "export it, as postgres://USER:PASSWORD@HOST/DATABASE; without url_env the store is a file")
	}
}

const maxHostName = 63

// hostName is what the name of a host among others must look like.
const hostName = `^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`

// cluster reads the name of this host among those that share the store.
func (c *checker) cluster() {
	cl, at := c.cfg.Cluster, keyPath{"cluster"}
	if !c.lines.has(at) {
		return
	}
	if c.cfg.Store.URLEnv == "" {
		c.report(at, "hosts can share a Postgres database, and this store is a file", `add url_env = "FLYNN_STORE" to [store], or remove [cluster]`)
	}
	c.peers(at, cl)
	name, of := cl.Host, "it"
	switch {
	case cl.Host != "" && cl.HostEnv != "":
		c.report(at.child("host_env"), "host is set as well", "remove one of the two")
		return
	case cl.HostEnv != "":
		at, of = at.child("host_env"), cl.HostEnv
		if name = string(c.fromEnv(at, cl.HostEnv, false)); name == "" {
			if !c.secretless {
				c.report(at, fmt.Sprintf("environment variable %s is not set", cl.HostEnv), "export it with the name of this host")
			}
			return
		}
	case cl.Host == "":
		c.report(at.child("host"), "this host has no name", `add host = "a", or host_env = "POD_NAME" for a variable that holds it; each host has another name`)
		return
	default:
		at = at.child("host")
	}
	if len(name) > maxHostName || !regexp.MustCompile(hostName).MatchString(name) {
		c.report(at, fmt.Sprintf("%s is %q", of, name), fmt.Sprintf("want 1 to %d characters of a-z, 0-9 and -, beginning and ending with a letter or digit", maxHostName))
	}
	c.cfg.Store.Host = name
}

// peers checks where this host listens for others, and what they dial.
func (c *checker) peers(at keyPath, cl Cluster) {
	listens := c.endpoint(at.child("listen"), cl.Listen, 0)
	switch {
	case cl.Advertise != "" && cl.Listen == "":
		c.report(at.child("advertise"), "listen is not set", `add listen = "0.0.0.0:7650", or remove advertise`)
	case cl.Advertise != "":
		if ip := c.endpoint(at.child("advertise"), cl.Advertise, 1); ip.IsValid() && ip.IsUnspecified() {
			c.report(at.child("advertise"), fmt.Sprintf("other hosts cannot dial %q", cl.Advertise), `write an address or a name of this machine, such as "10.0.0.5:7650"`)
		}
	case listens.IsValid() && listens.IsUnspecified():
		c.report(at.child("listen"), fmt.Sprintf("other hosts cannot dial %q", cl.Listen), `add advertise with an address or a name of this machine, such as "10.0.0.5:7650"`)
	}
	if cl.Listen != "" && cl.Listen == c.cfg.Gateway.Listen && !strings.HasSuffix(cl.Listen, ":0") {
		c.report(at.child("listen"), "it is the gateway's own address", "choose another port")
	}
}

// endpoint checks an address with a port, if there is one. It returns the address, which is not valid for a name.
func (c *checker) endpoint(at keyPath, address string, least uint64) (ip netip.Addr) {
	if address == "" {
		return ip
	}
	host, port, err := net.SplitHostPort(address)
	if err == nil {
		var n uint64
		if n, err = strconv.ParseUint(port, 10, 16); err == nil && n < least {
			err = strconv.ErrRange
		}
	}
	if err != nil || host == "" || strings.ContainsAny(host, "/ \t") {
		c.report(at, fmt.Sprintf("%q is not an address and port", address), `write one such as "10.0.0.5:7650"`)
		return ip
	}
	ip, _ = netip.ParseAddr(host)
	return ip.Unmap()
}
