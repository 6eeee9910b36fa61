package provider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/internal/glob"
	toolkind "github.com/flynnhost/flynn/host/plugin/kind/tools"
	"github.com/flynnhost/flynn/host/tool"
)

// Rules are the operator's settings for a provider's tools. Missing ones have the strictest value.
type Rules struct {
	Effect   tool.Effect
	Approve  tool.Approve
	Profiles []string
	// Allow and Deny are globs of the provider's own names; deny wins, an empty Allow is all.
	Allow, Deny []string
	Timeout     time.Duration
	// Tools are rules for single tools, by the provider's own name.
	Tools map[string]Rule
}

// Rule overrides Rules for one tool.
type Rule struct {
	Effect  tool.Effect
	Approve tool.Approve
	Timeout time.Duration
	Rename  string
}

// defaultTimeout ends a call if Rules do not.
const defaultTimeout = 2 * time.Minute

// Tools returns the tools that are offered now, by name. problems lists omitted tools, and rules that match no tool.
func (p *Provider) Tools(r Rules) (tools []tool.Tool, problems []string) {
	p.mu.Lock()
	offers, left := p.offers, p.left
	p.mu.Unlock()
	problems = slices.Clone(left)
	allow, err1 := compile(r.Allow)
	deny, err2 := compile(r.Deny)
	if err := errors.Join(err1, err2); err != nil {
		return nil, append(problems, err.Error()) // a configuration that was not checked; nothing is the safe answer
	}
	names := newNames(p.cfg.Name, offers, r)
	for _, o := range offers {
		own := o.spec.Name
		if len(r.Allow) > 0 && !allow(own) || deny(own) {
			continue
		}
		name, err := names.of(own)
		if err != nil {
			problems = append(problems, err.Error())
			continue
		}
		tools = append(tools, p.remote(o, name, r))
	}
	return tools, append(problems, unused(offers, r)...)
}

// unused finds rules for unknown tools: a misspelt one would silently leave its tool to a milder rule.
func unused(offers []offer, r Rules) []string {
	if len(offers) == 0 {
		return nil
	}
	var out []string
	for name := range r.Tools {
		if !slices.ContainsFunc(offers, func(o offer) bool { return o.spec.Name == name }) {
			out = append(out, fmt.Sprintf("there is a rule for the tool %s, which the provider does not offer", name))
		}
	}
	slices.Sort(out)
	return out
}

func compile(patterns []string) (func(name string) bool, error) {
	var all []*glob.Pattern
	for _, pattern := range patterns {
		g, err := glob.Compile(pattern)
		if err != nil {
			return nil, err
		}
		all = append(all, g)
	}
	return func(name string) bool {
		return slices.ContainsFunc(all, func(g *glob.Pattern) bool { return g.Match(name) })
	}, nil
}

// names assigns unique names to tools.
type names struct {
	provider string
	rules    map[string]Rule
	taken    map[string]string // the provider's own name, by ours
}

// newNames reserves names: first for tools that the operator has renamed, then for tools whose own name needs no change.
func newNames(provider string, offers []offer, r Rules) *names {
	n := &names{provider: provider, rules: r.Tools, taken: map[string]string{}}
	for _, o := range offers {
		if own := o.spec.Name; own == plain(own) && r.Tools[own].Rename == "" {
			n.taken[own] = own
		}
	}
	for own, rule := range r.Tools {
		if rule.Rename != "" {
			n.taken[plain(rule.Rename)] = own
		}
	}
	return n
}

func (n *names) of(own string) (string, error) {
	short := plain(cmp.Or(n.rules[own].Rename, own))
	if other, ok := n.taken[short]; ok && other != own {
		return "", fmt.Errorf("the tool %s would have the name of %s; give it another one by rename", own, other)
	}
	n.taken[short] = own
	return n.provider + "." + short, nil
}

// plain turns a name into the form of one part of a tool's name.
func plain(own string) string {
	short := strings.ReplaceAll(own, ".", "_")
	short = strings.ToLower(short[:1]) + short[1:]
	if short[0] == '_' || short[0] == '-' {
		short = "x" + short[:min(len(short), 63)]
	}
	return short
}

// remote is a tool as its provider offered it at one time.
type remote struct {
	provider *Provider
	offer    offer
	spec     tool.Spec
	timeout  time.Duration
}

var (
	_ tool.Tool      = (*remote)(nil)
	_ tool.Revocable = (*remote)(nil)
)

func (p *Provider) remote(o offer, name string, r Rules) *remote {
	rule := r.Tools[o.spec.Name]
	return &remote{
		provider: p, offer: o, timeout: cmp.Or(rule.Timeout, r.Timeout, defaultTimeout),
		spec: tool.Spec{
			Name: name, Schema: o.spec.InputSchema, Provider: p.cfg.Name, Profiles: r.Profiles, Digest: o.digest,
			Description: fmt.Sprintf("From the provider %s, in its own words, which nobody has checked: %s", p.cfg.Name, o.spec.Description),
			Effect:      cmp.Or(rule.Effect, r.Effect, tool.Execute),
			Approve:     cmp.Or(rule.Approve, r.Approve, tool.ApproveByEffect),
		},
	}
}

// Spec implements tool.Tool.
func (t *remote) Spec() tool.Spec { return t.spec }

// Revoked implements tool.Revocable.
func (t *remote) Revoked() string { return t.provider.revoked(t.offer) }

// Rest implements tool.Pager.
func (t *remote) Rest() string { return "Ask the tool for less at a time to read it." }

// Run implements tool.Tool. A fault of the provider is a failure of the tool, never of the host.
func (t *remote) Run(ctx context.Context, call tool.Call) (tool.Result, error) {
	client, err := t.provider.claim(t.offer)
	if err != nil {
		return failed("%v", err), nil
	}
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	select {
	case t.provider.calls <- struct{}{}:
		defer func() { <-t.provider.calls }()
	case <-ctx.Done():
		return failed("the provider %s is busy: %d calls are under way", t.spec.Provider, maxCalls), nil
	}
	out, err := client.Call(ctx, toolkind.Call{ID: call.ID, Key: call.ID, Tool: t.offer.spec.Name, Args: call.Args}, call.Progress)
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return failed("%s took longer than %s and was cancelled; whether it had an effect is not known", t.spec.Name, t.timeout), nil
	case ctx.Err() != nil:
		return tool.Result{}, ctx.Err()
	case err != nil:
		t.provider.cfg.Log.Warn("provider failed", "provider", t.spec.Provider, "tool", t.spec.Name, "error", err)
		return failed("the provider %s failed; whether the call had an effect is not known: %s", t.spec.Provider, short(err.Error())), nil
	}
	return result(out), nil
}

// result is the result for the model. The text names the files.
func result(out toolkind.Result) tool.Result {
	r := tool.Result{Text: out.Text, IsError: out.IsError}
	if r.Text == "" {
		r.Text = string(out.Structured)
	}
	for _, m := range out.Media {
		r.Media = append(r.Media, tool.Media{SHA256: m.SHA256, Type: m.Type, Name: m.Name})
		r.Text += fmt.Sprintf("\n[file %q of type %q, kept as %.12s]", m.Name, m.Type, m.SHA256)
	}
	if r.Text == "" {
		r.Text = "(no output)"
	}
	return r
}

func failed(format string, args ...any) tool.Result {
	return tool.Result{Text: fmt.Sprintf(format, args...), IsError: true}
}

// short bounds the error text of a provider.
func short(text string) string {
	const most = 1 << 10
	return visible(text[:min(len(text), most)])
}
