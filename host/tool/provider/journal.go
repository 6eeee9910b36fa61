package provider

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/internal/durable"
)

// Journal records in a file the last description of each tool. It detects a server that shows a harmless tool until somebody trusts it,
// and then another one under the same name, even if a restart lies between the two.
type Journal struct {
	path string
	now  func() time.Time

	mu    sync.Mutex
	tools map[string]map[string]Entry // by provider and the tool's own name
}

// Entry is the record of one tool.
type Entry struct {
	Digest  string    `json:"digest"`
	First   time.Time `json:"first"`            // seen
	Was     string    `json:"was,omitempty"`    // the digest before
	Changed time.Time `json:"changed,omitzero"` // from Was
}

// Change is a tool with another description than before.
type Change struct{ Tool, Was, Now string }

// maxEntries bounds the recorded tools of one provider.
const maxEntries = 1024

// OpenJournal reads the journal at path, which need not exist. A journal that cannot be read is an error: damaging it must not
// hide a change.
func OpenJournal(path string) (*Journal, error) {
	l := &Journal{path: path, now: time.Now, tools: map[string]map[string]Entry{}}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &l.tools)
	}
	if err != nil {
		return nil, fmt.Errorf("read the journal of tools %s: %w; remove the file to begin anew", path, err)
	}
	return l, nil
}

// Record records the tools of a provider and returns those that have changed.
func (l *Journal) Record(provider string, offers []offer) ([]Change, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	page := l.tools[provider]
	if page == nil {
		page = map[string]Entry{}
		l.tools[provider] = page
	}
	var changes []Change
	news := false
	for _, o := range offers {
		e, known := page[o.spec.Name]
		switch {
		case !known && len(page) < maxEntries:
			page[o.spec.Name] = Entry{Digest: o.digest, First: l.now().UTC()}
			news = true
		case known && e.Digest != o.digest:
			changes = append(changes, Change{o.spec.Name, e.Digest, o.digest})
			e.Was, e.Digest, e.Changed = e.Digest, o.digest, l.now().UTC()
			page[o.spec.Name] = e
		}
	}
	if !news && len(changes) == 0 {
		return nil, nil
	}
	text, err := json.MarshalIndent(l.tools, "", "  ")
	if err != nil {
		return changes, err
	}
	return changes, durable.WriteFile(l.path, text, 0o600)
}

// Entry returns the record of a tool.
func (l *Journal) Entry(provider, name string) Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tools[provider][name]
}
