package specs

import (
	"maps"
	"slices"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/spec"
)

// CodeLanguages returns the languages that an agent of kind code may write, in the order in which its model sees them.
func CodeLanguages(c config.Code) (all []string) {
	for _, l := range []string{"python", "javascript"} {
		if c.Writes(l) {
			all = append(all, l)
		}
	}
	return all
}

// Code returns the specifications, by language, of the containers that run the programs of an agent of kind code, beside [sandbox].
func Code(c config.Code, beside config.Sandbox) map[string]spec.Spec {
	byLanguage := map[string]spec.Spec{}
	for _, language := range CodeLanguages(c) {
		s := spec.Spec{
			Runtime: beside.Runtime, BestEffort: beside.Limits == config.BestEffort,
			Requires: features(beside.Requires), Prefers: features(beside.Prefers),
			Image: c.Image, Packages: c.Packages, Dockerfile: c.Dockerfile, BuildContext: c.BuildContext, BuildNetwork: c.BuildNetwork,
			Network: c.Network, Allowlist: c.Allowlist, MemoryBytes: int64(c.MemoryLimit), CPUs: float64(c.CPULimit), PidsLimit: int64(c.PidsLimit),
			DiskBytes: int64(c.DiskLimit), Timeout: seconds(c.TimeoutSeconds), Mounts: hostMounts(c.Mounts), Helpers: c.HelperCalls > 0,
		}
		if language == "javascript" {
			s.Image = c.JavaScriptImage
		}
		if s.Dockerfile != "" {
			s.Image, s.Packages = "", nil
		}
		byLanguage[language] = s.WithDefaults()
	}
	return byLanguage
}

// codePools returns the pools of ready containers for agents of kind code, one for each language; a pool may be empty.
func codePools(c *config.Config) (all []sandbox.Pool) {
	for _, name := range slices.Sorted(maps.Keys(c.Agents)) {
		a := c.Agents[name]
		if a.Kind != "code" {
			continue
		}
		made := Code(a.Code, c.Sandbox)
		for _, language := range CodeLanguages(a.Code) {
			all = append(all, sandbox.Pool{Spec: made[language], Size: a.Code.WarmPool})
		}
	}
	return all
}
