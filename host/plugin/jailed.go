package plugin

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"github.com/flynnhost/flynn/host/plugin/jail"
)

// Bounds on the launcher's report.
const (
	maxReport  = 64 << 10
	reportTime = 2 * time.Second
)

// enclose makes cmd start the launcher, which then executes cmd's program. opened says that descriptor 3 is the verified program.
func (l *launcher) enclose(cmd *exec.Cmd, opened bool) error {
	contain := l.host.config.Contain
	if len(contain.Launcher) == 0 || runtime.GOOS != "linux" {
		why := "not supported on this system"
		if runtime.GOOS == "linux" {
			why = `[plugins] containment is "off", or the host was started without a launcher`
		}
		l.measures = jail.Open(why)
		if contain.Required {
			return permanent{errors.New(`the plugin cannot be contained, and [plugins] containment = "required": ` + why)}
		}
		return nil
	}
	c := l.jail(cmd.Args, cmd.Path, opened)
	spaces := l.host.spaces()
	if c.NoView = spaces.Why; spaces.Why == "" {
		c.Root = filepath.Join(l.host.config.RunDir, viewDir)
		if err := os.MkdirAll(c.Root, 0o700); err != nil {
			return err
		}
	}
	l.group, c.Group, c.NoGroup = l.host.group(l.instance.Name, c.Most)
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	from, to, err := os.Pipe()
	if err != nil {
		return err
	}
	l.report, l.reportW = from, to
	cmd.ExtraFiles = append(cmd.ExtraFiles, to)
	cmd.Env = append(cmd.Env, jail.Env+"="+string(text))
	cmd.Path, cmd.Args = contain.Launcher[0], contain.Launcher
	spaces.Apply(cmd)
	return nil
}

// viewDir is an empty folder in the run folder. Each process mounts its own view of files on it, in its own namespace.
const viewDir = "view"

// group creates the control group of a process, or returns why there is none.
func (h *Host) group(name string, limit int64) (g *jail.Group, dir, why string) {
	if h.groups == nil {
		return nil, "", h.noGroups
	}
	g, err := h.groups.Add(name, limit)
	if err != nil {
		return nil, "", err.Error()
	}
	return g, g.Dir, ""
}

// memoryGroupName is different for each host of a machine, and the same at the next start, which cleans the group up.
func memoryGroupName(runDir string) string {
	return fmt.Sprintf("flynn-%x", sha256.Sum256([]byte(runDir)))[:len("flynn-")+16]
}

// openGroups creates the host's own control group, if containment is on and the system allows it.
func (h *Host) openGroups() (end func()) {
	if len(h.config.Contain.Launcher) == 0 {
		return func() {}
	}
	g, err := jail.OpenGroups(memoryGroupName(h.config.RunDir))
	if err != nil {
		h.noGroups = err.Error()
		h.log.Info("plugins have no control groups: memory of their children is not counted", "reason", err)
		return func() {}
	}
	buryGroups(g, h.config.RunDir)
	h.groups = g
	return g.Close
}

// buryGroups removes the empty control groups of dead hosts of this user, which may never start again. A group with processes is left to its
// own host. Groups in other places, such as those of another service, are not found; the owner of that place removes them.
func buryGroups(g *jail.Groups, runDir string) {
	deadRunDirs(runDir, func(sibling string) {
		if group := g.Beside(memoryGroupName(sibling)); group != "" {
			jail.RemoveEmpty(group)
		}
	})
}

// openNames copies the files for name lookups, if processes have views of files.
func (h *Host) openNames() (err error) {
	if len(h.config.Contain.Launcher) == 0 || runtime.GOOS != "linux" {
		return nil
	}
	if h.names, err = jail.OpenNames(h.config.RunDir, h.nameFiles, h.log); err != nil {
		return fmt.Errorf("copy the files for names: %w", err)
	}
	return nil
}

// hear reads the launcher's report, which is complete once the plugin has printed its handshake. The plugin cannot write to it: the launcher's
// end is closed when it executes the plugin.
func (l *launcher) hear() {
	if l.report == nil {
		return
	}
	_ = l.reportW.Close()
	_ = l.report.SetReadDeadline(time.Now().Add(reportTime))
	in := json.NewDecoder(io.LimitReader(l.report, maxReport))
	var heard jail.Report
	for {
		var r jail.Report
		if err := in.Decode(&r); err != nil {
			break
		}
		if r.Measures != nil {
			heard.Measures = r.Measures
		}
		if r.Error != "" {
			heard.Error = r.Error
		}
	}
	_ = l.report.Close()
	l.report = nil
	if heard.Measures == nil {
		heard.Measures = jail.Open("the launcher did not report")
	}
	l.measures, l.refused = heard.Measures, heard.Error
}

// refusal is why the launcher did not execute the plugin.
func (l *launcher) refusal() error {
	if l.refused == "" {
		return nil
	}
	return permanent{fmt.Errorf("start the plugin: %s", l.refused)}
}
