package host

import (
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/sandbox"
)

// credentials only names the secrets; machines.secret has them.
func credentials(all []config.Credential) []sandbox.Credential {
	var out []sandbox.Credential
	for _, c := range all {
		out = append(out, sandbox.Credential{
			Host: c.Host, Header: c.Header, Prefix: c.Prefix, Secret: c.SecretName(), Methods: c.Methods, Paths: c.Paths, Upgrade: c.Upgrade,
		})
	}
	return out
}

// secret returns a secret of the generation in force.
func (m *machines) secret(name string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.secrets[name].Reveal()
}
