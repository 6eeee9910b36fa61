package config

import (
	"cmp"
	"fmt"

	"github.com/flynnhost/flynn/host/sandbox/engine"
)

// engine checks the address of the engine and its certificates. All sandboxes use the same engine.
func (c *checker) engine(at keyPath, s Sandbox) {
	keys := []struct{ name, value string }{{"engine_ca", s.EngineCA}, {"engine_cert", s.EngineCert}, {"engine_key", s.EngineKey}}
	some := cmp.Or(s.EngineCA, s.EngineCert, s.EngineKey) != ""
	if len(at) == 2 {
		if some || s.Engine != "" {
			c.report(at.child("engine"), "all sandboxes use one engine", "write it in [sandbox]")
		}
		return
	}
	for _, k := range keys {
		if some && k.value == "" {
			c.report(at.child(k.name), "missing", "TLS needs all of engine_ca, engine_cert and engine_key")
		}
	}
	name := s.Driver()
	if _, known := c.cfg.Drivers[name]; name != "" && !known {
		c.report(at.child("engine"), fmt.Sprintf("there is no [drivers.%s]", name), fmt.Sprintf("add the table [drivers.%s] with plugin = \"NAME\"", name))
		return
	}
	if s.Engine == "" || s.Engine == engine.Auto || s.Engine == engine.Native || name != "" {
		if some {
			c.report(at.child("engine_ca"), "certificates are for tcp:// alone", "write the engine's address as engine, or remove engine_ca, engine_cert and engine_key")
		}
		return
	}
	address, err := engine.Parse(s.Engine)
	if err != nil {
		c.report(at.child("engine"), err.Error(), `write "auto", "native", "driver:NAME" for the plugin of [drivers.NAME], or one such as "unix:///var/run/docker.sock", "tcp://build:2376" or "ssh://me@build"`)
		return
	}
	if some && address.Scheme != "tcp" {
		c.report(at.child("engine_ca"), "certificates are for tcp:// alone", "remove engine_ca, engine_cert and engine_key")
	}
	if err := address.CheckSecurity(some || c.getenv("DOCKER_CERT_PATH") != ""); err != nil {
		c.report(at.child("engine"), err.Error(), "add engine_ca, engine_cert and engine_key, or write ssh://")
	}
}
