// The table policy; ../README.md says what it does.
package main

import (
	"strconv"
	"strings"

	"github.com/flynnhost/flynn/sdk/policy"
	"github.com/flynnhost/flynn/sdk/policy/abi"
)

func init() {
	policy.Route(route)
	policy.Tool(restrict)
}

func main() {}

func decimal[T int | int64](v T) string { return strconv.FormatInt(int64(v), 10) }

func truth(v bool) string { return strconv.FormatBool(v) }

func bracketed(l policy.List) (s string) {
	for item := range l.All() {
		s += "[" + item + "]"
	}
	return s
}

// show is a fact that both kinds of frame have.
func show(f policy.Facts, name string) (string, bool) {
	switch name {
	case "channel":
		return f.Channel(), true
	case "conversation":
		return f.Conversation(), true
	case "conversation_kind":
		return f.ConversationKind(), true
	case "parent":
		return f.Parent(), true
	case "sender":
		return f.Sender(), true
	case "sender_name":
		return f.SenderName(), true
	case "account":
		return f.Account(), true
	case "role":
		return f.Role(), true
	case "text":
		return f.Text(), true
	case "text_len":
		return decimal(f.TextLen()), true
	case "full_text":
		return f.FullText(), true
	case "addressed":
		return truth(f.Addressed()), true
	case "attachments":
		return decimal(f.Attachments()), true
	case "labels":
		return bracketed(f.Labels()), true
	case "door":
		return f.Door(), true
	case "unix_time":
		return decimal(f.UnixTime()), true
	case "minute_of_day":
		return decimal(f.MinuteOfDay()), true
	case "weekday":
		return decimal(f.Weekday()), true
	case "zone":
		return f.Zone(), true
	case "seed":
		return decimal(f.Seed()), true
	case "edited":
		return truth(f.Edited()), true
	case "mentioned":
		return truth(f.Mentioned()), true
	case "attachment_types":
		return bracketed(f.AttachmentTypes()), true
	case "sender_roles":
		return bracketed(f.SenderRoles()), true
	case "session_tokens":
		return decimal(f.SessionTokens()), true
	case "session_cost":
		return decimal(f.SessionCost()), true
	case "session_age":
		return decimal(f.SessionAge()), true
	case "turns":
		return decimal(f.Turns()), true
	}
	return "unknown", false
}

func showRoute(f policy.RouteFacts, name string) string {
	switch name {
	case "candidate":
		return f.Candidate()
	case "agents":
		return bracketed(f.Agents())
	}
	s, _ := show(f.Facts, name)
	return s
}

func showTool(f policy.ToolFacts, name string) string {
	switch name {
	case "agent":
		return f.Agent()
	case "tool":
		return f.Tool()
	case "effect":
		return f.Effect()
	case "session":
		return f.Session()
	case "args_digest":
		return f.ArgsDigest()
	case "sandboxed":
		return truth(f.Sandboxed())
	case "calls_in_turn":
		return decimal(f.CallsInTurn())
	}
	s, _ := show(f.Facts, name)
	return s
}

// ids are the facts by name; 0 is none.
var ids = [...]string{
	abi.Channel: "channel", abi.Conversation: "conversation", abi.ConversationKind: "conversation_kind", abi.Parent: "parent", abi.Sender: "sender",
	abi.SenderName: "sender_name", abi.Account: "account", abi.Role: "role", abi.Text: "text", abi.TextLen: "text_len", abi.Addressed: "addressed",
	abi.Attachments: "attachments", abi.Labels: "labels", abi.Door: "door", abi.UnixTime: "unix_time", abi.MinuteOfDay: "minute_of_day",
	abi.Weekday: "weekday", abi.Zone: "zone", abi.Seed: "seed", abi.Candidate: "candidate", abi.Agents: "agents", abi.Edited: "edited",
	abi.Mentioned: "mentioned", abi.AttachmentTypes: "attachment_types", abi.SenderRoles: "sender_roles", abi.SessionTokens: "session_tokens",
	abi.SessionCost: "session_cost", abi.SessionAge: "session_age", abi.Agent: "agent", abi.Tool: "tool", abi.Effect: "effect",
	abi.Session: "session", abi.ArgsDigest: "args_digest", abi.Sandboxed: "sandboxed", abi.CallsInTurn: "calls_in_turn", abi.Turns: "turns",
}

func has(f policy.Facts, name string) string {
	for id, n := range ids {
		if n == name && n != "" {
			return truth(f.Has(abi.Field(id)))
		}
	}
	return truth(false)
}

func datum(key string) string {
	if v, ok := policy.Data(key); ok {
		return "+" + v
	}
	return "-"
}

func parsed(s string) uint32 {
	n, _ := strconv.ParseUint(s, 10, 32)
	return uint32(n)
}

// matches reports whether the verb is one that matches, and whether the subject does.
func matches(verb, pattern, subject string) (hit, ok bool) {
	switch verb {
	case "glob":
		return policy.Glob(pattern, subject), true
	case "cidr":
		return policy.CIDR(pattern, subject), true
	case "re2":
		return policy.RE2(pattern, subject), true
	case "domain":
		return policy.Domain(pattern, subject), true
	}
	return false, false
}

func used(f policy.Facts) bool { return f.SessionCost() > 5_000_000 || f.SessionTokens() > 1_000_000 }

func anyHas(l policy.List, prefix string) bool {
	for item := range l.All() {
		if strings.HasPrefix(item, prefix) {
			return true
		}
	}
	return false
}

func route(f policy.RouteFacts) policy.RouteAnswer {
	question, _, _ := strings.Cut(f.Text(), "\n")
	verb, operand, _ := strings.Cut(question, " ")
	if hit, ok := matches(verb, operand, f.SenderName()); ok {
		return policy.RouteAnswer{Drop: hit, Rule: 4}
	}
	switch verb {
	case "show":
		return policy.RouteAnswer{Rule: 1, Reason: showRoute(f, operand)}
	case "data":
		return policy.RouteAnswer{Rule: 3, Reason: datum(operand)}
	case "agent":
		return policy.RouteAnswer{Agent: operand, Rule: 5, Reason: f.SenderName()}
	case "drop":
		return policy.RouteAnswer{Drop: true, Rule: 5, Reason: operand}
	case "abstain":
		return policy.RouteAnswer{Rule: 5, Reason: operand}
	case "has":
		return policy.RouteAnswer{Rule: 7, Reason: has(f.Facts, operand)}
	case "rule":
		return policy.RouteAnswer{Rule: parsed(operand)}
	}
	return routeRules(f)
}

func routeRules(f policy.RouteFacts) policy.RouteAnswer {
	switch {
	case f.SenderRoles().Contains("banned"):
		return policy.RouteAnswer{Drop: true, Rule: 10, Reason: "banned on the platform"}
	case f.Edited() && !f.Mentioned():
		return policy.RouteAnswer{Drop: true, Rule: 11, Reason: "an edit that calls nobody"}
	case anyHas(f.AttachmentTypes(), "application/x-"):
		return policy.RouteAnswer{Agent: "ops", Rule: 12, Reason: "an attachment to look at"}
	case used(f.Facts) || f.SessionAge() > 86_400:
		return policy.RouteAnswer{Agent: "frugal", Rule: 13, Reason: "a session that has used much"}
	case f.ConversationKind() == "thread" && f.Parent() == "c-ops":
		return policy.RouteAnswer{Agent: "ops", Rule: 14, Reason: "a thread of ops"}
	case f.Role() == "owner" && (f.Door() == "web" || f.Door() == "terminal"):
		return policy.RouteAnswer{Agent: "coder", Rule: 15, Reason: "the owner's own frontend"}
	case f.Role() == "guest" && (f.Weekday() == 0 || f.Weekday() == 6 || f.MinuteOfDay() < 540 || f.MinuteOfDay() >= 1020):
		return policy.RouteAnswer{Agent: "night", Rule: 16, Reason: "out of hours"}
	case policy.Glob("*@example.com", f.Account()):
		return policy.RouteAnswer{Agent: "staff", Rule: 17, Reason: "an account of the house"}
	case f.Turns() >= 10:
		return policy.RouteAnswer{Agent: "fresh", Rule: 18, Reason: "a long session"}
	case !f.Addressed():
		return policy.RouteAnswer{Drop: true, Rule: 19, Reason: "nobody called"}
	}
	return policy.RouteAnswer{}
}

// text is the string at the pointer; where there is another thing, or nothing, it is false.
func text(f policy.ToolFacts, pointer string) (string, bool) {
	if f.ArgKind(pointer) != abi.KindString {
		return "", false
	}
	return f.Arg(pointer)
}

func restrict(f policy.ToolFacts) policy.Restriction {
	question, _ := text(f, "/ask")
	subject, _ := text(f, "/subject")
	verb, operand, _ := strings.Cut(question, " ")
	if hit, ok := matches(verb, operand, subject); ok {
		return policy.Restriction{Deny: hit, Rule: 4}
	}
	switch verb {
	case "show":
		return policy.Restriction{Rule: 1, Reason: showTool(f, operand)}
	case "arg":
		return policy.Restriction{Rule: 2, Reason: showArg(f, operand)}
	case "data":
		return policy.Restriction{Rule: 3, Reason: datum(operand)}
	case "restrict":
		return restricted(f, operand)
	case "has":
		return policy.Restriction{Rule: 7, Reason: has(f.Facts, operand)}
	case "rule":
		return policy.Restriction{Rule: parsed(operand)}
	}
	return toolRules(f)
}

func showArg(f policy.ToolFacts, pointer string) string {
	kinds := [...]string{"absent", "null", "bool", "number", "string", "array", "object"}
	value, _ := f.Arg(pointer)
	return kinds[f.ArgKind(pointer)] + ":" + value
}

func restricted(f policy.ToolFacts, words string) policy.Restriction {
	r := policy.Restriction{Rule: 6}
	for word := range strings.FieldsSeq(words) {
		switch head, name, _ := strings.Cut(word, "="); head {
		case "deny":
			r.Deny = true
		case "ask":
			r.Ask = true
		case "sandbox":
			r.Sandbox, r.SandboxName = true, name
		}
	}
	r.Reason, _ = text(f, "/reason")
	return r
}

// demand is what one rule adds.
type demand struct {
	rule    uint32
	hit     bool
	deny    bool
	ask     bool
	sandbox bool
	reason  string
}

func toolRules(f policy.ToolFacts) (all policy.Restriction) {
	matched := func(pointer string, match func(pattern, s string) bool, pattern string) bool {
		s, ok := text(f, pointer)
		return ok && match(pattern, s)
	}
	executes := f.Effect() == "execute"
	name, _ := text(f, "/items/1/name")
	force, _ := f.Arg("/force")
	for _, d := range [...]demand{
		{rule: 20, hit: f.Agent() == "intern" && f.Effect() != "read", deny: true, reason: "interns only read"},
		{rule: 21, hit: executes && anyHas(f.Labels(), "web:"), ask: true, reason: "after the web a person looks at commands"},
		{rule: 22, hit: executes && !f.Sandboxed(), sandbox: true, reason: "commands run in a sandbox"},
		{rule: 23, hit: f.CallsInTurn() >= 20, ask: true, reason: "many calls in one turn"},
		{rule: 24, hit: matched("/path", policy.Glob, "/etc/*"), deny: true, reason: "not the machine's settings"},
		{rule: 25, hit: f.Effect() == "network" && !matched("/host", policy.Domain, "example.com"), ask: true, reason: "a host that nobody knows"},
		{rule: 26, hit: matched("/addr", policy.CIDR, "10.0.0.0/8"), deny: true, reason: "inside the house"},
		{rule: 27, hit: f.Tool() == "process.kill" && f.Role() != "owner", deny: true, reason: "only the owner kills"},
		{rule: 28, hit: used(f.Facts), ask: true, reason: "a session that has used much"},
		{rule: 29, hit: name == "secret", deny: true, reason: "the second item is secret"},
		{rule: 30, hit: f.ArgKind("/force") == abi.KindBool && force == "true", ask: true, reason: "by force"},
		{rule: 31, hit: f.SenderRoles().Contains("muted"), deny: true, reason: "muted on the platform"},
		{rule: 32, hit: f.Edited(), ask: true, reason: "the message was changed"},
	} {
		policy.Trace(d.rule, d.hit)
		if d.hit {
			join(&all, d)
		}
	}
	return all
}

func join(all *policy.Restriction, d demand) {
	if all.Rule == 0 {
		all.Rule, all.Reason = d.rule, d.reason
	}
	all.Deny, all.Ask = all.Deny || d.deny, all.Ask || d.ask
	if d.sandbox {
		all.SandboxName = "strict"
	}
}
