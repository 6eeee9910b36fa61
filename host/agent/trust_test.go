package agent

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/sandbox/machine"
)

// crashed leaves a turn of ann's that has touched wood and was killed before its answer.
func crashed(t *testing.T) *house {
	t.Helper()
	s := openStore(t)
	ctx, kill := context.WithCancel(t.Context())
	defer kill()
	h := newHouse(t, s, nil)
	h.gen.Models = script(func(ctx context.Context, req model.Request) (model.Response, error) {
		if len(req.Messages[len(req.Messages)-1].Results) > 0 {
			kill()
			return model.Response{}, ctx.Err()
		}
		return parrot(ctx, req)
	})
	h.accept("ann", "!touch wood")
	h.work(ctx)
	return newHouse(t, s, nil)
}

func TestLabelsOfAResumedTurn(t *testing.T) {
	h := crashed(t)
	var seen []string
	h.chain.tool = func(f policy.ToolFacts) policy.Restrictions {
		seen = slices.Clone(f.Labels)
		return policy.Restrictions{}
	}
	first := true
	h.gen.Models = script(func(context.Context, model.Request) (model.Response, error) {
		if first {
			first = false
			return callTool("c2", "thing.touch", `{"what":"iron"}`), nil
		}
		return say("done"), nil
	})
	h.work(t.Context())
	h.want("done")
	if !slices.Contains(seen, "thing:wood") {
		t.Fatalf("the second call was judged with the labels %q", seen)
	}
}

// TestResumesUnderTheConfigurationInForce: a turn that an earlier process left never has more rights than one that
// begins now would have.
func TestResumesUnderTheConfigurationInForce(t *testing.T) {
	to := func(agent string) chain {
		return chain{route: func(policy.RouteFacts) policy.RouteAnswer { return policy.RouteAnswer{Decided: true, Agent: agent} }}
	}
	for _, c := range []struct {
		name   string
		change func(*house)
		reply  string
	}{
		{"nothing changed", func(*house) {}, "did: touched wood"},
		{"the sender is admitted no more", func(h *house) { h.gen.Admission = refuses(func(message.Message) string { return "not listed" }) }, ""},
		{"the table sends him elsewhere", func(h *house) { h.gen.Table = tableTo("other") }, "would now go to another agent"},
		{"a policy sends him elsewhere", func(h *house) { h.chain = to("other") }, "would now go to another agent"},
		{"a policy drops him", func(h *house) { h.chain = to("") }, ""},
		{"the agent is gone", func(h *house) {
			delete(h.gen.Agents, "helper")
			h.gen.Names = []string{"other"}
			h.gen.Table = tableTo("other")
		}, "no longer configured"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := crashed(t)
			c.change(h)
			h.work(t.Context())
			if got := strings.Join(h.texts(), "|"); !strings.Contains(got, c.reply) || (c.reply == "") != (got == "") {
				t.Errorf("replies are %q, want %q", got, c.reply)
			}
			if items, _ := Recover(t.Context(), h.store); len(items) != 0 {
				t.Errorf("left over: %+v", items)
			}
		})
	}
}

func TestAdmissionIsAskedAgainWhenItIsTheirTurn(t *testing.T) {
	h := newHouse(t, openStore(t), nil)
	h.accept("ann", "one")
	h.accept("bob", "two")
	h.gen.Admission = refuses(func(m message.Message) string {
		if m.Sender.ID == "ann" {
			return "not listed"
		}
		return ""
	})
	h.work(t.Context())
	h.want("echo: two")
}

func TestPanics(t *testing.T) {
	boom := func() { panic("boom") }
	for _, c := range []struct {
		name  string
		cause func(*house)
		reply string
	}{
		{"in a model", func(h *house) {
			h.gen.Models = script(func(ctx context.Context, req model.Request) (model.Response, error) {
				if strings.Contains(req.Messages[len(req.Messages)-1].Text, "one") {
					boom()
				}
				return parrot(ctx, req)
			})
		}, "I could not answer this: "},
		{"in a route policy", func(h *house) {
			h.chain.route = func(f policy.RouteFacts) policy.RouteAnswer {
				if f.Message.Text == "one" {
					boom()
				}
				return policy.RouteAnswer{}
			}
		}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHouse(t, openStore(t), nil)
			c.cause(h)
			h.accept("ann", "one")
			h.work(t.Context())
			h.accept("ann", "two")
			h.work(t.Context())
			got := h.texts()
			if n := len(got); n == 0 || got[n-1] != "echo: two" || !strings.HasPrefix(got[0], c.reply) || strings.Contains(got[0], "boom") {
				t.Fatalf("replies are %q, want %q first and an echo", got, c.reply)
			}
			if items, _ := Recover(t.Context(), h.store); len(items) != 0 {
				t.Errorf("the next process would panic over %+v", items)
			}
		})
	}
}

func TestGuestsLeaveALabel(t *testing.T) {
	for _, c := range []struct {
		sender string
		want   []string
	}{{"ann", nil}, {"bob", []string{"sender:member"}}, {"eve", []string{"sender:guest"}}} {
		h := newHouse(t, openStore(t), nil)
		h.gen.Roles = route.NewRoles(config.Access{Owners: []string{"irc:ann"}, Members: []string{"irc:bob"}}, route.AllProved)
		var seen []string
		h.chain.tool = func(f policy.ToolFacts) policy.Restrictions {
			seen = slices.Clone(f.Labels)
			return policy.Restrictions{}
		}
		h.accept(c.sender, "!touch wood")
		h.work(t.Context())
		if !slices.Equal(seen, c.want) {
			t.Errorf("%s: labels are %q, want %q", c.sender, seen, c.want)
		}
	}
}

func TestPeopleAreNotToldOfTheHostsInsides(t *testing.T) {
	h := newHouse(t, openStore(t), nil)
	h.gen.Models = script(func(context.Context, model.Request) (model.Response, error) {
		return model.Response{}, errors.New("open /root/.secret: permission denied")
	})
	h.accept("ann", "hello")
	h.work(t.Context())
	if got := strings.Join(h.texts(), "|"); got == "" || strings.Contains(got, "secret") {
		t.Fatalf("replies are %q", got)
	}
}

// opened counts the machines that were asked for.
type opened struct {
	noMachines
	hosts int
}

func (o *opened) Host(message.WorkspaceKey) (machine.Machine, error) {
	o.hosts++
	return nil, nil
}

func TestToolsWithoutAMachineOpenNone(t *testing.T) {
	h := newHouse(t, openStore(t), nil)
	o := &opened{}
	h.runner.cfg.Machines = o
	h.accept("ann", "!touch wood")
	h.work(t.Context())
	h.want("did: touched wood")
	if o.hosts != 0 {
		t.Errorf("%d workspaces were opened", o.hosts)
	}
}
