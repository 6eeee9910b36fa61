package config

import "testing"

func TestStricter(t *testing.T) {
	base := defaultsOf[Sandbox]()
	base.Network, base.Allowlist = "allowlist", []string{"a.example:443", "b.example:443"}
	base.Mounts = []Mount{{Source: "/data", Target: "/data", ReadOnly: true}}
	for _, c := range []struct {
		name   string
		change func(*Sandbox)
		want   bool
	}{
		{"the same", func(*Sandbox) {}, true},
		{"no network", func(s *Sandbox) { s.Network, s.Allowlist = "none", nil }, true},
		{"less of the allowlist", func(s *Sandbox) { s.Allowlist = s.Allowlist[:1] }, true},
		{"more than the allowlist", func(s *Sandbox) { s.Allowlist = []string{"a.example:443", "c.example:443"} }, false},
		{"the engine's network", func(s *Sandbox) { s.Network = "bridge" }, false},
		{"less memory", func(s *Sandbox) { s.MemoryLimit /= 2 }, true},
		{"more memory", func(s *Sandbox) { s.MemoryLimit *= 2 }, false},
		{"no limit of the disk", func(s *Sandbox) { s.DiskLimit = 0 }, false},
		{"no mount", func(s *Sandbox) { s.Mounts = nil }, true},
		{"the mount, to be written to", func(s *Sandbox) { s.Mounts = []Mount{{Source: "/data", Target: "/data"}} }, false},
		{"another image", func(s *Sandbox) { s.Image = "debian" }, false},
		{"a longer life", func(s *Sandbox) { s.MaxAge *= 2 }, true},
		{"a bridge of commands", func(s *Sandbox) { s.Bridges = []Bridge{{}} }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := base
			c.change(&s)
			if got := s.Stricter(base); got != c.want {
				t.Errorf("stricter is %v, want %v", got, c.want)
			}
		})
	}
}
