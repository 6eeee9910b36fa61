package doctor

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/admin/preflight"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/fleet"
	"github.com/flynnhost/flynn/host/sandbox/fleet/drivers"
	"github.com/flynnhost/flynn/host/sandbox/fleet/specs"
	"github.com/flynnhost/flynn/host/sandbox/image"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/program"
)

func checkSandbox(ctx context.Context, x *exam) {
	s := x.Config.Sandbox
	if !s.Enabled {
		return
	}
	if s.OnUnavailable == "host" {
		x.at(Finding{Code: SandboxFallsBack, What: `on_unavailable = "host"`, Mend: `write on_unavailable = "deny", or remove the line`}, "sandbox", "on_unavailable")
	}
	if x.Running == nil {
		x.supervisor(ctx)
	}
	if x.engine(ctx) {
		x.engineHas(ctx)
	}
}

// supervisor looks for the program that is the first process of every sandbox.
func (x *exam) supervisor(ctx context.Context) {
	err, ended := within(ctx, func() error {
		_, err := program.FindSupervisor(slog.New(slog.DiscardHandler))
		return err
	})
	switch {
	case !ended:
		x.unexamined("the program flynn-sandboxd, because it is still being built")
	case err != nil:
		x.add(Finding{Code: SandboxSupervisor, What: err.Error(), Mend: "install Flynn again, as a whole: flynn-sandboxd lies beside flynn in a release"})
	}
}

// engine reports whether the engine answers, and holds the limits that the configuration relies on.
func (x *exam) engine(ctx context.Context) bool {
	why, lacks := "", false
	if x.Running != nil { // it may be in other control groups than this command
		if s := x.Running.Status.Sandbox; s.Enabled && !s.Available {
			why, lacks = s.Detail, len(s.Lacks) > 0
		}
	} else if err := preflight.Answers(ctx, x.Config, x.Launcher); err != nil {
		why, lacks = machine.Reason(err), len(x.unheld(ctx)) > 0
	}
	if why == "" {
		return true
	}
	if strings.Contains(why, drivers.ErrNotHeld.Error()) {
		x.at(Finding{Code: DriverRefused, What: why, Mend: "mend the plugin or its engine, and test it again", Command: "flynn sandbox selftest"}, "sandbox", "engine")
		return false
	}
	if lacks {
		x.at(Finding{Code: LimitRefused, What: why, Mend: withControlGroups + `; or write limits = "best-effort" under [sandbox]`}, "sandbox", "enabled")
		return false
	}
	command := "systemctl start docker"
	if x.system == "darwin" {
		command = "open -a Docker"
	}
	x.at(Finding{Code: EngineSilent, What: why, Mend: "start the engine, or name it with engine under [sandbox]", Command: command}, "sandbox", "enabled")
	return false
}

const withControlGroups = "run Flynn as a systemd service with Delegate=yes, or use a container engine"

// unheld returns the limits that the engine, as this command sees it, cannot hold.
func (x *exam) unheld(ctx context.Context) []string {
	e, err := fleet.Open(ctx, x.Config, x.Launcher, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil
	}
	defer e.Close()
	engine, err := e.Capabilities(ctx)
	if err != nil {
		return nil
	}
	return engine.Lacking()
}

// engineHas looks for the runtimes and images of all sandboxes.
func (x *exam) engineHas(ctx context.Context) {
	e, err := fleet.Open(ctx, x.Config, x.Launcher, slog.New(slog.DiscardHandler))
	if err != nil {
		return
	}
	defer e.Close()
	engine, err := e.Capabilities(ctx)
	if err != nil {
		x.unexamined("runtimes and images of the engine, because it does not answer here")
		return
	}
	lacks := engine.Lacking()
	if x.Running != nil {
		lacks = x.Running.Status.Sandbox.Lacks
	}
	for _, limit := range lacks {
		x.at(Finding{Code: EngineLacks, What: "not held: " + limit, Mend: withControlGroups}, "sandbox", "enabled")
	}
	seen := map[string]bool{}
	for _, name := range append([]string{""}, slices.Sorted(maps.Keys(x.Config.Sandboxes))...) {
		s, table := x.Config.Sandbox, []string{"sandbox"}
		if name != "" {
			s, table = x.Config.Sandboxes[name], []string{"sandboxes", name}
		}
		if err := engine.Supports(specs.Of(s).DriverNetwork(), s.Runtime, true); err != nil && !seen["runtime "+s.Runtime] {
			seen["runtime "+s.Runtime] = true
			x.at(Finding{Code: EngineRuntime, What: machine.Reason(err), Mend: "install the runtime, or remove runtime there",
				Command: "docker info --format '{{.Runtimes}}'"},
				append(table, "runtime")...)
		}
		made := specs.Of(s)
		for _, missing := range engine.Missing(made.Requires) {
			x.at(Finding{Code: FeatureRefused, What: engine.Engine + " does not hold " + string(missing), Mend: missing.Mend() + "; or write it in prefers"}, append(table, "requires")...)
		}
		for _, missing := range engine.Missing(made.Prefers) {
			x.at(Finding{Code: EngineFeature, What: "not held: " + string(missing), Mend: missing.Mend()}, append(table, "prefers")...)
		}
		x.image(ctx, e, s, table, seen)
	}
}

func (x *exam) image(ctx context.Context, e fleet.Engine, s config.Sandbox, table []string, seen map[string]bool) {
	if s.Dockerfile != "" || s.Compose != "" || seen["image "+s.Image] {
		return // built at the first use
	}
	seen["image "+s.Image] = true
	inspector, ok := e.(driver.Inspector)
	if !ok {
		return // a native sandbox shows this machine's programs
	}
	if _, err := inspector.InspectImage(ctx, s.Image); !errors.Is(err, image.ErrNoImage) {
		return
	}
	on := ""
	if e := cmp.Or(s.Engine, x.Config.Sandbox.Engine); e != "" {
		on = "--host " + config.ShellWord(e) + " "
	}
	x.at(Finding{Code: SandboxImage, What: "the engine does not have the image " + s.Image, Mend: "fetch it",
		Command: "docker " + on + "pull " + config.ShellWord(s.Image)}, append(table, "image")...)
}
