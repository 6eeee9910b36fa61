package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/agent"
	"github.com/flynnhost/flynn/host/agent/code"
	"github.com/flynnhost/flynn/host/channel/attachments"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool"
)

// codeLanguages are the languages that an agent of kind code may write, in the order in which its model reads them.
func codeLanguages(c config.Code) (all []string) {
	for _, l := range []string{"python", "javascript"} {
		if c.Writes(l) {
			all = append(all, l)
		}
	}
	return all
}

// codeSpec is what programs in a language run in: containers of the engine's runtime that [sandbox] names.
func codeSpec(c config.Code, language, runtime string) sandbox.Spec {
	s := sandbox.Spec{
		Runtime: runtime,
		Image:   c.Image, Packages: c.Packages, Dockerfile: c.Dockerfile, BuildContext: c.BuildContext, BuildNetwork: c.BuildNetwork,
		Network: c.Network, Allowlist: c.Allowlist, MemoryBytes: int64(c.MemoryLimit), CPUs: float64(c.CPULimit), PidsLimit: int64(c.PidsLimit),
		DiskBytes: int64(c.DiskLimit), Timeout: time.Duration(c.TimeoutSeconds) * time.Second, Mounts: hostMounts(c.Mounts), Helpers: c.HelperCalls > 0,
	}
	if language == "javascript" {
		s.Image = c.JavaScriptImage
	}
	if s.Dockerfile != "" {
		s.Image, s.Packages = "", nil
	}
	return s.WithDefaults()
}

// codeSpecs are those of all agents of kind code.
func codeSpecs(c *config.Config) (all []sandbox.Spec) {
	for _, p := range codePools(c) {
		all = append(all, p.Spec)
	}
	return all
}

// codePools keep containers for programs ready.
func codePools(c *config.Config) (all []sandbox.Pool) {
	for _, name := range slices.Sorted(maps.Keys(c.Agents)) {
		a := c.Agents[name]
		if a.Kind != agent.KindCode {
			continue
		}
		for _, l := range codeLanguages(a.Code) {
			all = append(all, sandbox.Pool{Spec: codeSpec(a.Code, l, c.Sandbox.Runtime), Size: a.Code.WarmPool})
		}
	}
	return all
}

// equip gives an agent of kind code what its programs need.
func (h *Host) equip(a *agent.Agent, tools *tool.Registry, c config.Agent, runtime string) error {
	if a.Kind != agent.KindCode {
		return nil
	}
	specs := map[string]sandbox.Spec{}
	for _, l := range codeLanguages(c.Code) {
		specs[l] = codeSpec(c.Code, l, runtime)
	}
	run := code.New(code.Config{
		Languages: specs, Run: h.machines.runCode, Attached: h.attachedFiles, Keep: h.files.Keep, Open: h.files.Open,
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
		Tool: code.Name, Languages: codeLanguages(c.Code), HelperCalls: c.Code.HelperCalls, Fenced: c.Code.Fenced,
		Available: func() error { return h.machines.availableFor(specs) },
	}
	a.System = strings.TrimLeft(a.System+"\n\n"+a.Programs.Prompt(a.Tools), "\n")
	a.Tools = own.ForModel(tool.NewSet(code.Name))
	return nil
}

// availableFor tells why containers of these specifications cannot be had now, or nil.
func (m *machines) availableFor(specs map[string]sandbox.Spec) error {
	if err := m.Available(""); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, language := range slices.Sorted(maps.Keys(specs)) {
		if m.engine == nil {
			return nil
		}
		if err := m.engine.Supports(specs[language]); err != nil {
			return err
		}
	}
	return nil
}

// runCode runs a program in a container of its own.
func (m *machines) runCode(ctx context.Context, c sandbox.Code) (sandbox.CodeResult, error) {
	m.mu.Lock()
	manager, why := m.manager, m.unavailable
	m.mu.Unlock()
	if manager == nil {
		return sandbox.CodeResult{}, cmp.Or(why, errLooking)
	}
	return manager.RunCode(ctx, c)
}

// Bounds of the attachments that a program is given; package sandbox has those of everything together.
const (
	maxAttached      = 32
	maxAttachedBytes = 8 << 20
)

// attachedFiles are those that people sent in a session's conversation, as its workspace has them.
func (h *Host) attachedFiles(ctx context.Context, session string) (files map[string][]byte, left int, err error) {
	m, leave, err := h.machines.visit(store.SessionHome(session))
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
