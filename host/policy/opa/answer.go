package opa

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/sdk/cut"
	"github.com/flynnhost/flynn/sdk/policy/abi"
)

// Bounds of an answer, in bytes: of its text, and of a reason, which is cut at what the other languages' answers can have.
const (
	MaxAnswer = 256 << 10
	MaxReason = 8<<10 - abi.HeaderSize - abi.EntrySize
	maxName   = 1 << 10
)

// maxRestrictions bounds the objects in one answer to a tool call.
const maxRestrictions = 64

// Answer is what a policy decided.
type Answer struct {
	Code   uint8 // abi.RouteAgent and so on, or a set of abi.ToolDeny and so on
	Rule   uint32
	Name   string // of the agent or the sandbox
	Reason string
}

// ReadRoute reads the result of EntrypointRoute, as opa_json_dump writes it. It returns an error for anything that is not an answer.
func ReadRoute(text []byte) (Answer, error) {
	value, defined, err := result(text)
	if err != nil || !defined {
		return Answer{Code: abi.RouteAbstain}, err
	}
	o, ok := value.(map[string]any)
	if !ok {
		return Answer{}, fmt.Errorf("route is %s; it has to be an object with agent or drop", kindOf(value))
	}
	f := fields{of: "route", object: o, seen: map[string]bool{}}
	a := Answer{Name: f.name("agent"), Reason: f.reason(), Rule: f.rule()}
	drop, abstain := f.truth("drop"), f.truth("abstain")
	_, named := o["agent"]
	switch {
	case f.finish() != nil:
		return Answer{}, f.err
	case drop && named || drop && abstain || abstain && named:
		return Answer{}, fmt.Errorf("route has more than one of agent, drop and abstain")
	case drop:
		a.Code = abi.RouteDrop
	case abstain:
		a.Code = abi.RouteAbstain
	case a.Name == "":
		return Answer{}, fmt.Errorf("route names no agent and does not drop; leave it undefined to abstain")
	default:
		a.Code = abi.RouteAgent
	}
	return a, nil
}

// ReadTool reads the result of EntrypointTool, as opa_json_dump writes it, and joins its restrictions. It returns an error for
// anything that is not an answer.
func ReadTool(text []byte) (Answer, error) {
	value, defined, err := result(text)
	if err != nil || !defined {
		return Answer{}, err
	}
	switch v := value.(type) {
	case map[string]any:
		return restriction(v)
	case []any: // sets are written as arrays
		return restrictions(v)
	}
	return Answer{}, fmt.Errorf("tool is %s; it has to be an object, or a set of objects, with deny, ask or sandbox", kindOf(value))
}

// result returns the value in OPA's list of bindings. It is not defined if the rule is undefined.
func result(text []byte) (value any, defined bool, err error) {
	if len(text) > MaxAnswer {
		return nil, false, fmt.Errorf("the answer has %d bytes, at most %d are allowed", len(text), MaxAnswer)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var set []map[string]any
	if err := d.Decode(&set); err != nil {
		return nil, false, fmt.Errorf("the answer is no list of results")
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, false, fmt.Errorf("the answer is no list of results")
	}
	switch {
	case set != nil && len(set) == 0:
		return nil, false, nil
	case len(set) != 1 || len(set[0]) != 1:
		return nil, false, fmt.Errorf("the answer has %d results in place of one", len(set))
	}
	value, ok := set[0]["result"]
	if !ok {
		return nil, false, fmt.Errorf("the answer has no result")
	}
	return value, true, nil
}

// restriction reads one object.
func restriction(o map[string]any) (Answer, error) {
	f := fields{of: "tool", object: o, seen: map[string]bool{}}
	a := Answer{Reason: f.reason(), Rule: f.rule()}
	if f.truth("deny") {
		a.Code |= abi.ToolDeny
	}
	if f.truth("ask") {
		a.Code |= abi.ToolAsk
	}
	if wanted, name := f.sandbox(); wanted {
		a.Code |= abi.ToolSandbox
		a.Name = name
	}
	if err := f.finish(); err != nil {
		return Answer{}, err
	}
	return a, nil
}

// restrictions joins several restrictions, in an order that does not depend on the module's order of a set. Two different sandboxes deny.
func restrictions(list []any) (Answer, error) {
	if len(list) > maxRestrictions {
		return Answer{}, fmt.Errorf("tool has %d restrictions, at most %d are allowed", len(list), maxRestrictions)
	}
	all := make([]Answer, 0, len(list))
	for _, v := range list {
		o, ok := v.(map[string]any)
		if !ok {
			return Answer{}, fmt.Errorf("tool holds %s; each restriction has to be an object with deny, ask or sandbox", kindOf(v))
		}
		a, err := restriction(o)
		if err != nil {
			return Answer{}, err
		}
		if a.Code != 0 {
			all = append(all, a)
		}
	}
	slices.SortFunc(all, func(a, b Answer) int {
		return cmp.Or(cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Name, b.Name))
	})
	return join(all), nil
}

func join(all []Answer) (sum Answer) {
	var reasons []string
	for i, a := range all {
		if i == 0 {
			sum.Rule = a.Rule
		}
		sum.Code |= a.Code
		switch {
		case a.Name == "" || a.Name == sum.Name:
		case sum.Name == "":
			sum.Name = a.Name
		default:
			sum.Code |= abi.ToolDeny
			reasons = append(reasons, "it requires two sandboxes, "+sum.Name+" and "+a.Name)
		}
		if a.Reason != "" && !slices.Contains(reasons, a.Reason) {
			reasons = append(reasons, a.Reason)
		}
	}
	sum.Reason = cut.Head(strings.Join(reasons, "; "), MaxReason)
	return sum
}

// fields reads the keys of an object in an answer, and keeps the first error.
type fields struct {
	of     string
	object map[string]any
	seen   map[string]bool
	err    error
}

// take returns the value of a key, nil if it is absent.
func (f *fields) take(key string) any {
	f.seen[key] = true
	v, ok := f.object[key]
	if ok && v == nil {
		f.fail(key, v, "left out where it does not apply")
	}
	return v
}

func (f *fields) fail(key string, v any, want string) {
	if f.err == nil {
		f.err = fmt.Errorf("%s.%s is %s; it has to be %s", f.of, key, kindOf(v), want)
	}
}

func (f *fields) text(key string) string {
	switch v := f.take(key).(type) {
	case nil:
	case string:
		return v
	default:
		f.fail(key, v, "a string")
	}
	return ""
}

// name is of an agent or a sandbox.
func (f *fields) name(key string) string {
	v := f.text(key)
	if len(v) > maxName {
		f.fail(key, v, fmt.Sprintf("at most %d bytes long", maxName))
	}
	return v
}

func (f *fields) reason() string { return cut.Head(f.text("reason"), MaxReason) }

func (f *fields) truth(key string) bool {
	switch v := f.take(key).(type) {
	case nil:
	case bool:
		return v
	default:
		f.fail(key, v, "true or false")
	}
	return false
}

// rule is a number of three bytes, as in the other languages' answers.
func (f *fields) rule() uint32 {
	const most = 1<<24 - 1
	switch v := f.take("rule").(type) {
	case nil:
	case json.Number:
		if n, err := v.Int64(); err == nil && n >= 0 && n <= most {
			return uint32(n)
		}
		f.fail("rule", v, fmt.Sprintf("a whole number from 0 to %d", most))
	default:
		f.fail("rule", v, "a number")
	}
	return 0
}

func (f *fields) sandbox() (wanted bool, name string) {
	switch v := f.take("sandbox").(type) {
	case nil:
	case bool:
		return v, ""
	case string:
		if v != "" {
			return true, f.name("sandbox")
		}
		f.fail("sandbox", v, "true or a sandbox's name")
	default:
		f.fail("sandbox", v, "true or a sandbox's name")
	}
	return false, ""
}

// finish refuses what nobody reads: a slip of the pen would restrict nothing.
func (f *fields) finish() error {
	for key := range f.object {
		if f.err == nil && !f.seen[key] {
			f.err = fmt.Errorf("%s has the unknown key %q", f.of, key)
		}
	}
	return f.err
}

func kindOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return fmt.Sprint(v)
	case json.Number:
		return "the number " + v.String()
	case string:
		return fmt.Sprintf("the string %.40q", v)
	case []any:
		return "an array or set"
	}
	return "an object"
}
