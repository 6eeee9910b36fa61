package tool

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// cell is one state of everything that elevated mode depends on.
type cell struct {
	enabled, sender, agent bool // the gates
	state                  string
	allowOn                bool
	answer                 string // of a policy
	role                   string
	own                    bool // who calls is who began it
	tool                   string
}

// policyAnswers are what a policy may say.
var policyAnswers = map[string]policy.Restrictions{
	"nothing": {}, "ask": {Ask: true}, "sandbox": {Sandbox: true}, "another sandbox": {Sandboxes: []string{"strict"}}, "deny": {Deny: true},
	"ask and sandbox": {Ask: true, Sandbox: true},
}

// cells are all there are.
func cells() []cell {
	all := []cell{{}}
	cross := func(n int, set func(*cell, int)) {
		var next []cell
		for _, c := range all {
			for i := range n {
				set(&c, i)
				next = append(next, c)
			}
		}
		all = next
	}
	cross(8, func(c *cell, i int) { c.enabled, c.sender, c.agent = i&1 != 0, i&2 != 0, i&4 != 0 })
	cross(4, func(c *cell, i int) { c.state = []string{"", ElevatedAsk, ElevatedOn, "full"}[i] })
	cross(2, func(c *cell, i int) { c.allowOn = i == 1 })
	cross(4, func(c *cell, i int) { c.role = []string{"owner", "member", "guest", ""}[i] })
	cross(2, func(c *cell, i int) { c.own = i == 1 })
	cross(2, func(c *cell, i int) { c.tool = []string{"shell.exec", "memory.read"}[i] })
	names := slices.Sorted(maps.Keys(policyAnswers))
	cross(len(names), func(c *cell, i int) { c.answer = names[i] })
	return all
}

// wanted states the rules once more, from the outside: what becomes of the call, where, and whether by elevated mode.
func (c cell) wanted() string {
	holds := c.enabled && c.sender && c.agent && c.role == "owner" && c.own && (c.state == ElevatedAsk || c.state == ElevatedOn)
	leaves := holds && c.tool == "shell.exec"
	action, where := Run, "sandbox"
	if leaves || c.tool == "memory.read" {
		where = Host
	}
	if leaves && !(c.state == ElevatedOn && c.allowOn) || strings.HasPrefix(c.answer, "ask") {
		action = Ask
	}
	const denied = `deny "" elevated=false`
	switch {
	case c.answer == "deny", c.answer == "another sandbox": // the second because two are demanded, or because the tool runs in none
		return denied
	case strings.HasSuffix(c.answer, "sandbox") && c.tool == "memory.read":
		return denied
	case strings.HasSuffix(c.answer, "sandbox"):
		where, leaves = "sandbox", false
	}
	return fmt.Sprintf("%s %q elevated=%v", action, where, leaves)
}

func TestElevatedModeCellByCell(t *testing.T) {
	var now cell
	var told bool
	e := newEnforcer(t, func(c *EnforcerConfig) {
		c.Policies = policyFunc(func(f policy.ToolFacts) (policy.Restrictions, []policy.Record) {
			told = f.Sandboxed
			return policyAnswers[now.answer], nil
		})
	})
	all := cells()
	if want := 8 * 4 * 2 * 4 * 2 * 2 * 6; len(all) != want {
		t.Fatalf("%d cells, want %d", len(all), want)
	}
	left := 0
	for _, now = range all {
		s := channelSubject()
		s.Role, s.Sandbox = now.role, SandboxState{Configured: true, Names: []string{"", "strict"}}
		by := s.Message.SenderKey()
		if !now.own {
			by = "irc:somebody-else"
		}
		s.Elevation = func() Elevation {
			return Elevation{Enabled: now.enabled, Sender: now.sender, Agent: now.agent, AllowOn: now.allowOn, State: now.state, By: by}
		}
		v := e.enforce(t.Context(), s, model.ToolCall{Name: now.tool, Args: []byte(map[string]string{"shell.exec": `{"command":"ls"}`}[now.tool])})
		got := fmt.Sprintf("%s %q elevated=%v", v.Action, v.Where, v.Elevated)
		if want := now.wanted(); got != want {
			t.Errorf("%+v: %s, want %s", now, got, want)
		}
		if v.Elevated && told {
			t.Errorf("%+v: the policy hears that the call is sandboxed", now)
		}
		if v.Elevated {
			left++
		}
	}
	if want := 2 * 2 * 2; left != want { // states x allow_on x answers that leave it to the host
		t.Errorf("%d cells leave the sandbox, want %d", left, want)
	}
}

func TestElevatedModeUndoesNoDeny(t *testing.T) {
	on := func() Elevation {
		return Elevation{Enabled: true, Sender: true, Agent: true, AllowOn: true, State: ElevatedOn, By: channelSubject().Message.SenderKey()}
	}
	shell := model.ToolCall{Name: "shell.exec", Args: []byte(`{"command":"ls"}`)}
	for _, c := range []struct {
		name   string
		change func(*Subject, *EnforcerConfig)
		call   model.ToolCall
	}{
		{"not offered", func(s *Subject, _ *EnforcerConfig) { s.Offered = NewSet("memory.read") }, shell},
		{"kill switch", func(_ *Subject, c *EnforcerConfig) { c.Stopped = func() string { return "stopped" } }, shell},
		{"arguments that do not fit", func(*Subject, *EnforcerConfig) {}, model.ToolCall{Name: "shell.exec", Args: []byte(`{"x":1}`)}},
	} {
		s := channelSubject()
		s.Role, s.Sandbox, s.Elevation = "owner", SandboxState{Configured: true}, on
		e := newEnforcer(t, func(cfg *EnforcerConfig) { c.change(&s, cfg) })
		if v := e.enforce(t.Context(), s, c.call); v.Action != Deny || v.Elevated {
			t.Errorf("%s: %s, elevated %v", c.name, v.Action, v.Elevated)
		}
	}
}

func TestEveryUseOfElevatedModeIsWrittenDown(t *testing.T) {
	shell := model.ToolCall{Name: "shell.exec", Args: []byte(`{"command":"ls"}`)}
	state, over := ElevatedOn, false
	subject := channelSubject()
	subject.Role, subject.Sandbox = "owner", SandboxState{Configured: true}
	subject.Elevation = func() Elevation {
		if over {
			return Elevation{}
		}
		return Elevation{Enabled: true, Sender: true, Agent: true, AllowOn: true, State: state, By: subject.Message.SenderKey()}
	}
	var used int
	failure := error(nil)
	write := func(_ context.Context, _ Subject, v Decision) error {
		used++
		return failure
	}
	for _, c := range []struct {
		name    string
		state   string
		write   func(context.Context, Subject, Decision) error
		failure error
		people  *fakePeople
		action  Action
		where   string
		used    int
	}{
		{"on", ElevatedOn, write, nil, &fakePeople{}, Run, Host, 1},
		{"ask, granted", ElevatedAsk, write, nil, &fakePeople{grant: true, decider: "irc:ann"}, Run, Host, 1},
		{"ask, denied", ElevatedAsk, write, nil, &fakePeople{decider: "irc:ann"}, Deny, Host, 0},
		{"ask, covered by a lease", ElevatedAsk, write, nil, &fakePeople{lease: consent.Grant{ID: "g", Granter: "irc:ann"}}, Run, Host, 1},
		{"it ends while a person thinks", ElevatedAsk, write, nil, &fakePeople{grant: true, decider: "irc:ann", meantime: func() { over = true }}, Run, "sandbox", 0},
		{"it cannot be written down", ElevatedOn, write, errors.New("disk full"), &fakePeople{}, Run, Host, 1},
		{"nobody writes it down", ElevatedOn, nil, nil, &fakePeople{}, Deny, "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			state, over, used, failure = c.state, false, 0, c.failure
			e := newEnforcer(t, func(cfg *EnforcerConfig) { cfg.Elevated = c.write })
			v, err := e.Admit(t.Context(), subject, shell, c.people, nil)
			if !errors.Is(err, c.failure) {
				t.Errorf("error %v, want %v", err, c.failure)
			}
			if v.Action != c.action || c.action == Run && v.Where != c.where || used != c.used {
				t.Errorf("%s in %q, written down %d times; want %s in %q, %d times", v.Action, v.Where, used, c.action, c.where, c.used)
			}
		})
	}
}
