package policy

import (
	"net/netip"
	"regexp"
	"regexp/syntax"
	"strings"
	"sync"

	"github.com/flynnhost/flynn/host/internal/glob"
	"github.com/flynnhost/flynn/sdk/policy/abi"
)

// Results of match.
const (
	matchNo  = 0
	matchYes = 1
	matchBad = -1
)

// maxPattern bounds the pattern of a match, in bytes; maxProgram what a regular expression may grow to, in instructions.
const (
	maxPattern = 1024
	maxProgram = 4096

	// maxMatch bounds the fuel of one match, because a match cannot be interrupted and a unit of it takes up to 35 nanoseconds.
	maxMatch = 16 << 20
)

// match matches a string with a pattern. Its fuel depends on the pattern and the string alone, not on what is cached: about
// what the worst pattern of that size takes.
func (i *instance) match(kind uint32, pattern, s string) int32 {
	if len(pattern) > maxPattern {
		return matchBad
	}
	i.pay(int64(len(pattern)) * 8)
	switch kind {
	case abi.MatchGlob:
		return i.matchGlob(pattern, s)
	case abi.MatchCIDR:
		return matchCIDR(pattern, s)
	case abi.MatchRE2:
		return i.matchRE2(pattern, s)
	case abi.MatchDomain:
		return matchDomain(pattern, s)
	}
	return matchBad
}

// payMatch pays for a match in advance.
func (i *instance) payMatch(units int64) {
	if units > maxMatch {
		i.abort(failf(ClassFuel, "a match of %d units, at most %d are allowed in one", units, maxMatch))
	}
	i.pay(units)
}

func (i *instance) matchGlob(pattern, s string) int32 {
	g, err := i.module.globs.get(pattern, glob.Compile)
	if err != nil {
		return matchBad
	}
	i.payMatch(int64(len(s)) * int64(max(1, len(pattern)/8)))
	return matched(g.Match(s))
}

// expression is a compiled regular expression with the size of its program.
type expression struct {
	re   *regexp.Regexp
	size int
}

func compileRE2(pattern string) (*expression, error) {
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil, err
	}
	if weight(tree) > maxProgram { // expanding its repetitions could take seconds and gigabytes
		return nil, &syntax.Error{Code: syntax.ErrLarge, Expr: pattern}
	}
	program, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, err
	}
	if len(program.Inst) > maxProgram {
		return nil, &syntax.Error{Code: syntax.ErrLarge, Expr: pattern}
	}
	re, err := regexp.Compile(pattern)
	return &expression{re, len(program.Inst)}, err
}

// weight returns a lower bound of the instructions of a compiled expression.
func weight(re *syntax.Regexp) int {
	sum := 0
	for _, sub := range re.Sub {
		sum += weight(sub)
	}
	switch re.Op {
	case syntax.OpLiteral:
		return len(re.Rune)
	case syntax.OpRepeat:
		return sum * max(re.Min, re.Max)
	case syntax.OpConcat, syntax.OpEmptyMatch:
		return sum
	}
	return sum + 1
}

func (i *instance) matchRE2(pattern, s string) int32 {
	x, err := i.module.expressions.get(pattern, compileRE2)
	if err != nil {
		return matchBad
	}
	i.payMatch(int64(x.size)*32 + int64(len(s))*int64(max(8, x.size)))
	return matched(x.re.MatchString(s))
}

func matchCIDR(pattern, s string) int32 {
	prefix, err := netip.ParsePrefix(pattern)
	if err != nil {
		one, err := netip.ParseAddr(pattern)
		if err != nil {
			return matchBad
		}
		prefix = netip.PrefixFrom(one.Unmap(), one.Unmap().BitLen())
	}
	addr, err := netip.ParseAddr(s)
	return matched(err == nil && prefix.Contains(addr.Unmap()))
}

// matchDomain ignores case and a trailing dot, as DNS does.
func matchDomain(pattern, s string) int32 {
	pattern, s = domain(pattern), domain(s)
	if pattern == "" || strings.HasPrefix(pattern, ".") || strings.ContainsAny(pattern, "*/: ") {
		return matchBad
	}
	head, ok := strings.CutSuffix(s, pattern)
	return matched(ok && (head == "" || len(head) > 1 && strings.HasSuffix(head, ".")))
}

func domain(s string) string { return strings.ToLower(strings.TrimSuffix(s, ".")) }

func matched(yes bool) int32 {
	if yes {
		return matchYes
	}
	return matchNo
}

// patterns caches compiled patterns. It is emptied when full: a policy has few patterns, and one that generates them would
// gain nothing from a better rule.
type patterns[T any] struct {
	mu  sync.Mutex
	all map[string]T
}

const maxPatterns = 256

func (p *patterns[T]) get(pattern string, compile func(string) (T, error)) (T, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if v, ok := p.all[pattern]; ok {
		return v, nil
	}
	v, err := compile(pattern)
	if err != nil {
		return v, err
	}
	if p.all == nil || len(p.all) >= maxPatterns {
		p.all = map[string]T{}
	}
	p.all[pattern] = v
	return v, nil
}
