package doctor

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/flynnhost/flynn/host/admin/lint"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/client"
	"github.com/flynnhost/flynn/host/observe/hostlog"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/policy/configured"
)

// Subject is a Flynn to look at.
type Subject struct {
	// Path is the configuration file.
	Path   string
	Getenv func(string) string
	// Checks are those of flynn serve.
	Checks []config.Check
	// Launcher is the command that runs plugins in a jail, Version that of this program.
	Launcher []string
	Version  string
	// Log says what is built.
	Log *slog.Logger
	// Host is what the host that looks at itself reports. Without it the running host is asked over its gateway, if one runs.
	Host func(ctx context.Context) *Running
}

// input is what a subject consists of.
type input struct {
	// Config is what the file says; it may lack secrets. LoadError says why it cannot be loaded: then Config is nil.
	Config    *config.Config
	LoadError error
	// Missing are the secrets that this process does not have.
	Missing config.Errors
	// Warnings are those of flynn config check.
	Warnings []config.Error
	Sources  []policy.Source // the policies of Config
	// Running is the host that runs on the configuration; nil if none answers. Then Unanswered says why, if anything listens at all.
	Running    *Running
	Unanswered error
}

// Running is what the running host reports.
type Running struct {
	Status  gateway.Status
	Plugins []gateway.PluginStatus
	Repeats []hostlog.Repeat
	Cluster gateway.ClusterStatus
}

func (s Subject) load(ctx context.Context) (in input) {
	if in.Config, in.LoadError = config.LoadBeside(s.Path, s.Getenv, s.Checks...); in.LoadError != nil {
		in.Config = nil
		return in
	}
	switch whole, err := config.Load(s.Path, s.Getenv, s.Checks...); {
	case err == nil:
		in.Config = whole
	case !errors.As(err, &in.Missing): // the file changes under our eyes
		in.Config, in.LoadError = nil, err
		return in
	}
	in.Sources = configured.Sources(in.Config, s.Log)
	in.Warnings = lint.All(in.Config, in.Sources)
	if s.Host != nil {
		in.Running = s.Host(ctx)
	} else {
		in.Running, in.Unanswered = ask(ctx, in.Config)
	}
	return in
}

// askTimeout bounds the answers of the running host.
const askTimeout = 5 * time.Second

// ask asks the running host; nil if none answers.
func ask(ctx context.Context, c *config.Config) (*Running, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var r Running
	for path, answer := range map[string]any{"/api/v1/status": &r.Status, "/api/v1/plugins": &r.Plugins, "/api/v1/logs/repeats": &r.Repeats, "/api/v1/cluster": &r.Cluster} {
		err := client.Get(ctx, c, path, answer)
		if errors.Is(err, client.ErrNotRunning) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return &r, nil
}
