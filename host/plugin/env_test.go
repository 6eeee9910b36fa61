package plugin

import (
	"slices"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/plugin/kind"
	channelkind "github.com/flynnhost/flynn/host/plugin/kind/channel"
	toolkind "github.com/flynnhost/flynn/host/plugin/kind/tools"
)

func TestThreadsOfAPlugin(t *testing.T) {
	set := map[string]string{"GOMAXPROCS": "3"}
	for _, c := range []struct {
		name  string
		kinds []kind.Name
		env   []string
		want  []string // of GOMAXPROCS; the last one counts
	}{
		{"a channel", []kind.Name{channelkind.Name}, nil, []string{"GOMAXPROCS=1"}},
		{"a channel that asks for the host's", []kind.Name{channelkind.Name}, []string{"GOMAXPROCS"}, []string{"GOMAXPROCS=1", "GOMAXPROCS=3"}},
		{"tools", []kind.Name{toolkind.Name}, nil, nil},
		{"a channel with tools", []kind.Name{channelkind.Name, toolkind.Name}, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := Manifest{Kinds: c.kinds}
			m.Permissions.Env = c.env
			got := environment(m, AllKinds().relays(m), t.TempDir(), func(name string) (string, bool) {
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
