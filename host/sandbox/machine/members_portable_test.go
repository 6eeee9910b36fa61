//go:build portable || !linux

package machine

import (
	"maps"
	"slices"
	"testing"

	"github.com/flynnhost/flynn/host/internal/ps"
)

// Each step is a list of processes at one time, and those of them that belong to the command with the leader 10. No environment is readable
// but that of 90.
func TestPick(t *testing.T) {
	type list []ps.Process
	leader := ps.Process{PID: 10, Parent: 1, Group: 10, Session: 10, Started: 1}
	deserter := ps.Process{PID: 12, Parent: 11, Group: 12, Session: 12, Started: 2}
	orphan := deserter
	orphan.Parent = 1
	stranger := ps.Process{PID: 12, Parent: 1, Group: 12, Session: 12, Started: 9}
	for name, steps := range map[string][]struct {
		all  list
		want []int
	}{
		"by session":               {{list{leader, {PID: 11, Parent: 1, Group: 11, Session: 10, Started: 1}, {PID: 20, Parent: 1, Session: 20, Started: 1}}, []int{10, 11}}},
		"by parents, in any order": {{list{{PID: 13, Parent: 12, Session: 13, Started: 3}, deserter, {PID: 11, Parent: 10, Session: 11, Started: 1}, leader}, []int{10, 11, 12, 13}}},
		"without a parent, once it was found": {
			{list{leader, {PID: 11, Parent: 10, Session: 11, Started: 1}, deserter}, []int{10, 11, 12}},
			{list{leader, orphan}, []int{10, 12}},
			{list{orphan, {PID: 14, Parent: 12, Session: 14, Started: 4}}, []int{12, 14}},
		},
		"not after its pid was reused": {
			{list{leader, {PID: 11, Parent: 10, Session: 11, Started: 1}, deserter}, []int{10, 11, 12}},
			{list{leader, stranger}, []int{10}},
		},
		"by environment":               {{list{{PID: 90, Parent: 1, Session: 90, Started: 1}}, []int{90}}},
		"the parent of the leader not": {{list{{PID: 5, Parent: 1, Session: 5, Started: 1}, {PID: 10, Parent: 5, Session: 10, Started: 1}}, []int{10}}},
	} {
		t.Run(name, func(t *testing.T) {
			var f found
			for i, s := range steps {
				got := slices.Sorted(maps.Keys(f.pick(s.all, 10, func(pid int) bool { return pid == 90 })))
				if !slices.Equal(got, s.want) {
					t.Errorf("step %d: %v, want %v", i, got, s.want)
				}
			}
		})
	}
}
