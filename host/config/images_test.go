package config

import (
	"path/filepath"
	"strings"
	"testing"
)

// How an image comes about is inherited as a whole or not at all.
func TestImageInheritance(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"Dockerfile", "Other"} {
		write(t, filepath.Join(dir, name), "FROM x", 0o600)
	}
	type want struct {
		image, dockerfile string
		packages          int
	}
	for _, c := range []struct {
		name, text  string
		base, small want
	}{
		{"default", "", want{image: "node:22-slim"}, want{image: "node:22-slim"}},
		{"packages", `packages = ["git"]`, want{"node:22-slim", "", 1}, want{"node:22-slim", "", 1}},
		{"dockerfile", `dockerfile = "Dockerfile"`, want{dockerfile: "Dockerfile"}, want{dockerfile: "Dockerfile"}},
		{"own image", "dockerfile = 'Dockerfile'\n[sandboxes.small]\nimage = 'x'", want{dockerfile: "Dockerfile"}, want{image: "x"}},
		{"own dockerfile", "image = 'x'\npackages = ['git']\n[sandboxes.small]\ndockerfile = 'Other'", want{"x", "", 1}, want{dockerfile: "Other"}},
		{"another dockerfile", "dockerfile = 'Dockerfile'\nbuild_context = '.'\n[sandboxes.small]\ndockerfile = 'Other'", want{dockerfile: "Dockerfile"}, want{dockerfile: "Other"}},
		{"own image, packages of the other", "packages = ['git']\n[sandboxes.small]\nimage = 'x'", want{"node:22-slim", "", 1}, want{"x", "", 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := "[agent_configs.main]\n[routing]\ndefault_agent = 'main'\n[sandbox]\n" + c.text + "\n"
			if !strings.Contains(text, "[sandboxes.small]") {
				text += "[sandboxes.small]\n"
			}
			cfg, err := Load(write(t, filepath.Join(dir, "flynn.toml"), text, 0o600), environ("HOME", dir))
			if err != nil {
				t.Fatal(err)
			}
			for name, got := range map[string]Sandbox{"[sandbox]": cfg.Sandbox, "small": cfg.Sandboxes["small"]} {
				want := c.base
				if name == "small" {
					want = c.small
				}
				if want.dockerfile != "" {
					want.dockerfile = filepath.Join(dir, want.dockerfile)
				}
				if got.Image != want.image || got.Dockerfile != want.dockerfile || len(got.Packages) != want.packages || name == "small" && got.Dockerfile == "" && got.BuildContext != "" {
					t.Errorf("%s: image %q, dockerfile %q, packages %q", name, got.Image, got.Dockerfile, got.Packages)
				}
			}
		})
	}
}
