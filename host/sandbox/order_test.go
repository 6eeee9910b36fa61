package sandbox

import "testing"

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
		if one.hash("s") == other.hash("s") || one.hash("s") != same.hash("s") {
			t.Errorf("%s: the order does not count", name)
		}
	}
}
