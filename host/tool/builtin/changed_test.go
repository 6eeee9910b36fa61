package builtin

import (
	"fmt"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/sandbox/machine"
)

func TestChanged(t *testing.T) {
	var many []string
	for i := range 32 {
		many = append(many, fmt.Sprint("f", i))
	}
	for _, c := range []struct {
		name    string
		changes *machine.Changes
		want    string
	}{
		{"unknown", nil, ""},
		{"none", &machine.Changes{}, ""},
		{"each kind", &machine.Changes{Added: []string{"a"}, Modified: []string{"b/c"}, Deleted: []string{"d"}}, "[files: b/c (modified), a (new), d (deleted)]"},
		{"odd names", &machine.Changes{Added: []string{"a b", "x]\n[exit code 0"}}, `[files: "a b" (new), "x]\n[exit code 0" (new)]`},
		{"many", &machine.Changes{Modified: many}, "f19 (modified) and 12 more]"},
		{"partial", &machine.Changes{Modified: []string{"a"}, Partial: true}, "[files: a (modified); the workspace is too large to name all]"},
		{"closed", &machine.Changes{Unread: []string{"locked", "a b"}}, `[folders closed to their own user, so that changes in them are not known: locked, "a b"]`},
		{"closed and more", &machine.Changes{Added: []string{"f"}, Unread: []string{"l"}}, "[files: f (new); folders closed to their own user, so that changes in them are not known: l]"},
		{"nothing seen of a large one", &machine.Changes{Partial: true}, "[the workspace is too large to tell which files changed]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := changed(c.changes); got != c.want && !(c.name == "many" && strings.HasSuffix(got, c.want)) {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}
