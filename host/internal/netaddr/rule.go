package netaddr

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Rule is one entry of an allowlist: a host or all hosts below a domain, ports, and methods where they can be seen.
type Rule struct {
	host    Host
	below   bool     // the names below host, not host itself
	ports   []uint16 // never empty
	methods []string // empty is any, CONNECT included
}

// Target is the destination of a request.
type Target struct {
	Host   Host
	Port   uint16
	Method string // CONNECT for a tunnel, whose requests the proxy cannot see
}

// ParseRule reads "example.com", "*.example.com", "example.com:8443", "93.184.216.34" or "[2606:2800::1]:443". Without a port
// it covers 80 and 443. Methods before it, as in "GET,HEAD example.com", let only those requests pass; they can be seen
// only in plain HTTP, so the port is 80 unless another one is named, and there are no tunnels.
func ParseRule(text string) (Rule, error) {
	r := Rule{ports: []uint16{80, 443}}
	if methods, rest, ok := strings.Cut(text, " "); ok {
		text, r.methods, r.ports = rest, strings.Split(methods, ","), []uint16{80}
		if err := checkMethods(r.methods); err != nil {
			return Rule{}, err
		}
	}
	host, port, err := SplitPort(text)
	if err != nil {
		return Rule{}, err
	}
	host, r.below = strings.CutPrefix(host, "*.")
	if r.host, err = ParseHost(host); err != nil {
		return Rule{}, err
	}
	if err := r.checkHost(); err != nil {
		return Rule{}, err
	}
	if port == "" {
		return r, nil
	}
	number, err := ParsePort(port)
	if err == nil && number == 443 && len(r.methods) > 0 {
		err = errors.New("methods cannot be seen on port 443; leave them out, or name another port")
	}
	r.ports = []uint16{number}
	return r, err
}

// checkHost refuses rules that could never match, or that cover a whole top-level domain.
func (r Rule) checkHost() error {
	switch {
	case r.below && r.host.IsAddr():
		return fmt.Errorf("no names are below the address %s", r.host.Name)
	case r.below && !strings.Contains(r.host.Name, "."):
		return fmt.Errorf("*.%s covers a whole top-level domain", r.host.Name)
	case r.host.IsAddr():
		return Public(r.host.Addr)
	}
	return nil
}

func checkMethods(methods []string) error {
	for _, m := range methods {
		if !slices.Contains(listable, m) {
			return fmt.Errorf("%q is not a method that can be listed, such as GET", clip(m))
		}
	}
	return nil
}

// listable are the methods of IANA's registry, as of RFC 9110 and after, without CONNECT, whose requests are not visible, and with
// PURGE, which caches have.
var listable = strings.Fields(`GET HEAD POST PUT PATCH DELETE OPTIONS TRACE QUERY PURGE
	ACL BASELINE-CONTROL BIND CHECKIN CHECKOUT COPY LABEL LINK LOCK MERGE MKACTIVITY MKCALENDAR MKCOL MKREDIRECTREF MKWORKSPACE MOVE
	ORDERPATCH PROPFIND PROPPATCH REBIND REPORT SEARCH UNBIND UNCHECKOUT UNLINK UNLOCK UPDATE UPDATEREDIRECTREF VERSION-CONTROL`)

// Covers reports whether the rule lets a target pass. An address is covered only by a rule that names it.
func (r Rule) Covers(t Target) bool {
	if !slices.Contains(r.ports, t.Port) || len(r.methods) > 0 && !slices.Contains(r.methods, t.Method) {
		return false
	}
	if r.below {
		return !t.Host.IsAddr() && strings.HasSuffix(t.Host.Name, "."+r.host.Name)
	}
	return t.Host == r.host
}

// Rules is an allowlist: a target that no rule covers is refused.
type Rules []Rule

// ParseRules reads an allowlist.
func ParseRules(texts []string) (Rules, error) {
	rules := make(Rules, len(texts))
	for i, text := range texts {
		var err error
		if rules[i], err = ParseRule(text); err != nil {
			return nil, fmt.Errorf("allowlist entry %q: %w", clip(text), err)
		}
	}
	return rules, nil
}

// Cover reports whether any rule lets a target pass.
func (r Rules) Cover(t Target) bool {
	return slices.ContainsFunc(r, func(rule Rule) bool { return rule.Covers(t) })
}

// Within reports whether, for each port of the rule, one rule of the allowlist covers all that this one covers.
func (r Rule) Within(rules Rules) bool {
	for _, port := range r.ports {
		if !slices.ContainsFunc(rules, func(o Rule) bool { return slices.Contains(o.ports, port) && o.contains(r) }) {
			return false
		}
	}
	return true
}

// contains reports whether r covers the hosts and methods of o.
func (r Rule) contains(o Rule) bool {
	for _, m := range o.methods {
		if len(r.methods) > 0 && !slices.Contains(r.methods, m) {
			return false
		}
	}
	switch {
	case len(o.methods) == 0 && len(r.methods) > 0:
		return false
	case r.below && o.below:
		return o.host == r.host || strings.HasSuffix(o.host.Name, "."+r.host.Name)
	case r.below:
		return !o.host.IsAddr() && strings.HasSuffix(o.host.Name, "."+r.host.Name)
	}
	return !o.below && o.host == r.host
}

// Names reports whether the rule covers a host on any port.
func (r Rule) Names(h Host) bool {
	if r.below {
		return !h.IsAddr() && strings.HasSuffix(h.Name, "."+r.host.Name)
	}
	return h == r.host
}

// Host returns the host of the rule; with below, the rule covers the names below it.
func (r Rule) Host() (h Host, below bool) { return r.host, r.below }

// Ports returns the ports that the rule covers.
func (r Rule) Ports() []uint16 { return slices.Clone(r.ports) }
