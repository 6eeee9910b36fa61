package author

import (
	"errors"
	"fmt"

	"github.com/flynnhost/flynn/host/policy"
)

// Want is the answer that a case expects. A restriction that is not named must not be in the answer; rule and reason are compared only
// if they are given.
type Want struct {
	Abstain bool   `toml:"abstain"`
	Agent   string `toml:"agent"`
	Drop    bool   `toml:"drop"`

	Unrestricted bool `toml:"unrestricted"`
	Deny         bool `toml:"deny"`
	Ask          bool `toml:"ask"`
	Sandbox      any  `toml:"sandbox"` // true, or the sandbox's name

	Error  string  `toml:"error"` // class of the failure: the case expects the policy to fail
	Rule   *uint32 `toml:"rule"`
	Reason *string `toml:"reason"`
}

func (w Want) check(kind string) error {
	route, tool := count(w.Abstain, w.Agent != "", w.Drop), count(w.Deny, w.Ask, w.Sandbox != nil)
	switch {
	case w.Error != "":
		if route+tool > 0 || w.Unrestricted {
			return errors.New("want: give an error or an answer, not both")
		}
	case kind == policy.KindRoute && (route != 1 || tool > 0 || w.Unrestricted):
		return errors.New(`want: write one of abstain = true, agent = "NAME" and drop = true`)
	case kind == policy.KindTool && (route > 0 || (tool == 0) != w.Unrestricted):
		return errors.New(`want: write deny, ask and sandbox as expected, or unrestricted = true`)
	}
	switch v := w.Sandbox.(type) {
	case nil, string:
	case bool:
		if !v {
			return errors.New("want: leave sandbox out where none is expected")
		}
	default:
		return fmt.Errorf("want: sandbox = %v: write true or a sandbox's name", v)
	}
	return nil
}

func count(is ...bool) (n int) {
	for _, b := range is {
		if b {
			n++
		}
	}
	return n
}
