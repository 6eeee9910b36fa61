package policy

import (
	"github.com/flynnhost/flynn/sdk/policy/abi"
	"github.com/flynnhost/flynn/sdk/policy/internal/hostcall"
)

// Data reads one value of the policy's own configuration: [policies.data] in flynn.toml. The second result is false if the key is not set.
func Data(key string) (string, bool) {
	return memory.read(func(buf []byte) int32 { return hostcall.Data(key, buf) })
}

// Glob matches s against a glob of Flynn, with the same meaning as in routing. A bad pattern fails the policy.
func Glob(pattern, s string) bool { return match(abi.MatchGlob, pattern, s) }

// CIDR reports whether the address s lies in the prefix. A bad prefix fails the policy.
func CIDR(prefix, s string) bool { return match(abi.MatchCIDR, prefix, s) }

// RE2 matches s against a regular expression of Go's package regexp. A bad one fails the policy.
func RE2(expr, s string) bool { return match(abi.MatchRE2, expr, s) }

// Domain reports whether s is the domain or one below it. A bad domain fails the policy.
func Domain(domain, s string) bool { return match(abi.MatchDomain, domain, s) }

// match never returns false for a malformed pattern: in a rule that restricts, that would lift the restriction.
func match(kind uint32, pattern, s string) bool {
	switch hostcall.Match(kind, pattern, s) {
	case 0:
		return false
	case 1:
		return true
	}
	panic("policy: the host refuses this pattern: " + pattern)
}

// Trace records in the decision's record that a rule was evaluated, and whether it applied.
func Trace(rule uint32, hit bool) {
	var h uint32
	if hit {
		h = 1
	}
	hostcall.Trace(rule, h)
}

// Level is the level of a log line.
type Level uint32

// The levels.
const (
	Debug Level = iota
	Info
	Warn
	Error
)

// Log adds a line to the decision's record. The host keeps a few kilobytes for each decision.
func Log(level Level, text string) { hostcall.Log(uint32(level), text) }
