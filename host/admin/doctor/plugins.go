package doctor

import (
	"context"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/admin/preflight"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/plugin"
	"github.com/flynnhost/flynn/host/plugin/jail"
)

func checkPlugins(_ context.Context, x *exam) {
	c := x.Config
	for _, e := range preflight.Plugins(c) {
		f := ofError(PluginMissing, e)
		if strings.Contains(e.Hint, "flynn plugin install DIR") {
			f.Command = "flynn plugin install DIR"
		}
		x.add(f)
	}
	x.changed()
	if c.Plugins.Containment == "off" && (len(c.Channels) > 0 || len(c.Tools) > 0 || len(c.UsedDrivers()) > 0) {
		x.at(Finding{Code: PluginLoose, What: `containment = "off"`, Mend: `write containment = "auto", or remove the line`}, "plugins", "containment")
	}
	if x.Running == nil {
		return
	}
	for _, p := range x.Running.Plugins {
		x.loose(p.Name, p.Containment)
		if why := trouble(p); why != "" && c.Tools[p.Name].Enabled {
			x.at(Finding{Code: PluginDown, What: "tools of " + p.Name + ": " + why, Command: "flynn plugin logs " + p.Name}, "tools", p.Name)
		}
	}
	for _, t := range x.Running.Status.Tools {
		for _, problem := range t.Problems {
			x.at(Finding{Code: PluginDown, What: "tools of " + t.Name + ": " + problem, Command: "flynn tool list"}, "tools", t.Name)
		}
	}
}

// changed compares the files of the installed plugins with the lock.
func (x *exam) changed() {
	if _, err := os.Stat(x.Config.Plugins.Dir); err != nil {
		return
	}
	s, err := plugin.OpenStore(x.Config.Plugins.Dir)
	var list []plugin.Locked
	if err == nil {
		list, err = s.List()
	}
	if err != nil {
		x.add(Finding{Code: PluginChanged, What: err.Error(), Command: "flynn plugin list"})
		return
	}
	for _, p := range list {
		if _, err := s.Verify(p.Name); err != nil {
			x.add(Finding{
				Code: PluginChanged, What: err.Error(), Mend: "find out who changed it; then remove it, and install it again",
				Command: "flynn plugin remove --force " + p.Name,
			})
		}
	}
}

// loose reports the restrictions that the process of a plugin does not have. Memory is limited more softly where there are no control groups
// for flynn, which is no finding on Linux.
func (x *exam) loose(name string, measures []gateway.PluginMeasure) {
	if x.Config.Plugins.Containment == "off" {
		return // said already
	}
	off := map[string][]string{}
	for _, m := range measures {
		if !m.On && (m.Name != jail.MeasureMemory || x.system != "linux") {
			off[m.Detail] = append(off[m.Detail], m.Name)
		}
	}
	for _, why := range slices.Sorted(maps.Keys(off)) {
		mend := "run flynn on Linux 5.13 or newer, as its own user"
		if x.system != "linux" {
			mend = "use only plugins that you trust, or run flynn on Linux, such as in a virtual machine"
		}
		x.add(Finding{
			Code: PluginLoose, What: "the plugin of " + name + " is not restricted in: " + strings.Join(off[why], ", ") + " (" + why + ")", Mend: mend,
			Command: "flynn plugin list",
		})
	}
}
