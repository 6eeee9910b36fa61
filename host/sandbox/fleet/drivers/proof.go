package drivers

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/install/digest"
	"github.com/flynnhost/flynn/host/internal/durable"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/spec"
)

// Reliance is what a container relies on its driver for. How large a limit is does not matter for whether it holds.
type Reliance struct {
	Network    string `json:"network"`
	Runtime    string `json:"runtime,omitempty"`
	BestEffort bool   `json:"best_effort,omitempty"`
	Unfiltered bool   `json:"unfiltered,omitempty"`
}

// RelianceOf returns the reliance of a container.
func RelianceOf(c driver.Container) Reliance {
	return Reliance{c.Network, c.Runtime, c.BestEffort, c.Unfiltered}
}

// RelianceOn returns the reliance of the containers of a specification.
func RelianceOn(s spec.Spec) Reliance {
	s = s.WithDefaults()
	return Reliance{s.DriverNetwork(), s.Runtime, s.BestEffort, s.Unfiltered()}
}

func (r Reliance) String() string {
	text := "network " + r.Network
	if r.Runtime != "" {
		text += ", runtime " + r.Runtime
	}
	if r.BestEffort {
		text += ", limits best-effort"
	}
	if r.Unfiltered {
		text += ", seccomp preferred"
	}
	return text
}

// Row is an attack that succeeded.
type Row struct {
	Name    string `json:"name"`
	Detail  string `json:"detail"`
	Setting string `json:"setting"`
}

// Proof is the outcome of a self-test.
type Proof struct {
	Key      string    `json:"key"` // digest of all that the outcome depends on
	Driver   string    `json:"driver"`
	Engine   string    `json:"engine"`
	Reliance Reliance  `json:"reliance"`
	Tested   time.Time `json:"tested"`
	Failed   []Row     `json:"failed,omitempty"` // none: it held
}

// Errors of a driver that may not be used.
var (
	// ErrUntested is the error while nothing is known.
	ErrUntested = errors.New("it was not tested yet: run flynn sandbox selftest")
	// ErrNotHeld is the error after a self-test that failed.
	ErrNotHeld = errors.New("a self-test showed that it does not hold what [sandbox] relies on")
)

// Proved returns nil if a self-test has passed for what a container relies on. Otherwise the error wraps ErrUntested or ErrNotHeld.
func (d *Driver) Proved(ctx context.Context, r Reliance) error {
	key, err := d.key(ctx, r)
	if err != nil {
		return err
	}
	proof, err := d.proofs.find(key)
	switch {
	case err != nil:
	case proof == nil:
		err = fmt.Errorf("driver %s may not be used with %s: %w", d.name, r, ErrUntested)
	case len(proof.Failed) > 0:
		err = fmt.Errorf("driver %s may not be used with %s: %w: %s. Mend the plugin or its engine, or change that, and run flynn sandbox selftest",
			d.name, r, ErrNotHeld, proof.rows())
	default:
		return nil
	}
	return fmt.Errorf("%w: %w", machine.ErrUnavailable, err)
}

// maxShown is how many rows an error names.
const maxShown = 3

func (p *Proof) rows() string {
	var words []string
	for i, row := range p.Failed {
		if i == maxShown {
			words = append(words, fmt.Sprintf("and %d more", len(p.Failed)-i))
			break
		}
		words = append(words, fmt.Sprintf("%s (%s; %s)", row.Name, row.Detail, row.Setting))
	}
	return strings.Join(words, ", ")
}

// Record keeps the outcome of a self-test that ran with these reliances: the rows that failed, or none.
func (d *Driver) Record(ctx context.Context, r Reliance, failed []Row) error {
	key, err := d.key(ctx, r)
	if err != nil {
		return err
	}
	has, err := d.known(ctx)
	if err != nil {
		return err
	}
	return d.proofs.add(Proof{Key: key, Driver: d.name, Engine: has.Engine, Reliance: r, Tested: time.Now().UTC(), Failed: failed})
}

// key names all that the outcome of a self-test depends on: the release of the plugin, its settings, the engine, what both claim to lack and
// to have, and what is relied on.
func (d *Driver) key(ctx context.Context, r Reliance) (string, error) {
	client, err := d.now()
	if err != nil {
		return "", err
	}
	has, err := d.known(ctx)
	if err != nil {
		return "", err
	}
	var lacks []driver.Limit
	for _, l := range has.Lacks {
		lacks = append(lacks, l.Limit)
	}
	slices.Sort(lacks)
	text, err := json.Marshal([]any{client.Release, client.Settings, has.Engine, lacks, slices.Sorted(slices.Values(has.Features)), r})
	if err != nil {
		return "", fmt.Errorf("name the release of driver %s: %w", d.name, err)
	}
	return digest.Of(text), nil
}

// Untested is the driver without the gate, for the self-test alone.
type Untested struct{ *Driver }

// Create implements driver.Driver.
func (u Untested) Create(ctx context.Context, c driver.Container) (string, error) {
	return u.create(ctx, c)
}

// Untested returns the driver without the gate.
func (d *Driver) Untested() Untested { return Untested{d} }

const (
	// proofsFile is in the folder of the store.
	proofsFile = "driver-proofs.json"
	// maxProofs is how many the file keeps, and maxFile bounds its size.
	maxProofs = 32
	maxFile   = 4 << 20
)

// Proofs are the outcomes of self-tests, which a host and commands share by a file.
type Proofs struct {
	path string
	mu   sync.Mutex
}

// read returns the proofs, the latest first.
func (p *Proofs) read() ([]Proof, error) {
	info, err := os.Stat(p.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var text []byte
	if err == nil && info.Size() > maxFile {
		err = fmt.Errorf("it has %d bytes, at most %d", info.Size(), maxFile)
	}
	if err == nil {
		text, err = os.ReadFile(p.path)
	}
	var all []Proof
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		return nil, fmt.Errorf("read the outcomes of self-tests in %s: %w: remove the file, and the self-tests run again", p.path, err)
	}
	return all, nil
}

func (p *Proofs) find(key string) (*Proof, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	all, err := p.read()
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(all, func(one Proof) bool { return one.Key == key }); i >= 0 {
		return &all[i], nil
	}
	return nil, nil
}

// add keeps an outcome in place of an earlier one with the same key.
func (p *Proofs) add(one Proof) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	all, err := p.read()
	if err != nil {
		return err
	}
	all = append(slices.DeleteFunc(all, func(old Proof) bool { return old.Key == one.Key }), one)
	slices.SortStableFunc(all, func(a, b Proof) int { return cmp.Compare(b.Tested.UnixNano(), a.Tested.UnixNano()) })
	text, err := json.MarshalIndent(all[:min(len(all), maxProofs)], "", "\t")
	if err != nil {
		return err
	}
	return durable.WriteFile(p.path, text, 0o600)
}
