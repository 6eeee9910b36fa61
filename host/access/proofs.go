// Package access decides how far sender ids can be trusted: which of them a channel proves, and which of the operator's rules rest on
// ids that anybody could take.
//
// Start with Proofs. Package route reads the rules and calls Proofs.Under; package channel decides about admission.
package access

import (
	"os"
	"path/filepath"
	"sync"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/plugin"
	channelkind "github.com/flynnhost/flynn/host/plugin/kind/channel"
)

// Proofs knows what channel instances prove about sender ids. The zero value uses the installed plugins. It is safe for concurrent use.
type Proofs struct {
	mu   sync.Mutex
	live map[string]message.SenderProof // by instance, of running plugins
}

// Serving makes the proof of a running plugin count until end is called, because the installed version may differ.
func (p *Proofs) Serving(instance string, proof message.SenderProof) (end func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.live == nil {
		p.live = map[string]message.SenderProof{}
	}
	p.live[instance] = proof
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.live, instance)
	}
}

// Under returns the proofs under a configuration, by channel instance. A plugin that declares no proof, or is not installed, proves
// nothing.
func (p *Proofs) Under(c *config.Config) func(instance string) message.SenderProof {
	installed := make(map[string]message.SenderProof, len(c.Channels))
	for name, channel := range c.Channels {
		if m, err := manifestOf(c, channel.Plugin); err == nil { // otherwise the start of the instance reports the error
			installed[name] = channelkind.OptionsOf(m.Options).Proof(channel.Settings)
		}
	}
	return func(instance string) message.SenderProof {
		p.mu.Lock()
		proof, ok := p.live[instance]
		p.mu.Unlock()
		if !ok {
			proof = installed[instance]
		}
		if !proof.Counts() && c.Channels[instance].TrustSenders {
			return message.SendersAccepted
		}
		return proof
	}
}

func manifestOf(c *config.Config, name string) (plugin.Manifest, error) {
	if dir, ok := c.Plugins.DevPaths[name]; ok {
		text, err := os.ReadFile(filepath.Join(dir, plugin.ManifestName))
		if err != nil {
			return plugin.Manifest{}, err
		}
		return plugin.ParseManifest(text)
	}
	s, err := plugin.OpenStore(c.Plugins.Dir)
	if err != nil {
		return plugin.Manifest{}, err
	}
	return s.VerifiedManifest(name)
}
