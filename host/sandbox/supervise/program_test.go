//go:build linux

package supervise

import (
	"slices"
	"testing"
)

func TestJoinEnv(t *testing.T) {
	for name, c := range map[string]struct{ base, more, want []string }{
		"nothing":       {want: []string{}},
		"new":           {base: []string{"A=1"}, more: []string{"B=2"}, want: []string{"A=1", "B=2"}},
		"replaced":      {base: []string{"A=1", "B=2"}, more: []string{"A=3"}, want: []string{"A=3", "B=2"}},
		"a beginning":   {base: []string{"AB=1"}, more: []string{"A=2"}, want: []string{"AB=1", "A=2"}},
		"twice":         {more: []string{"A=1", "A=2"}, want: []string{"A=2"}},
		"without value": {base: []string{"A"}, more: []string{"A=1"}, want: []string{"A=1"}},
	} {
		if got := joinEnv(c.base, c.more); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q", name, got)
		}
	}
}
