package config

import (
	"fmt"
	"net/netip"
	"net/url"
)

// telemetry checks that spans leave this machine encrypted.
func (c *checker) telemetry() {
	endpoint := c.cfg.Telemetry.OTLPEndpoint
	if endpoint == "" {
		return
	}
	at := keyPath{"telemetry", "otlp_endpoint"}
	u, err := url.Parse(endpoint)
	switch {
	case err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		c.report(at, fmt.Sprintf("%q is not an address of a collector", endpoint), `write one such as "http://127.0.0.1:4318"`)
	case u.Scheme == "http" && !loopback(u.Hostname()):
		c.report(at, "spans would leave this machine unencrypted", `write an https address, or one of this machine such as "http://127.0.0.1:4318"`)
	}
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}
