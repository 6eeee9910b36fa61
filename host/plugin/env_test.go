package plugin

import (
	"slices"
	"strings"
	"testing"
)

func TestThreadsOfAPlugin(t *testing.T) {
	set := map[string]string{"GOMAXPROCS": "3"}
	for _, c := range []struct {
		name  string
		kinds []Kind
		env   []string
		want  []string // of GOMAXPROCS; the last one counts
	}{
		{"a channel", []Kind{Channel}, nil, []string{"GOMAXPROCS=1"}},
		{"a channel that asks for the host's", []Kind{Channel}, []string{"GOMAXPROCS"}, []string{"GOMAXPROCS=1", "GOMAXPROCS=3"}},
		{"tools", []Kind{Tools}, nil, nil},
		{"a channel with tools", []Kind{Channel, Tools}, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := Manifest{Kinds: c.kinds}
			m.Permissions.Env = c.env
			got := environment(m, t.TempDir(), func(name string) (string, bool) {
				v, ok := set[name]
				return v, ok
			})
			got = slices.DeleteFunc(got, func(v string) bool { return !strings.HasPrefix(v, "GOMAXPROCS=") })
			if !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
