package launch

import (
	"github.com/flynnhost/flynn/host/internal/netaddr"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/egress"
	"github.com/flynnhost/flynn/host/sandbox/proxyca"
	"github.com/flynnhost/flynn/host/sandbox/spec"
)

// trustPath is the path of the proxy's certificates in containers.
const trustPath = "/.flynn-trust"

// offerProxy gives programs in a container without a network access to the hosts that the specification lists.
func (l *Launcher) offerProxy(o *launchSpec) {
	proxy, trusted := l.proxyConfig(o.spec, l.config.Host.ID())
	o.hello.Proxy, o.proxy = true, proxy
	if trusted == nil {
		return
	}
	for _, variable := range trusted.Env(trustPath) {
		o.hello.Env = append(o.hello.Env, []byte(variable))
	}
	o.container.Mounts = append(o.container.Mounts, driver.Mount{Source: trusted.Folder, Target: trustPath, ReadOnly: true})
}

// proxyConfig returns the configuration of the proxy for a container that the process host has made, and the certificates that programs in
// the container must trust, if any.
func (l *Launcher) proxyConfig(s spec.Spec, host string) (*egress.Config, *proxyca.Bundle) {
	rules, err := netaddr.ParseRules(s.Allowlist)
	if err != nil { // cannot happen after Check; nothing can be reached then
		l.log.Error("cannot read the allowlist", "error", err)
	}
	credentials, err := s.ParseCredentials(l.config.Secret)
	if err != nil {
		l.log.Error("cannot read credentials", "error", err)
	}
	proxy := &egress.Config{Rules: rules, Network: l.config.Network, Credentials: credentials, Roots: l.config.Roots, Limit: s.EgressLimit}
	trusted, err := l.ProxyCAs.Of(host, s.Allowlist, credentials)
	if err != nil { // without the authority, tunnels are not terminated and carry no credentials
		l.log.Error("cannot add credentials to tunnels", "error", err)
	}
	if trusted != nil {
		proxy.Authority = trusted.Authority
	}
	return proxy, trusted
}
