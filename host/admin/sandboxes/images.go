package sandboxes

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/image"
	"github.com/flynnhost/flynn/host/sandbox/launch"
	"github.com/flynnhost/flynn/host/sandbox/spec"
)

// Rebuilt is an image that was rebuilt.
type Rebuilt struct {
	Sandbox  string         `json:"sandbox"`
	Strategy string         `json:"strategy"`
	Image    string         `json:"image"`
	Removed  []driver.Owned `json:"-"` // the previous images
}

// Rebuild rebuilds the image of the sandbox of that name; "" means [sandbox].
func (a *Admin) Rebuild(ctx context.Context, name string, log *slog.Logger) (Rebuilt, error) {
	spec, err := a.Spec(name)
	if err != nil {
		return Rebuilt{}, err
	}
	r := Rebuilt{Sandbox: name}
	spec = spec.WithDefaults()
	err = a.withManager(ctx, log, func(m *sandbox.Manager) error {
		for _, of := range beside(spec) {
			if _, _, err := m.Images().Rebuild(ctx, of); err != nil {
				return err
			}
		}
		plan, removed, err := m.Images().Rebuild(ctx, spec)
		r.Strategy, r.Image, r.Removed = strategy(spec), plan.Ref, removed
		return err
	})
	return r, err
}

// beside returns specifications with the images of the services beside the one where commands run.
func beside(wanted spec.Spec) (all []spec.Spec) {
	if wanted.Compose == nil {
		return nil
	}
	seen := map[string]bool{wanted.Image: true}
	for _, service := range wanted.Compose.Services {
		if !seen[service.Image] {
			seen[service.Image] = true
			all = append(all, spec.Spec{Image: service.Image})
		}
	}
	return all
}

// strategy returns how the image of a sandbox is built.
func strategy(spec spec.Spec) string {
	if spec.Compose != nil {
		return "compose"
	}
	return spec.Recipe().Strategy()
}

// endTimeout bounds the shutdown of a manager without sandboxes.
const endTimeout = 30 * time.Second

func (a *Admin) withManager(ctx context.Context, log *slog.Logger, use func(*sandbox.Manager) error) error {
	manager, err := a.Manager(log)
	if err != nil {
		return err
	}
	err = use(manager)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	return errors.Join(err, manager.DestroyAll(ctx))
}

// Prepared returns the specification with its image replaced by one that has been built.
func (a *Admin) Prepared(ctx context.Context, wanted spec.Spec, log *slog.Logger) (spec.Spec, error) {
	if wanted.Recipe().Strategy() == image.AsIs {
		return wanted, nil
	}
	prepared := wanted
	err := a.withManager(ctx, log, func(m *sandbox.Manager) (err error) { prepared, err = m.Prepared(ctx, wanted); return err })
	return prepared, err
}

// imageNames returns a function that returns a sandbox's image and strategy. If the image cannot be resolved, because there is no engine or
// the image that it starts from is missing, it returns the configured name.
func (a *Admin) imageNames(ctx context.Context, engine bool) func(made spec.Spec) (ref, strategy string) {
	makes, ok := a.Driver.(image.Engine)
	if _, plugged := a.Driver.(driver.Dialed); plugged && !ok {
		return func(made spec.Spec) (string, string) {
			return made.WithDefaults().Image, string(made.Recipe().Strategy())
		}
	}
	if !ok {
		return func(made spec.Spec) (string, string) {
			if filepath.IsAbs(made.Image) {
				return made.Image, "native"
			}
			return "this machine's programs", "native"
		}
	}
	builder := image.New(image.Config{
		Engine: makes, Instance: a.Instance, Repository: launch.ImageRepository(a.Instance),
		Hidden: func() []string { return a.MountRules().Hidden },
	})
	known := map[string]image.Plan{}
	return func(made spec.Spec) (string, string) {
		made = made.WithDefaults() // the image of a compose file's service is that of its sandbox
		digest := made.Digest()
		plan, is := known[digest]
		if is {
			return plan.Ref, plan.Strategy
		}
		err := errors.ErrUnsupported
		if engine {
			plan, err = builder.Resolve(ctx, made.Recipe())
		}
		if err != nil {
			plan = image.Plan{Ref: made.Image + made.Dockerfile}
		}
		plan.Strategy = strategy(made)
		known[digest] = plan
		return plan.Ref, plan.Strategy
	}
}
