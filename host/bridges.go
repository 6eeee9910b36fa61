package host

import (
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/bridge"
	"github.com/flynnhost/flynn/host/store"
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
		second := spec(c.Sandboxes[b.Sandbox])
		one := sandbox.Bridge{
			Name: b.Name, In: &second, Program: b.Program, Forms: b.Forms(), Env: b.Env, Workspace: b.Workspace,
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

// bridged notes a call of a bridged command, and bridgeEnded what it has carried.
func (l *egressLog) bridged(session string, d bridge.Decision) {
	l.count("bridge", d.Allowed)
	l.put(bridgeRecord(session, d))
}

func (l *egressLog) bridgeEnded(session string, d bridge.Decision) { l.put(bridgeRecord(session, d)) }

func bridgeRecord(session string, d bridge.Decision) store.EgressRecord {
	return store.EgressRecord{
		ID: d.ID, At: d.Time, Kind: "bridge", Session: session, Agent: agentOf(session), Method: clipText(d.Name),
		Host: clipText(strings.Join(d.Argv, " ")), Allowed: d.Allowed, Reason: clipText(d.Reason), Up: d.Up, Down: d.Down, Ended: d.Ended,
	}
}
