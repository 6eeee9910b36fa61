package doctor

import (
	"context"
	"errors"
	"os"

	"github.com/flynnhost/flynn/host/admin/preflight"
	"github.com/flynnhost/flynn/host/plugin"
	"github.com/flynnhost/flynn/host/sandbox/fleet"
	"github.com/flynnhost/flynn/host/sandbox/image"
)

func checkEngine(ctx context.Context, in Input) []Finding {
	c := in.Config
	if !c.Sandbox.Enabled {
		return nil
	}
	if silent := ofErrors(EngineSilent, preflight.Engine(ctx, c)); len(silent) > 0 {
		for i := range silent {
			silent[i].Mend = "start the engine (systemctl start docker), or name it with engine under [sandbox]"
		}
		return silent
	}
	driver, err := fleet.Driver(c.Sandbox)
	if err != nil {
		return []Finding{find(EngineSilent, "flynn config check", "%v", err)}
	}
	defer driver.Close()
	var out []Finding
	if engine, err := driver.Capabilities(ctx); err == nil {
		if err := engine.Supports(c.Sandbox.Runtime); err != nil {
			out = append(out, find(RuntimeMissing, "install the runtime, or remove runtime under [sandbox]", "%v", err).at(c, "sandbox", "runtime"))
		}
	}
	if c.Sandbox.Dockerfile == "" && c.Sandbox.Compose == "" {
		if _, err := driver.InspectImage(ctx, c.Sandbox.Image); errors.Is(err, image.ErrNoImage) {
			out = append(out, find(ImageMissing, "docker pull "+c.Sandbox.Image, "%v", err).at(c, "sandbox", "image"))
		}
	}
	return out
}

func checkPlugins(_ context.Context, in Input) []Finding {
	c := in.Config
	out := ofErrors(PluginMissing, preflight.Plugins(c))
	if _, err := os.Stat(c.Plugins.Dir); err != nil {
		return out // looking must not create it
	}
	s, err := plugin.OpenStore(c.Plugins.Dir)
	if err != nil {
		return append(out, find(PluginChanged, "flynn plugin list", "%v", err))
	}
	list, err := s.List()
	if err != nil {
		return append(out, find(PluginChanged, "flynn plugin list", "%v", err))
	}
	for _, p := range list {
		if _, err := s.Verify(p.Name); err != nil {
			out = append(out, find(PluginChanged, "flynn plugin remove "+p.Name+" --force, and install it again", "%v", err))
		}
	}
	return out
}
