package spec

import (
	"fmt"

	"github.com/flynnhost/flynn/host/internal/netaddr"
	"github.com/flynnhost/flynn/host/sandbox/egress"
)

// Credential is a secret that requests to a host are given on their way through the proxy; see egress.Credential. It is
// only named here: sandbox.Config.Secret knows it.
type Credential struct {
	Host           string // one of the allowlist, with at most one port
	Header, Prefix string
	Secret         string
	Methods, Paths []string
	Upgrade        bool
	Address        string `json:",omitempty"` // where the host is, as egress.ParseAddress reads it; empty asks for its name
}

// parse reads a credential and checks that the allowlist lets its host be reached.
func (c Credential) parse(rules netaddr.Rules, secret func(string) string) (egress.Credential, error) {
	rule, err := egress.ParseCredential(c.Host)
	if err != nil {
		return egress.Credential{}, fmt.Errorf("credential for %q: %w", c.Host, err)
	}
	parsed := egress.Credential{
		Rule: rule, Header: c.Header, Prefix: c.Prefix, Methods: c.Methods, Paths: c.Paths, Upgrade: c.Upgrade,
		Value: func() string {
			if secret == nil {
				return ""
			}
			return secret(c.Secret)
		},
	}
	if c.Address != "" {
		if parsed.Address, parsed.Plain, err = egress.ParseAddress(c.Address); err != nil {
			return egress.Credential{}, fmt.Errorf("credential for %q: %w", c.Host, err)
		}
	}
	if err := parsed.Check(); err != nil {
		return egress.Credential{}, fmt.Errorf("credential for %q: %w", c.Host, err)
	}
	if !rule.Within(rules) {
		return egress.Credential{}, fmt.Errorf("credential for %q: the allowlist does not cover that host and port", c.Host)
	}
	return parsed, nil
}

// ParseCredentials reads the credentials of a specification. secret returns a secret by its name; nil has none.
func (s Spec) ParseCredentials(secret func(string) string) ([]egress.Credential, error) {
	rules, err := netaddr.ParseRules(s.Allowlist)
	if err != nil {
		return nil, err
	}
	var all []egress.Credential
	for _, c := range s.Credentials {
		parsed, err := c.parse(rules, secret)
		if err != nil {
			return nil, err
		}
		all = append(all, parsed)
	}
	for i, c := range all {
		host, _ := c.Rule.Host()
		for j, other := range all { // whose secret would go to the address as well
			if i != j && c.Address.IsValid() && other.Rule.Names(host) {
				return nil, fmt.Errorf("credential for %q: it has an address, and another credential is for the same host", s.Credentials[i].Host)
			}
		}
	}
	return all, nil
}
