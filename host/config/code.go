package config

// Code is what the programs of an agent of kind code run in: for each a container that nobody used before and nobody uses
// after it.
type Code struct {
	// Languages are those that it may write; missing, it is python alone.
	Languages []string `toml:"languages" oneof:"python javascript"`
	// Image has Python in it, JavaScriptImage Node.js.
	Image           string `toml:"image" default:"python:3.11-slim"`
	JavaScriptImage string `toml:"javascript_image" default:"node:22-slim"`
	// Packages are put on top of the images, once. Dockerfile is built instead of taking them, for all languages.
	Packages     []string `toml:"packages"`
	Dockerfile   string   `toml:"dockerfile" is:"path"`
	BuildContext string   `toml:"build_context" is:"path"`
	BuildNetwork string   `toml:"build_network" default:"bridge" oneof:"none bridge host"`
	// TimeoutSeconds ends a program. The time in which a person thinks about one of its calls does not count.
	TimeoutSeconds int  `toml:"timeout_seconds" default:"30" range:"1..3600"`
	MemoryLimit    Size `toml:"memory_limit" default:"512m" range:"16m..1024g"`
	CPULimit       CPUs `toml:"cpu_limit" default:"1.0" range:"0.05..512"`
	PidsLimit      int  `toml:"pids_limit" default:"100" range:"8..32768"`
	DiskLimit      Size `toml:"disk_limit" default:"256m" range:"0b..1024g"`
	// Network is none, or allowlist: what Allowlist names is reached through the host's proxy.
	Network   string   `toml:"network" default:"none" oneof:"none allowlist"`
	Allowlist []string `toml:"allowlist"`
	Mounts    []Mount  `toml:"mounts"`
	// WarmPool is the number of containers kept ready for each language.
	WarmPool int `toml:"warm_pool" default:"1" range:"0..64"`
	// HelperCalls bounds the calls of tools that one program may make; 0 offers it none.
	HelperCalls int `toml:"helper_calls" default:"50" range:"0..10_000"`
	// Fenced offers the model no tool: a program is a block of code in its answer.
	Fenced bool `toml:"fenced"`
}

// Writes reports whether programs may be written in a language.
func (c Code) Writes(language string) bool {
	if len(c.Languages) == 0 {
		return language == "python"
	}
	for _, l := range c.Languages {
		if l == language {
			return true
		}
	}
	return false
}

// sandbox is Code in the words of a Sandbox, as far as the two are checked alike.
func (c Code) sandbox(mountRoots []string) Sandbox {
	s := defaultsOf[Sandbox]()
	s.Image, s.Packages, s.Dockerfile, s.BuildContext, s.BuildNetwork = c.Image, c.Packages, c.Dockerfile, c.BuildContext, c.BuildNetwork
	s.Network, s.Allowlist, s.Mounts, s.MountRoots = c.Network, c.Allowlist, c.Mounts, mountRoots
	if s.Dockerfile != "" {
		s.Image = ""
	}
	return s
}
