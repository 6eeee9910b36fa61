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
	l, err := s.readLock()
	if err != nil {
		return Senders{}, err
	}
	c, ok := l.choice(name)
	if !ok {
		return Senders{}, s.notInstalled(l, name)
	}
	locked, ok := l.release(name, c.Active)
	if !ok {
		return Senders{}, s.notInstalled(l, name)
	}
	t, err := openTree(s.folder(locked))
	if err != nil {
		return Senders{}, err
	}
	defer t.close()
	f, err := t.verifyFile(ManifestName, locked.Files[ManifestName])
	if err != nil {
		return Senders{}, err
	}
	_ = f.Close()
	m, err := t.manifest()
	return m.senders(), err
}

// ReadSenders reads what the plugin in a folder says.
func ReadSenders(dir string) (Senders, error) {
	t, err := openTree(dir)
	if err != nil {
		return Senders{}, err
	}
	defer t.close()
	m, err := t.manifest()
	return m.senders(), err
}
