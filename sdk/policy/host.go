package policy

import (
	"github.com/flynnhost/flynn/sdk/policy/abi"
	"github.com/flynnhost/flynn/sdk/policy/internal/hostcall"
)

// Data reads one value of the policy's own configuration: [policies.data] in flynn.toml.
// The second result is false when the key is not set.
func Data(key string) (string, bool) {
	return memory.read(func(buf []byte) int32 { return hostcall.Data(key, buf) })
}

// Glob matches s against one of Flynn's globs, with the meaning it has in routing. A bad pattern fails the policy.
func Glob(pattern, s string) bool { return match(abi.MatchGlob, pattern, s) }

// CIDR reports whether the address s lies in the prefix. A bad prefix fails the policy.
func CIDR(prefix, s string) bool { return match(abi.MatchCIDR, prefix, s) }

// RE2 matches s against a regular expression of Go's package regexp. A bad one fails the policy.
func RE2(expr, s string) bool { return match(abi.MatchRE2, expr, s) }

// Domain reports whether s is the domain or one below it. A bad domain fails the policy.
func Domain(domain, s string) bool { return match(abi.MatchDomain, domain, s) }

// match gives no quiet "no" for a pattern that means nothing: in a rule that restricts, that would loosen.
func match(kind uint32, pattern, s string) bool {
	switch hostcall.Match(kind, pattern, s) {
	case 0:
		return false
	case 1:
		return true
	}
	panic("policy: the host refuses this pattern: " + pattern)
}

// Trace notes in the decision's record that a rule was looked at, and whether it applied.
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

// Log notes a line in the decision's record. The host keeps a few kilobytes of them for each decision.
func Log(level Level, text string) { hostcall.Log(uint32(level), text) }
