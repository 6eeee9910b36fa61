// This policy reads everything that the SDK can read and answers with a hash of it. Its siblings in other languages
// have to give the same answer to every question.
package main

import (
	"github.com/flynnhost/flynn/sdk/policy"
	"github.com/flynnhost/flynn/sdk/policy/abi"
)

func init() {
	policy.Route(route)
	policy.Tool(restrict)
}

func main() {}

// hash is FNV-1a, 32 bits.
type hash uint32

func (h *hash) byte(b byte) { *h = (*h ^ hash(b)) * 16777619 }

func (h *hash) str(s string) {
	for i := range len(s) {
		h.byte(s[i])
	}
	h.byte(0xff)
}

func (h *hash) integer(v int64) {
	for range 8 {
		h.byte(byte(v))
		v >>= 8
	}
}

func (h *hash) boolean(v bool) {
	if v {
		h.byte(1)
	} else {
		h.byte(0)
	}
}

func (h *hash) list(l policy.List) {
	for s := range l.All() {
		h.str(s)
	}
	h.byte(0xfe)
}

func (h *hash) lazy(s string, ok bool) {
	h.boolean(ok)
	h.str(s)
}

// rule folds the hash to the 24 bits that an answer has for it.
func (h hash) rule() uint32 { return uint32(h^h>>24) & 0xffffff }

func common(f policy.Facts) hash {
	h := hash(2166136261)
	for id := abi.Field(0); id <= 70; id++ {
		h.boolean(f.Has(id))
	}
	for _, s := range [...]string{f.Channel(), f.Conversation(), f.ConversationKind(), f.Parent(), f.Sender(), f.SenderName(),
		f.Account(), f.Role(), f.Text(), f.Door(), f.Zone()} {
		h.str(s)
	}
	for _, v := range [...]int64{int64(f.TextLen()), int64(f.Attachments()), f.UnixTime(), int64(f.MinuteOfDay()), int64(f.Weekday()), f.Seed(),
		f.SessionTokens(), f.SessionCost(), f.SessionAge(), int64(f.Turns())} {
		h.integer(v)
	}
	for _, v := range [...]bool{f.Addressed(), f.Edited(), f.Mentioned()} {
		h.boolean(v)
	}
	for _, l := range [...]policy.List{f.Labels(), f.AttachmentTypes(), f.SenderRoles()} {
		h.list(l)
	}
	h.str(f.FullText())
	h.lazy(policy.Data("key"))
	h.lazy(policy.Data("absent"))
	return h
}

func route(f policy.RouteFacts) policy.RouteAnswer {
	h := common(f.Facts)
	h.str(f.Candidate())
	h.list(f.Agents())
	policy.Trace(h.rule(), f.Addressed())
	switch text := f.Text(); text {
	case "agent":
		return policy.RouteAnswer{Agent: f.Candidate(), Rule: h.rule(), Reason: f.SenderName()}
	case "last":
		last := ""
		for a := range f.Agents().All() {
			last = a
		}
		return policy.RouteAnswer{Agent: last, Rule: h.rule()}
	case "drop":
		return policy.RouteAnswer{Drop: true, Rule: h.rule(), Reason: text}
	case "glob":
		if policy.Glob("irc:b*", f.Sender()) {
			return policy.RouteAnswer{Drop: true, Rule: h.rule()}
		}
	}
	return policy.RouteAnswer{Rule: h.rule(), Reason: f.FullText()}
}

func restrict(f policy.ToolFacts) policy.Restriction {
	h := common(f.Facts)
	for _, s := range [...]string{f.Agent(), f.Tool(), f.Effect(), f.Session(), f.ArgsDigest()} {
		h.str(s)
	}
	h.integer(int64(f.CallsInTurn()))
	h.boolean(f.Sandboxed())
	for _, p := range [...]string{"", "/command", "/list/0", "/list/1", "/a~1b", "/none", "bad"} {
		h.integer(int64(f.ArgKind(p)))
		h.lazy(f.Arg(p))
	}
	bits := f.CallsInTurn()
	r := policy.Restriction{Deny: bits&1 != 0, Ask: bits&2 != 0, Sandbox: bits&4 != 0, Rule: h.rule(), Reason: f.Text()}
	if r.Sandbox {
		for l := range f.Labels().All() {
			r.SandboxName = l
			break
		}
	}
	return r
}
