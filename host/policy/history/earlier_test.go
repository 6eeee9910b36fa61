package history_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/policy/history"
	"github.com/flynnhost/flynn/host/policy/journal"
)

func TestEarlier(t *testing.T) {
	now := func(file string) journal.Change {
		return journal.Change{Outcome: string(policy.OutcomeInForce), File: file, NowFile: file}
	}
	reverted := journal.Change{Outcome: string(policy.OutcomeReverted), File: "cc", NowFile: "b1"}
	for _, c := range []struct {
		name    string
		changes []journal.Change
		to      string
		want    string
		err     string
	}{
		{"nothing was ever in force", nil, "", "", "no earlier module of policy p is known"},
		{"only what is in force", []journal.Change{now("a1")}, "", "", "no earlier module"},
		{"the one before", []journal.Change{now("a1"), now("b1"), now("b2")}, "", "b1", ""},
		{"not one that failed", []journal.Change{now("a1"), now("b1"), now("cc"), reverted}, "", "a1", ""},
		{"by its digest", []journal.Change{now("a1"), now("b1"), now("cc"), reverted}, "CC", "cc", ""},
		{"by one that no module has", []journal.Change{now("a1")}, "f", "", "no module f of policy p was ever in force"},
		{"by one that two have", []journal.Change{now("b1"), now("b2")}, "b", "", "2 modules of policy p begin with b"},
	} {
		got, err := history.Earlier(c.changes, "p", c.to)
		if got != c.want || (c.err == "") != (err == nil) || err != nil && (!errors.Is(err, policy.ErrUnknown) || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%s: %q, %v", c.name, got, err)
		}
	}
}
