package host

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/agent"
	"github.com/flynnhost/flynn/host/agent/code"
	"github.com/flynnhost/flynn/host/channel/attachments"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/sandbox/fleet/specs"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool"
)

// equip gives an agent of kind code what its programs need.
func (h *Host) equip(a *agent.Agent, tools *tool.Registry, c config.Agent, runtime string) error {
	if a.Kind != agent.KindCode {
		return nil
	}
	byLanguage := specs.Code(c.Code, runtime)
	run := code.New(code.Config{
		Languages: byLanguage, Run: h.fleet.RunCode, Attached: h.attachedFiles, Keep: h.files.Keep, Open: h.files.Open,
		Violated: func(agent string, v code.Violation) {
			h.metrics.violation(agent, string(v.Kind))
			h.log.Warn("a code run was contained", "agent", agent, "kind", v.Kind, "detail", v.Detail)
		},
		Log: h.log,
	})
	own := tools.Clone()
	if err := own.Register(run); err != nil {
		return fmt.Errorf("agent_configs.%s: %w", a.Name, err)
	}
	a.Registry = own
	a.Programs = &agent.Programs{
		Tool: code.Name, Languages: specs.CodeLanguages(c.Code), HelperCalls: c.Code.HelperCalls, Fenced: c.Code.Fenced,
		Available: func() error { return h.fleet.AvailableFor(byLanguage) },
	}
	a.System = strings.TrimLeft(a.System+"\n\n"+a.Programs.Prompt(a.Tools), "\n")
	a.Tools = own.ForModel(tool.NewSet(code.Name))
	return nil
}

// Bounds of the attachments that a program is given; package sandbox has those of everything together.
const (
	maxAttached      = 32
	maxAttachedBytes = 8 << 20
)

// attachedFiles are those that people sent in a session's conversation, as its workspace has them.
func (h *Host) attachedFiles(ctx context.Context, session string) (files map[string][]byte, left int, err error) {
	m, leave, err := h.fleet.Visit(store.SessionHome(session))
	if err != nil {
		return nil, 0, err
	}
	defer leave()
	infos, err := m.List(ctx, attachments.Dir)
	if errors.Is(err, machine.ErrNotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	slices.SortFunc(infos, func(a, b machine.FileInfo) int { return b.Mtime.Compare(a.Mtime) }) // the latest first
	files = map[string][]byte{}
	room := int64(maxAttachedBytes)
	for _, info := range infos {
		if !info.Mode.IsRegular() || len(files) == maxAttached || info.Size > room {
			left++
			continue
		}
		data, size, err := m.ReadFile(ctx, path.Join(attachments.Dir, info.Name), 0, room)
		if err != nil || size > int64(len(data)) {
			left++
			continue
		}
		room -= size
		files[info.Name] = data
	}
	return files, left, nil
}
