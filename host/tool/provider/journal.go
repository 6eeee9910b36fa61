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

// Ledger remembers, in a file, what each tool said of itself last. A server that shows a harmless tool until somebody trusts it, and
// then another one under its name, is found out by it, also when the change came with a restart.
type Ledger struct {
	path string
	now  func() time.Time

	mu   sync.Mutex
	book map[string]map[string]Entry // by provider and the tool's own name
}

// Entry is what is known of one tool.
type Entry struct {
	Digest  string    `json:"digest"`
	First   time.Time `json:"first"`            // seen at all
	Was     string    `json:"was,omitempty"`    // the digest before
	Changed time.Time `json:"changed,omitzero"` // from Was
}

// Change is a tool that says something else than before.
type Change struct{ Tool, Was, Now string }

// maxEntries bounds the tools of one provider that are remembered.
const maxEntries = 1024

// OpenLedger reads the ledger at path, which need not be there. One that cannot be read is an error: who could break it
// could hide a change.
func OpenLedger(path string) (*Ledger, error) {
	l := &Ledger{path: path, now: time.Now, book: map[string]map[string]Entry{}}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &l.book)
	}
	if err != nil {
		return nil, fmt.Errorf("read what tools said of themselves: %s: %w; remove the file to begin anew", path, err)
	}
	return l, nil
}

// Note takes down the tools of a provider and returns those that have changed.
func (l *Ledger) Note(provider string, offers []offer) ([]Change, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	page := l.book[provider]
	if page == nil {
		page = map[string]Entry{}
		l.book[provider] = page
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
	text, err := json.MarshalIndent(l.book, "", "  ")
	if err != nil {
		return changes, err
	}
	return changes, durable.WriteFile(l.path, text, 0o600)
}

// Entry returns what is known of a tool.
func (l *Ledger) Entry(provider, name string) Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.book[provider][name]
}
