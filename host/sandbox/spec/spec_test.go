package spec

import (
	"testing"
	"time"
)

// TestSpecHashKeepsOrder has lists whose order means something: a container that was made for the one must not serve for the other.
func TestSpecHashKeepsOrder(t *testing.T) {
	for name, lists := range map[string]func(s *Spec, first, second string){
		"start":    func(s *Spec, a, b string) { s.Start = []string{"/bin/sh", a, b} },
		"packages": func(s *Spec, a, b string) { s.Packages = []string{a, b} },
		"mounts": func(s *Spec, a, b string) {
			s.Mounts = []HostMount{{Source: "/srv/" + a, Target: "/x"}, {Source: "/srv/" + b, Target: "/y"}}
		},
		"volumes": func(s *Spec, a, b string) {
			s.Volumes = []VolumeMount{{Name: a, Target: "/x"}, {Name: b, Target: "/y"}}
		},
		"allowlist": func(s *Spec, a, b string) { s.Allowlist = []string{a, b} },
	} {
		one, other, same := Spec{Image: "x"}.WithDefaults(), Spec{Image: "x"}.WithDefaults(), Spec{Image: "x"}.WithDefaults()
		lists(&one, "a", "b")
		lists(&other, "b", "a")
		lists(&same, "a", "b")
		if one.Hash("s") == other.Hash("s") || one.Hash("s") != same.Hash("s") {
			t.Errorf("%s: the order does not count", name)
		}
	}
}

func TestSpecHash(t *testing.T) {
	base := Spec{Image: "x"}.WithDefaults()
	same := base
	same.Timeout = time.Hour
	if base.Hash("s") != same.Hash("s") {
		t.Error("the time-out of commands should not replace containers")
	}
	for name, change := range map[string]func(*Spec){
		"image": func(s *Spec) { s.Image = "y" }, "network": func(s *Spec) { s.Network = "host" },
		"memory": func(s *Spec) { s.MemoryBytes++ }, "cpus": func(s *Spec) { s.CPUs = 2 },
		"disk": func(s *Spec) { s.DiskBytes++ }, "pids": func(s *Spec) { s.PidsLimit++ }, "runtime": func(s *Spec) { s.Runtime = "runsc" },
		"workspace": func(s *Spec) { s.WorkspaceDir = "/w" }, "allowlist": func(s *Spec) { s.Allowlist = []string{"example.com"} },
	} {
		other := base
		if change(&other); base.Hash("s") == other.Hash("s") {
			t.Errorf("%s does not count", name)
		}
	}
	if base.Hash("s") == base.Hash("t") {
		t.Error("the supervisor does not count")
	}
}
