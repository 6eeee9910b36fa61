package host

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/flynnhost/flynn/host/agent"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/sandbox"
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
