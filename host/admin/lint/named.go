package lint

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/policy/author"
)

// Named reports folders of policies that the configuration does not use: a policy that is never asked protects nothing.
func Named(c *config.Config, sources []policy.Source, dirs []string) ([]config.Error, error) {
	var findings []config.Error
	for _, dir := range dirs {
		m, err := author.LoadManifest(dir)
		if err != nil {
			return nil, err
		}
		module, err := filepath.Abs(filepath.Join(dir, m.Build.Output))
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(sources, func(s policy.Source) bool { return s.Path == module }) {
			continue
		}
		findings = append(findings, config.Error{
			File: c.Path, Key: "policies",
			Problem: fmt.Sprintf("the %s policy %s of %s is not configured, so it is never asked", strings.Join(m.Kinds, " and "), m.Name, dir),
			Hint:    fmt.Sprintf("add [[policies]] with name = %q, path = %q, kinds = %s", m.Name, module, list(m.Kinds)),
		})
	}
	return findings, nil
}
