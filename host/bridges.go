package host

import (
	"time"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/sandbox"
)

// specs are those of a configuration by name, "" for [sandbox].
func specs(c *config.Config) map[string]sandbox.Spec {
	all := map[string]sandbox.Spec{"": bridgedSpec(c, c.Sandbox)}
	for name, s := range c.Sandboxes {
		all[name] = bridgedSpec(c, s)
	}
	for _, name := range cliAgents(c) {
		all[cliSandbox(name)] = cliSpec(c, name)
	}
	return all
}

// bridgedSpec is a sandbox with its bridges, which name other ones.
func bridgedSpec(c *config.Config, s config.Sandbox) sandbox.Spec {
	out := spec(s)
	for _, b := range s.Bridges {
		var second *sandbox.Spec
		if !b.Host {
			of := spec(c.Sandboxes[b.Sandbox])
			second = &of
		}
		one := sandbox.Bridge{
			Name: b.Name, In: second, OnHost: b.Host, Program: b.Program, Forms: b.Forms(), Env: b.Env, Workspace: b.Workspace,
			Timeout: time.Duration(b.Timeout), MaxOutput: int(b.MaxOutput), Stdin: b.Stdin,
		}
		for variable, ref := range b.SecretsEnv {
			if one.Secrets == nil {
				one.Secrets = make(map[string]string)
			}
			one.Secrets[variable] = ref.SecretName()
		}
		out.Bridges = append(out.Bridges, one)
	}
	return out
}
