package tool

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/flynnhost/flynn/host/internal/schema"
	"github.com/flynnhost/flynn/host/model"
)

// Registry holds the existing tools by name; profiles and Enforcer decide who may use
// them. Safe for concurrent use.
type Registry struct {
	mu      sync.RWMutex
	entries map[string]entry
}

// entry keeps the spec as it was at registration, so that a tool cannot change
// its effect class later.
type entry struct {
	tool   Tool
	spec   Spec
	schema func() (*schema.Schema, error) // compiles it once
}

// NewRegistry returns a registry without tools.
func NewRegistry() *Registry {
	return &Registry{entries: map[string]entry{}}
}

// Register adds a tool. A name that is taken, a malformed name, an unknown effect class
// and a schema that does not compile are errors.
func (r *Registry) Register(t Tool) error {
	e, err := newSoundEntry(t)
	if err != nil {
		return err
	}
	return r.add(e)
}

// RegisterOwn adds a built-in tool. Its schema is compiled when its arguments are first checked, to save time at the start; if that fails,
// its calls are denied.
func (r *Registry) RegisterOwn(t Tool) error {
	e, err := newEntry(t)
	if err != nil {
		return err
	}
	return r.add(e)
}

func (r *Registry) add(e entry) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, taken := r.entries[e.spec.Name]; taken {
		return fmt.Errorf("register tool %q: the name is taken; use Replace to exchange it", e.spec.Name)
	}
	r.entries[e.spec.Name] = e
	return nil
}

// Replace exchanges the tool of the same name, which must be registered.
func (r *Registry) Replace(t Tool) error {
	e, err := newSoundEntry(t)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.entries[e.spec.Name]; !known {
		return fmt.Errorf("replace tool %q: it is not registered; use Register to add it", e.spec.Name)
	}
	r.entries[e.spec.Name] = e
	return nil
}

// Remove removes a tool and reports whether it was registered.
func (r *Registry) Remove(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, known := r.entries[name]
	delete(r.entries, name)
	return known
}

// Clone returns a registry with the same tools that changes independently afterwards.
func (r *Registry) Clone() *Registry {
	r.mu.RLock()
	defer r.mu.RUnlock()
	c := NewRegistry()
	for name, e := range r.entries {
		c.entries[name] = e
	}
	return c
}

// Get returns the tool of that name.
func (r *Registry) Get(name string) (Tool, bool) {
	e, ok := r.lookup(name)
	return e.tool, ok
}

// List returns the specs of all tools, sorted by name.
func (r *Registry) List() []Spec {
	r.mu.RLock()
	defer r.mu.RUnlock()
	specs := make([]Spec, 0, len(r.entries))
	for _, e := range r.entries {
		specs = append(specs, e.spec)
	}
	slices.SortFunc(specs, func(a, b Spec) int { return strings.Compare(a.Name, b.Name) })
	return specs
}

// ForModel describes the tools of a set to a model, sorted by name so that a
// provider's prompt cache finds the same bytes again.
func (r *Registry) ForModel(offered Set) []model.Tool {
	var tools []model.Tool
	for _, s := range r.List() {
		if offered.Has(s.Name) {
			tools = append(tools, model.Tool{Name: s.Name, Description: s.Description, Schema: s.Schema})
		}
	}
	return tools
}

func (r *Registry) lookup(name string) (entry, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	e, ok := r.entries[name]
	return e, ok
}

// validName reports whether a name has the form of tool names: two to four parts, the first of at most 32 lower-case
// characters, the others of at most 64. A regular expression would take a millisecond of every start to compile.
func validName(name string) bool {
	parts := strings.Split(name, ".")
	if len(parts) < 2 || len(parts) > 4 {
		return false
	}
	for i, part := range parts {
		first := i == 0
		if part == "" || first && len(part) > 32 || len(part) > 64 {
			return false
		}
		for j, c := range []byte(part) {
			lower, upper, digit := c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9'
			inside := j > 0 && (c == '_' || c == '-' || upper && !first)
			if !lower && !inside && (!digit || first && j == 0) {
				return false
			}
		}
	}
	return true
}

func newEntry(t Tool) (entry, error) {
	spec := t.Spec()
	if !validName(spec.Name) {
		return entry{}, fmt.Errorf("register tool %q: a name is two to four parts joined by dots, such as %q", spec.Name, "shell.exec")
	}
	switch spec.Effect {
	case Read, Write, Network, Execute, Destructive:
	default:
		return entry{}, fmt.Errorf("register tool %q: effect %q is none of read, write, network, execute, destructive", spec.Name, spec.Effect)
	}
	return entry{tool: t, spec: spec, schema: sync.OnceValues(func() (*schema.Schema, error) { return compileSchema(spec.Schema) })}, nil
}

// newSoundEntry is newEntry with a schema that compiles.
func newSoundEntry(t Tool) (entry, error) {
	e, err := newEntry(t)
	if err != nil {
		return entry{}, err
	}
	if _, err := e.schema(); err != nil {
		return entry{}, fmt.Errorf("register tool %q: compile schema: %w", e.spec.Name, err)
	}
	return e, nil
}
