package policy

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/flynnhost/flynn/sdk/policy/abi"
)

// maxOutput bounds an output frame, in bytes.
const maxOutput = 8 << 10

// decision is the answer of one policy, or its failure. Like a record it is filled in through a pointer, because copying it at every step
// would take longer than any of the steps.
type decision struct {
	code   uint8
	rule   uint32
	name   string // agent or sandbox
	words  string // "agent NAME" of a route to an agent
	place  int    // of the name in the list of agents when the answer was first read; a hint
	reason string // for people: the module's words, or else the number of its rule
	err    *Error
}

// read reads an answer into an empty decision. The output frame lies at the start of region, which is not retained.
func (v *decision) read(kind string, raw int64, region []byte, in *interned) {
	v.code, v.rule = uint8(raw), uint32(raw)>>8
	if size := uint32(uint64(raw) >> 32); size > 0 {
		if v.err = v.readOutput(kind, size, region, in); v.err != nil {
			return
		}
	}
	switch {
	case kind == KindTool && v.code > abi.ToolDeny|abi.ToolAsk|abi.ToolSandbox, kind == KindRoute && v.code > abi.RouteDrop:
		v.err = failf(ClassAnswer, "unknown decision %d", v.code)
	case kind == KindRoute && v.code == abi.RouteAgent && v.name == "":
		v.err = failf(ClassAnswer, "the route to an agent has no name")
	}
	if v.reason == "" && v.rule != 0 {
		v.reason = in.rule(v.rule)
	}
}

func (v *decision) readOutput(kind string, size uint32, region []byte, in *interned) *Error {
	if size > maxOutput || int64(size) > int64(len(region)) {
		return failf(ClassAnswer, "an output of %d bytes, at most %d are allowed", size, min(maxOutput, len(region)))
	}
	frame := region[:size]
	if err := checkFrame(frame, abi.FrameOutput); err != nil {
		return err
	}
	name := abi.OutAgent
	if kind == KindTool {
		name = abi.OutSandbox
	}
	var err *Error
	if v.name, v.words, err = outputText(frame, name, in); err == nil {
		v.reason, _, err = outputText(frame, abi.OutReason, in)
	}
	return err
}

// outputText returns a text of the output, and "agent " and the text.
func outputText(frame []byte, id abi.Field, in *interned) (text, agent string, err *Error) {
	f, ok := fieldOf(frame, id)
	if !ok {
		return "", "", nil
	}
	if f.kind != abi.TypeString || !utf8.Valid(f.bytes) {
		return "", "", failf(ClassAnswer, "the output field %d is not UTF-8 text", id)
	}
	text, agent = in.get(f.bytes)
	return text, agent, nil
}

// interned keeps the few strings that a policy answers with, so that a decision need not allocate them again.
type interned struct {
	texts map[string]string // "agent TEXT" by text
	rules [maxInterned]string
}

const (
	maxInterned     = 128 // strings
	maxInternedSize = 64  // bytes of one

	agentWord = "agent "
)

// get returns b as a string, and agentWord and b.
func (in *interned) get(b []byte) (text, agent string) {
	agent, ok := in.texts[string(b)]
	if !ok {
		agent = agentWord + string(b)
		if in.texts == nil || len(in.texts) >= maxInterned {
			in.texts = map[string]string{}
		}
		if len(b) <= maxInternedSize {
			in.texts[agent[len(agentWord):]] = agent
		}
	}
	return agent[len(agentWord):], agent
}

func (in *interned) rule(n uint32) string {
	if n < maxInterned && in.rules[n] != "" {
		return in.rules[n]
	}
	s := "rule " + strconv.FormatUint(uint64(n), 10)
	if n < maxInterned {
		in.rules[n] = s
	}
	return s
}

// read reads a decision as an answer of the route chain.
func (a *RouteAnswer) read(v *decision, agents []string) *Error {
	switch v.code {
	case abi.RouteAbstain:
		return nil
	case abi.RouteDrop:
		a.Decided = true
		return nil
	}
	place := v.place
	if place < 0 || place >= len(agents) || agents[place] != v.name {
		if place = slices.Index(agents, v.name); place < 0 {
			return failf(ClassAgent, "it chose the agent %q, which may not be chosen here", v.name)
		}
	}
	a.Decided, a.Agent = true, agents[place]
	return nil
}

// words returns the answer as records have it: "abstain", "drop" or "agent NAME".
func (a *RouteAnswer) words(v *decision) string {
	switch {
	case !a.Decided:
		return "abstain"
	case a.Agent == "":
		return "drop"
	case !a.Failed:
		return v.words
	}
	return agentWord + a.Agent
}

// toolAnswer reads a decision as restrictions. A failure denies.
func toolAnswer(v *decision) Restrictions {
	if v.err != nil {
		return Restrictions{Deny: true}
	}
	r := Restrictions{Deny: v.code&abi.ToolDeny != 0, Ask: v.code&abi.ToolAsk != 0, Sandbox: v.code&abi.ToolSandbox != 0}
	if r.Sandbox {
		r.Sandboxes = []string{v.name}
	}
	return r
}

// words returns the answer as records have it: "none", or "deny", "ask" and "sandbox NAME" separated by commas.
func (r *Restrictions) words() string {
	var words []string
	if r.Deny {
		words = append(words, "deny")
	}
	if r.Ask {
		words = append(words, "ask")
	}
	if r.Sandbox {
		words = append(words, strings.TrimSpace("sandbox "+strings.Join(r.Sandboxes, "+")))
	}
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(words, ", ")
}

// Join adds the restrictions of another policy. It never removes one.
func (r *Restrictions) Join(other Restrictions) {
	r.Deny = r.Deny || other.Deny
	r.Ask = r.Ask || other.Ask
	r.Sandbox = r.Sandbox || other.Sandbox
	for _, name := range other.Sandboxes {
		if !slices.Contains(r.Sandboxes, name) {
			r.Sandboxes = append(r.Sandboxes, name)
		}
	}
	r.Reasons = append(r.Reasons, other.Reasons...)
}

// resolve denies a call that has to run in two sandboxes. A sandbox without a name is the session's, which only the host knows.
func (r *Restrictions) resolve() {
	named := slices.DeleteFunc(slices.Clone(r.Sandboxes), func(name string) bool { return name == "" })
	if len(named) > 1 {
		r.Deny = true
		r.Reasons = append(r.Reasons, "the policies demand different sandboxes: "+strings.Join(named, ", "))
	}
}
