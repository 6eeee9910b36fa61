package config

import (
	"fmt"
	"strings"

	"github.com/flynnhost/flynn/host/internal/netaddr"
	"github.com/flynnhost/flynn/host/sandbox/egress"
)

// Credential is a secret that the proxy adds to requests to a host.
type Credential struct {
	// Host is a host of the allowlist, with at most one port. Default port: 443
	Host   string `toml:"host"`
	Header string `toml:"header" default:"Authorization"`
	// Prefix stands before the secret in the header.
	Prefix    string `toml:"prefix"`
	Value     Secret `toml:"-"` // from ValueEnv or ValueFile
	ValueEnv  string `toml:"value_env"`
	ValueFile string `toml:"value_file" is:"path"` // mode 0600 or stricter
	// Methods and prefixes of Paths that are allowed; all, if empty.
	Methods []string `toml:"methods"`
	Paths   []string `toml:"paths"`
	// Upgrade lets programs use http://; the proxy speaks TLS to the host.
	Upgrade bool `toml:"upgrade"`
}

// SecretName names the source of a secret, which a sandbox may know.
func SecretName(env, file string) string {
	if env != "" {
		return "env " + env
	}
	return "file " + file
}

// SecretName names the credential's secret.
func (c Credential) SecretName() string { return SecretName(c.ValueEnv, c.ValueFile) }

// Secrets returns the secrets of all sandboxes by their names.
func (c *Config) Secrets() map[string]Secret {
	known := map[string]Secret{}
	for _, s := range append([]Sandbox{c.Sandbox}, valuesOf(c.Sandboxes)...) {
		for _, cred := range s.Credentials {
			known[cred.SecretName()] = cred.Value
		}
		for _, b := range s.Bridges {
			for _, ref := range b.SecretsEnv {
				known[ref.SecretName()] = ref.Value
			}
		}
	}
	for _, a := range c.Agents {
		if name := a.CLI.SecretName(); name != "" {
			known[name] = a.CLI.APIKey
		}
	}
	return known
}

func valuesOf[V any](m map[string]V) []V {
	var all []V
	for _, key := range sorted(m) {
		all = append(all, m[key])
	}
	return all
}

// credentials checks the credentials that a sandbox sets itself, and resolves their secrets; sandboxes that inherit them share these.
func (c *checker) credentials(at keyPath, s Sandbox) {
	at = at.child("credentials")
	if !c.lines.has(at) {
		return
	}
	rules, err := netaddr.ParseRules(s.Allowlist)
	if err != nil {
		rules = nil // reported with the allowlist
	}
	for i := range s.Credentials {
		cred, each := &s.Credentials[i], at.index(i)
		cred.Value = c.secret(each, "value", cred.ValueEnv, cred.ValueFile, true,
			"name the environment variable of the secret, or its file with value_file")
		c.credential(each, *cred, rules, err == nil && s.Network == "allowlist")
		if s.Network != "allowlist" {
			c.report(each, "credentials go through the proxy, and there is none", `write network = "allowlist", and the host under allowlist`)
		}
	}
}

func (c *checker) credential(at keyPath, cred Credential, rules netaddr.Rules, listed bool) {
	if cred.Host == "" {
		c.report(at.child("host"), "missing", `write host = "api.example.com"`)
		return
	}
	rule, err := egress.ParseCredential(cred.Host)
	if err != nil {
		c.report(at.child("host"), err.Error(), `write a host, such as "api.example.com"`)
		return
	}
	parsed := egress.Credential{Rule: rule, Header: cred.Header, Prefix: cred.Prefix, Methods: cred.Methods, Paths: cred.Paths}
	if err := parsed.Check(); err != nil {
		c.report(at, err.Error(), "")
	}
	if listed && !rule.Within(rules) {
		c.report(at.child("host"), fmt.Sprintf("the allowlist does not cover %q", cred.Host), fmt.Sprintf("add %q to it", cred.Host))
	}
	if strings.ContainsAny(cred.Value.Reveal(), "\r\n") {
		c.report(at, "the secret has more than one line", "a header has one")
	}
}

// secret resolves a secret that one of two keys names. missing is the hint where neither is set; "" allows that.
func (c *checker) secret(at keyPath, stem, env, file string, needed bool, missing string) Secret {
	switch {
	case env != "" && file != "":
		c.report(at.child(stem+fileSuffix), "two sources of one secret", fmt.Sprintf("keep %s_env or %s_file", stem, stem))
	case env != "":
		return c.fromEnv(at.child(stem+"_env"), env, needed)
	case file != "":
		return c.fromFile(at.child(stem+fileSuffix), file, needed)
	case missing != "":
		c.report(at.child(stem+"_env"), "missing", missing)
	}
	return ""
}
