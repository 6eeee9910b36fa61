package reconcile

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox/container"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/spec"
)

// The labels of a container cannot change, so those of a pooled one do not name its session. A file in the instance's folder does, for
// commands in other processes and while no host runs.

const ownerPrefix = "owner-"

// claimed records the owner of a container, by key.
type claimed struct {
	Session message.WorkspaceKey `json:"session"`
	Sandbox string               `json:"sandbox"`
}

func ownerPath(run, key string) string { return filepath.Join(run, ownerPrefix+key) }

// NoteOwner records the session to which a pooled container was given.
func (r *Reconciler) NoteOwner(c *container.Container, session message.WorkspaceKey, sandbox string) {
	text, err := json.Marshal(claimed{session, sandbox})
	if err == nil {
		err = os.WriteFile(ownerPath(r.config.Run, c.Key()), text, 0o600)
	}
	if err != nil {
		r.log.Warn("cannot record the owner of a warm sandbox", "container", c.ID(), "session", session, "error", err)
	}
}

// WithOwners returns containers of an instance with their labels changed to those of containers made for their current sessions. run is the
// instance's folder.
func WithOwners(run string, owned []driver.Owned) []driver.Owned {
	var all []driver.Owned
	for _, o := range owned {
		if key := o.Labels[driver.LabelKey]; o.Labels[driver.LabelSession] == "" && spec.IsKey(key) {
			var c claimed
			if text, err := os.ReadFile(ownerPath(run, key)); err == nil && json.Unmarshal(text, &c) == nil {
				o.Labels = maps.Clone(o.Labels)
				o.Labels[driver.LabelSession], o.Labels[driver.LabelSandbox] = string(c.Session), c.Sandbox
			}
		}
		all = append(all, o)
	}
	return all
}

// clearOwners removes the records of containers that are gone; listed are the existing ones.
func (r *Reconciler) clearOwners(listed []driver.Owned) error {
	there := map[string]bool{}
	for _, o := range listed {
		there[o.Labels[driver.LabelKey]] = true
	}
	paths, all := filepath.Glob(ownerPath(r.config.Run, "*"))
	for _, path := range paths {
		if key := strings.TrimPrefix(filepath.Base(path), ownerPrefix); !there[key] && !r.config.Keys.Holds(key) {
			all = errors.Join(all, os.Remove(path))
		}
	}
	return all
}
