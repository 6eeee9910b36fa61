package author

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/policy/cover"
)

// Subject is a policy's folder with its built module.
type Subject struct {
	dir      string
	manifest Manifest
	path     string // of the module
	sha256   string
	cache    string // folder of compiled code
	forget   func() error
	mode     Mode // of its cases
}

// OpenSubject reads a folder. The subject has to be closed.
func OpenSubject(dir string) (*Subject, error) {
	m, err := LoadManifest(dir)
	if err != nil {
		return nil, err
	}
	wasm, err := readModule(m, dir)
	if err != nil {
		return nil, err
	}
	return subjectAt(m, dir, m.modulePath(dir), wasm)
}

// subjectAt is OpenSubject with a module that is not in place yet.
func subjectAt(m Manifest, dir, path string, wasm []byte) (*Subject, error) {
	cache, forget, err := codeCache()
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(wasm)
	return &Subject{dir: dir, manifest: m, path: path, sha256: hex.EncodeToString(sum[:]), cache: cache, forget: forget}, nil
}

// Close removes the compiled code if it has no place to stay.
func (s *Subject) Close() error { return s.forget() }

// SHA256 returns that of the module.
func (s *Subject) SHA256() string { return s.sha256 }

// Manifest returns the folder's policy.toml.
func (s *Subject) Manifest() Manifest { return s.manifest }

// Cases reads the folder's cases.
func (s *Subject) Cases() ([]Case, error) { return LoadCases(s.dir, s.manifest) }

// Source returns what the module says about its source, and which part of that is the author's.
func (s *Subject) Source() (*cover.Source, cover.Own, error) {
	wasm, err := readModule(s.manifest, s.dir)
	if err != nil {
		return nil, cover.Own{}, err
	}
	source, err := readSource(s.path, wasm)
	return source, ownCode(s.manifest, s.dir), err
}

// Mode is how a module is loaded where that is not up to the manifest.
type Mode struct {
	Count     bool          // count the blocks that run
	Isolation string        // "" is the default of the policy's kinds
	Wall      time.Duration // 0 is the manifest's
	Room      int64         // multiplies the manifest's limits; 0 is 1
}

// Loading is a loaded module. One goroutine uses it. It has to be closed before its subject.
type Loading struct{ *policy.Module }

// Load loads the module as a host would, with the manifest's limits and the data of a case.
func (s *Subject) Load(ctx context.Context, c Case, mode Mode) (*Loading, error) {
	m, err := policy.OpenWith(ctx, s.source(c, mode), policy.OpenOptions{CacheDir: s.cache, CountBlocks: mode.Count})
	if err != nil {
		return nil, err
	}
	return &Loading{m}, nil
}

// caseWall is how long a decision of a case may take, whatever its manifest says: a busy machine must not fail a case. Fuel bounds it.
const caseWall = 10 * time.Second

// loadCase is Load for a case that is compared or explained.
func (s *Subject) loadCase(ctx context.Context, c Case) (*Loading, error) {
	mode := s.mode
	mode.Wall = caseWall
	return s.Load(ctx, c, mode)
}

// source returns the policy as a host would configure it for the case.
func (s *Subject) source(c Case, mode Mode) policy.Source {
	limits := s.manifest.Limits.Policy()
	if mode.Room > 0 {
		limits = limits.Times(mode.Room)
	}
	limits.Wall = cmp.Or(mode.Wall, limits.Wall)
	return policy.Source{Name: s.manifest.Name, Path: s.path, Kinds: s.manifest.Kinds, Data: c.Data, Limits: limits, Isolation: mode.Isolation}
}

// Ask asks the module the case, whatever the case wants.
func (l *Loading) Ask(ctx context.Context, c Case) (Outcome, policy.Record) {
	r := l.ask(ctx, c, nil)
	return outcomeOf(r), r
}

// ask asks with a frame, or with that of the case if it is nil. Facts that the policy reads lazily come from the case.
func (l *Loading) ask(ctx context.Context, c Case, frame []byte) (r policy.Record) {
	if c.Kind == policy.KindTool {
		_, r = l.ToolFrame(ctx, frame, c.ToolFacts())
	} else {
		_, r = l.RouteFrame(ctx, frame, c.RouteFacts())
	}
	return r
}

// Uses returns what each fact of a case is to the policy, and the policy's calls of the host.
func (l *Loading) Uses(ctx context.Context, c Case) ([]FactUse, []CallMade, error) {
	x, err := l.explain(ctx, c, nil)
	return x.Facts, x.Calls, err
}

// with runs use with the built module of a folder, loaded for the case that find returns.
func with(ctx context.Context, dir string, find func(*Subject) (Case, error), use func(*Loading, Case) error) (err error) {
	s, err := OpenSubject(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	c, err := find(s)
	if err != nil {
		return err
	}
	l, err := s.loadCase(ctx, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	return use(l, c)
}
