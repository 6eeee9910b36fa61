package config

import "slices"

// Code describes the containers of the programs of an agent of kind code: each program has a new one.
type Code struct {
	// Languages are the languages of its programs. Default: python
	Languages []string `toml:"languages" oneof:"python javascript"`
	// Image has Python in it, JavaScriptImage Node.js.
	Image           string `toml:"image" default:"python:3.11-slim"`
	JavaScriptImage string `toml:"javascript_image" default:"node:22-slim"`
	// Packages are installed on top of the images, once. Dockerfile replaces the images, for all languages.
	Packages     []string `toml:"packages"`
	Dockerfile   string   `toml:"dockerfile" is:"path"`
	BuildContext string   `toml:"build_context" is:"path"`
	BuildNetwork string   `toml:"build_network" default:"bridge" oneof:"none bridge host"`
	// TimeoutSeconds ends a program. The time that a person takes for an approval does not count.
	TimeoutSeconds int  `toml:"timeout_seconds" default:"30" range:"1..3600"`
	MemoryLimit    Size `toml:"memory_limit" default:"512m" range:"16m..1024g"`
	CPULimit       CPUs `toml:"cpu_limit" default:"1.0" range:"0.05..512"`
	PidsLimit      int  `toml:"pids_limit" default:"100" range:"8..32768"`
	DiskLimit      Size `toml:"disk_limit" default:"256m" range:"0b..1024g"`
	// Network is none, or allowlist: the hosts of Allowlist are reachable through the proxy.
	Network   string   `toml:"network" default:"none" oneof:"none allowlist"`
	Allowlist []string `toml:"allowlist"`
	Mounts    []Mount  `toml:"mounts"`
	// WarmPool is the number of containers kept ready for each language.
	WarmPool int `toml:"warm_pool" default:"1" range:"0..64"`
	// HelperCalls bounds the tool calls of one program; with 0 it has no tools.
	HelperCalls int `toml:"helper_calls" default:"50" range:"0..10_000"`
	// Fenced offers the model no tool: its program is the block of code in its answer.
	Fenced bool `toml:"fenced"`
}

// Writes reports whether programs may be written in a language.
func (c Code) Writes(language string) bool {
	if len(c.Languages) == 0 {
		return language == "python"
	}
	return slices.Contains(c.Languages, language)
}

// sandbox is Code as a Sandbox, as far as the two are checked alike.
func (c Code) sandbox(mountRoots []string) Sandbox {
	s := defaultsOf[Sandbox]()
	s.Image, s.Packages, s.Dockerfile, s.BuildContext, s.BuildNetwork = c.Image, c.Packages, c.Dockerfile, c.BuildContext, c.BuildNetwork
	s.Network, s.Allowlist, s.Mounts, s.MountRoots = c.Network, c.Allowlist, c.Mounts, mountRoots
	if s.Dockerfile != "" {
		s.Image = ""
	}
	return s
}
