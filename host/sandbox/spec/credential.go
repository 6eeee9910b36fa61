package spec

import (
	"fmt"

	"github.com/flynnhost/flynn/host/internal/netaddr"
	"github.com/flynnhost/flynn/host/sandbox/egress"
)

// Credential is a secret that the proxy adds to requests to a host; see egress.Credential. It is only named here; sandbox.Config.Secret
// returns it.
type Credential struct {
	Host           string // on the allowlist, with at most one port
	Header, Prefix string
	Secret         string
	Methods, Paths []string
	Upgrade        bool
	Address        string `json:",omitempty"` // the host's address in the form of egress.ParseAddress; if empty, its name is resolved
}

// parse parses a credential and checks that the allowlist covers its host.
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

// ParseCredentials parses the credentials of a specification. secret returns a secret by name; it may be nil.
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
		for j, other := range all { // its secret would be sent to the address as well
			if i != j && c.Address.IsValid() && other.Rule.Names(host) {
				return nil, fmt.Errorf("credential for %q: it has an address, and another credential is for the same host", s.Credentials[i].Host)
			}
		}
	}
	return all, nil
}
