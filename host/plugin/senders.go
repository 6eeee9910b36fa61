package plugin

import (
	"maps"

	"github.com/flynnhost/flynn/host/message"
)

// Senders is what the manifest of a plugin says about the ids of its senders.
type Senders struct {
	proof       message.SenderProof
	claimedWhen map[string]any
}

// Under returns what holds for an instance with those settings.
func (s Senders) Under(settings map[string]any) message.SenderProof {
	for key, value := range s.claimedWhen {
		if settings[key] == value {
			return message.SendersAccepted
		}
	}
	return s.proof
}

func (m *Manifest) senders() Senders {
	return Senders{proof: m.Channel.Senders, claimedWhen: maps.Clone(m.Channel.ClaimedWhen)}
}

// Senders reads what the active version of an installed plugin says. Of its files the manifest alone is verified.
func (s *Store) Senders(name string) (Senders, error) {
	m, err := s.VerifiedManifest(name)
	return m.senders(), err
}

// ReadSenders reads what the plugin in a folder says.
func ReadSenders(dir string) (Senders, error) {
	t, err := openTree(dir)
	if err != nil {
		return Senders{}, err
	}
	defer t.Close()
	m, err := t.manifest()
	return m.senders(), err
}
