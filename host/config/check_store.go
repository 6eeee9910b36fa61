package config

import (
	"fmt"
	"regexp"
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
