package launch

import (
	"github.com/flynnhost/flynn/host/internal/netaddr"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/egress"
	"github.com/flynnhost/flynn/host/sandbox/proxyca"
	"github.com/flynnhost/flynn/host/sandbox/spec"
)

// trustPath is where containers see the certificates of their proxy.
const trustPath = "/.flynn-trust"

// offerProxy lets programs in a container without a network reach what the specification lists.
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

// proxyConfig is that of the proxy of a container which the process host has made, with the certificates that programs in the container
// trust, if any.
func (l *Launcher) proxyConfig(s spec.Spec, host string) (*egress.Config, *proxyca.Bundle) {
	rules, err := netaddr.ParseRules(s.Allowlist)
	if err != nil { // Check has read them, so this is for a caller that has not asked it: nothing is reached
		l.log.Error("cannot read the allowlist", "error", err)
	}
	credentials, err := s.ParseCredentials(l.config.Secret)
	if err != nil {
		l.log.Error("cannot read credentials", "error", err)
	}
	proxy := &egress.Config{Rules: rules, Network: l.config.Network, Credentials: credentials, Roots: l.config.Roots, Limit: s.EgressLimit}
	trusted, err := l.ProxyCAs.Of(host, s.Allowlist, credentials)
	if err != nil { // tunnels then stay whole, and carry what the program itself says
		l.log.Error("cannot put credentials into tunnels", "error", err)
	}
	if trusted != nil {
		proxy.Authority = trusted.Authority
	}
	return proxy, trusted
}
