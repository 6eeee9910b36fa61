//go:build !wasip1

package policytest

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/sdk/policy/abi"
	"github.com/flynnhost/flynn/sdk/policy/internal/hostcall"
)

// Host replaces Flynn. The zero value has no data and no arguments, and matches nothing.
type Host struct {
	Text string            // the whole text of the message
	Args string            // the tool's arguments as JSON
	Data map[string]string // the policy's configured data
	// Match implements Glob, CIDR, RE2 and Domain: 1 yes, 0 no, -1 bad pattern. nil means that the policy must not match.
	Match func(kind int, pattern, s string) int

	Traced []string // "3 hit", "4 miss"
	Logged []string
}

// Use makes h the host for the rest of the test. Tests that use one must not run in parallel.
func (h *Host) Use(t testing.TB) {
	t.Helper()
	before := hostcall.Current
	hostcall.Current = calls{h, t}
	t.Cleanup(func() { hostcall.Current = before })
}

// calls implements the host calls of the SDK with a Host.
type calls struct {
	*Host
	t testing.TB
}

func (c calls) Get(field, _ uint32) (string, bool) {
	return c.Text, field == uint32(abi.Text)
}

func (c calls) Arg(pointer string) (string, bool) {
	v, ok := c.at(pointer)
	if !ok {
		return "", false
	}
	if s, isString := v.(string); isString {
		return s, true
	}
	text, err := json.Marshal(v)
	if err != nil {
		c.t.Errorf("policytest: argument %s: %v", pointer, err)
	}
	return string(text), true
}

func (c calls) ArgKind(pointer string) int32 {
	v, ok := c.at(pointer)
	if !ok {
		return abi.KindAbsent
	}
	switch v.(type) {
	case nil:
		return abi.KindNull
	case bool:
		return abi.KindBool
	case string:
		return abi.KindString
	case []any:
		return abi.KindArray
	case map[string]any:
		return abi.KindObject
	}
	return abi.KindNumber
}

func (c calls) Data(key string) (string, bool) {
	s, ok := c.Host.Data[key]
	return s, ok
}

func (c calls) Match(kind uint32, pattern, s string) int32 {
	if c.Host.Match == nil {
		c.t.Errorf("policytest: the policy matches %q, but Host.Match is nil", pattern)
		return -1
	}
	return int32(c.Host.Match(int(kind), pattern, s))
}

func (c calls) Trace(rule, hit uint32) {
	word := " miss"
	if hit != 0 {
		word = " hit"
	}
	c.Traced = append(c.Traced, strconv.Itoa(int(rule))+word)
}

func (c calls) Log(_ uint32, text string) { c.Logged = append(c.Logged, text) }

// at resolves a JSON Pointer (RFC 6901).
func (c calls) at(pointer string) (any, bool) {
	dec := json.NewDecoder(strings.NewReader(c.Args))
	dec.UseNumber()
	var v any
	if c.Args == "" || dec.Decode(&v) != nil || (pointer != "" && pointer[0] != '/') {
		return nil, false
	}
	if pointer == "" {
		return v, true
	}
	unescape := strings.NewReplacer("~1", "/", "~0", "~")
	for step := range strings.SplitSeq(pointer[1:], "/") {
		var ok bool
		if v, ok = child(v, unescape.Replace(step)); !ok {
			return nil, false
		}
	}
	return v, true
}

func child(v any, step string) (any, bool) {
	switch v := v.(type) {
	case map[string]any:
		c, ok := v[step]
		return c, ok
	case []any:
		i, err := strconv.ParseUint(step, 10, 31)
		if err != nil || int(i) >= len(v) || strconv.FormatUint(i, 10) != step {
			return nil, false
		}
		return v[i], true
	}
	return nil, false
}
