// Package access decides what the ids of senders are worth: which of them a channel proves, and which of the operator's rules stand on
// ids that anybody could take.
//
// Start with Proofs. The rules themselves are read by package route, which calls Proofs.Under; admission is in package channel.
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

// Proofs are what the channel instances prove about the ids of their senders. The zero value knows what is installed; it is safe for
// concurrent use.
type Proofs struct {
	mu   sync.Mutex
	live map[string]message.SenderProof // by instance, of running plugins
}

// Serving has the proof of a running plugin count instead of the installed one's, which may be of another version, until end is called.
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

// Under returns the proofs under a configuration, by channel instance. A plugin that does not say what its platform proves, or is not
// there to be asked, proves nothing.
func (p *Proofs) Under(c *config.Config) func(instance string) message.SenderProof {
	installed := make(map[string]message.SenderProof, len(c.Channels))
	for name, channel := range c.Channels {
		if m, err := manifestOf(c, channel.Plugin); err == nil { // the start of the instance reports the error
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
	if _, err := os.Stat(c.Plugins.Dir); err != nil {
		return plugin.Manifest{}, err // reading creates no folder
	}
	s, err := plugin.OpenStore(c.Plugins.Dir)
	if err != nil {
		return plugin.Manifest{}, err
	}
	return s.VerifiedManifest(name)
}
