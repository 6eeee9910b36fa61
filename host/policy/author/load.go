package author

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"github.com/flynnhost/flynn/host/policy"
)

// loaded is a policy's folder with its built module.
type loaded struct {
	manifest Manifest
	path     string // of the module
	sha256   string
	cache    string // compiled code
	forget   func() error
	mode     Mode
}

// load reads a folder. The caller closes what it gets.
func load(dir string) (*loaded, error) {
	m, err := LoadManifest(dir)
	if err != nil {
		return nil, err
	}
	wasm, err := readModule(m, dir)
	if err != nil {
		return nil, err
	}
	return loadAs(m, m.modulePath(dir), wasm)
}

// loadAs takes the module at another path than the manifest's.
func loadAs(m Manifest, path string, wasm []byte) (*loaded, error) {
	cache, forget, err := codeCache()
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(wasm)
	return &loaded{manifest: m, path: path, sha256: hex.EncodeToString(sum[:]), cache: cache, forget: forget}, nil
}

// Close removes compiled code that has no place to stay.
func (p *loaded) Close() error { return p.forget() }

// open loads the module into an engine as a host would, with the manifest's limits and the case's data.
func (p *loaded) open(ctx context.Context, c Case) (asker, error) {
	q := &question{}
	engine, err := policy.New(ctx, policy.Config{
		CacheDir: p.cache, CountBlocks: p.mode.Count,
		Gate: policy.GateFunc(func(_ context.Context, c policy.Candidate) error {
			q.module = c.Module
			return nil
		}),
		Sources: []policy.Source{p.source(c)},
	})
	if err != nil {
		return nil, err
	}
	q.engine = engine
	if s := engine.Status()[0]; s.State != policy.StateRunning {
		return nil, errors.Join(errors.New(s.Error), engine.Close())
	}
	return q, nil
}

// caseWall is how long a decision of a case may take, whatever its manifest says: how busy a machine is decides no case. The fuel does.
const caseWall = 10 * time.Second

// openCase is open for a case that has to come out as it says, or that is explained.
func (p *loaded) openCase(ctx context.Context, c Case) (asker, error) {
	patient := *p
	patient.mode.Wall = caseWall
	return patient.open(ctx, c)
}

// source is the policy as a host would configure it for the case.
func (p *loaded) source(c Case) policy.Source {
	limits := p.manifest.Limits.Policy()
	if p.mode.Room > 0 {
		limits = limits.Times(p.mode.Room)
	}
	limits.Wall = cmp.Or(p.mode.Wall, limits.Wall)
	return policy.Source{
		Name: p.manifest.Name, Path: p.path, Kinds: p.manifest.Kinds, Data: c.Data,
		Limits:    limits,
		Isolation: p.mode.Isolation,
	}
}

// question asks a module that an engine has loaded.
type question struct {
	engine *policy.Engine
	module *policy.Module
}

func (q *question) Close() error { return q.engine.Close() }

func (q *question) ask(ctx context.Context, c Case) answered {
	if c.Kind == kindTool {
		return toolAnswered(q.module.Tool(ctx, c.tool()))
	}
	return routeAnswered(q.module.Route(ctx, c.route()))
}

func (q *question) askFrame(ctx context.Context, c Case, frame []byte) answered {
	if c.Kind == kindTool {
		return toolAnswered(q.module.ToolFrame(ctx, frame, c.tool()))
	}
	return routeAnswered(q.module.RouteFrame(ctx, frame, c.route()))
}

func routeAnswered(a policy.RouteAnswer, r policy.Record) answered {
	return answered{routeOutcome(a, r), r}
}

func toolAnswered(a policy.Restrictions, r policy.Record) answered {
	return answered{toolOutcome(a, r), r}
}
