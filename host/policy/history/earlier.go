package history

import (
	"fmt"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/policy/journal"
)

// Earlier returns the module that a roll-back of a policy puts in force, given the changes of that policy: the one whose digest begins with to or,
// if to is "", the latest one that is not in force now and has not failed. The error is policy.ErrUnknown.
func Earlier(changes []journal.Change, name, to string) (file string, err error) {
	var files []string // that were in force, the latest first
	now, failed := "", map[string]bool{}
	if n := len(changes); n > 0 {
		now = changes[n-1].NowFile
	}
	for _, c := range slices.Backward(changes) {
		failed[c.File] = failed[c.File] || c.Outcome == string(policy.OutcomeReverted)
		if c.NowFile != "" && !slices.Contains(files, c.NowFile) {
			files = append(files, c.NowFile)
		}
	}
	if to == "" {
		for _, f := range files {
			if f != now && !failed[f] {
				return f, nil
			}
		}
		return "", policy.Unknownf("no earlier module of policy %s is known: flynn policy history %s lists those that were in force", name, name)
	}
	files = slices.DeleteFunc(files, func(f string) bool { return !strings.HasPrefix(f, strings.ToLower(to)) })
	switch len(files) {
	case 0:
		return "", policy.Unknownf("no module %s of policy %s was ever in force: flynn policy history %s lists those that were", to, name, name)
	case 1:
		return files[0], nil
	}
	return "", policy.Unknownf("%d modules of policy %s begin with %s: write more of the digest", len(files), name, to)
}

// RolledBack describes the state of a policy that was rolled back, for people.
func RolledBack(name string) string {
	return fmt.Sprintf("rolled back: an older module is in force until the policy's file changes; flynn policy rollback %s --clear ends that", name)
}
