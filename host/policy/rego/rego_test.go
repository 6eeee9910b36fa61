package rego_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	oparego "github.com/open-policy-agent/opa/v1/rego"
	"go.uber.org/goleak"

	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/policy/opa"
	"github.com/flynnhost/flynn/host/policy/rego"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestCompileNamesFileAndLine(t *testing.T) {
	for name, c := range map[string]struct {
		source string
		want   string
	}{
		"syntax":                    {"route := {", "a/policy.rego:3: "},
		"a fact that is misspelt":   {"\nroute := {\"agent\": \"a\"} if input.chanel == \"irc\"", "a/policy.rego:4: undefined ref: input.chanel"},
		"a tool's fact in a route":  {`route := {"agent": "a"} if input.tool == "x"`, "a/policy.rego:3: undefined ref: input.tool"},
		"a fact of another type":    {`route := {"agent": "a"} if upper(input.turns) == "3"`, "a/policy.rego:3: upper: invalid argument"},
		"the clock":                 {"\n\nroute := {\"agent\": \"a\"} if time.now_ns() > 0", "a/policy.rego:5: time.now_ns is not offered to policies"},
		"the network":               {`route := {"agent": http.send({}).body}`, "a/policy.rego:3: http.send is not offered"},
		"no such function":          {`route := {"agent": nothing(1)}`, "a/policy.rego:3: undefined function nothing"},
		"a negation never true":     {`route := {"drop": true} if not input.account`, "a/policy.rego:3: not input.account is never true"},
		"a variable that is unused": {"route := {\"drop\": true} if {\n\tx := 1\n}", "a/policy.rego:4: assigned var x unused"},
		"no entrypoint":             {"other := 1", "a/policy.rego:1: no rule route in package flynn"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := rego.Compile(t.Context(), fstest.MapFS{"a/policy.rego": {Data: []byte("package flynn\n\n" + c.source)}}, []string{"route"})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	if _, err := rego.Compile(t.Context(), fstest.MapFS{}, []string{"route"}); err == nil {
		t.Error("no sources were compiled")
	}
	if _, err := rego.Compile(t.Context(), fstest.MapFS{}, []string{"model"}); err == nil {
		t.Error("a kind that there is not was compiled")
	}
}

func TestNegatedTruthsAreFine(t *testing.T) {
	compiled(t, `route := {"drop": true} if { not input.addressed; not input.mentioned; not input.account == "bob" }`, "route")
	compiled(t, `tool contains {"ask": true} if { not input.sandboxed; not input.args.force }`, "tool")
}

func TestCompileIsDeterministic(t *testing.T) {
	sources := fstest.MapFS{
		"policy.rego":      {Data: []byte("package flynn\nimport data.lib\nroute := {\"agent\": lib.agent} if glob.match(\"a*\", null, input.sender)\ntool contains {\"ask\": true} if lib.x")},
		"lib/lib.rego":     {Data: []byte("package lib\nagent := sprintf(\"%s\", [data.agent])\nx if {some i in [1, 2, 3]; i == input.calls_in_turn}")},
		"policy_test.rego": {Data: []byte("package flynn_test\ntest_x if http.send({})")},
		"README.md":        {Data: []byte("not Rego")},
	}
	first, err := rego.Compile(t.Context(), sources, []string{"tool", "route"})
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		again, err := rego.Compile(t.Context(), sources, []string{"route", "tool"})
		if err != nil || !bytes.Equal(first, again) {
			t.Fatalf("other bytes, %v", err)
		}
	}
}

// natives are one use of each function that the compiler builds in. Each runs in the engine and gives what OPA gives.
var natives = []string{
	"1 + 2", "3 - 5", "2 * 3.5", "7 / 2", "7 % 4", "abs(-3)", "round(2.5)", "ceil(2.1)", "floor(2.9)",
	"array.concat([1], [2])", "array.flatten([[1], [2, 3]])", "array.reverse([1, 2])", "array.slice([1, 2, 3], 1, 2)",
	"{1, 2} - {2}", "{1, 2} & {2}", "{1} | {2}", "intersection({{1, 2}, {2}})", "union({{1}, {2}})",
	"is_number(1)", `is_string("a")`, "is_boolean(true)", "is_array([])", "is_set({1})", "is_object({})", "is_null(null)", "type_name({1})",
	"bits.or(1, 2)", "bits.and(3, 2)", "bits.negate(1)", "bits.xor(1, 3)", "bits.lsh(1, 4)", "bits.rsh(16, 2)",
	"count([1, 2])", "sum([1, 2])", "product([2, 3])", "max([1, 3])", "min([1, 3])", "sort([3, 1])",
	`base64.is_valid("YQ==")`, `base64.decode("YQ==")`, `base64.encode("a")`, `base64url.encode("a?")`, `base64url.decode("YT8=")`,
	`net.cidr_contains("10.0.0.0/8", "10.1.1.1")`, `net.cidr_intersects("10.0.0.0/8", "10.1.0.0/16")`,
	`glob.match("*.example.com", ["."], "a.example.com")`, `glob.match("a*", null, "a.b")`,
	`json.marshal({"a": [1]})`, `json.unmarshal("{\"a\": 1}")`, `json.is_valid("{")`, `json.remove({"a": 1, "b": 2}, ["a"])`, `json.filter({"a": 1, "b": 2}, ["a"])`,
	`object.filter({"a": 1, "b": 2}, ["a"])`, `object.get({"a": 1}, "b", 7)`, `object.keys({"a": 1})`, `object.remove({"a": 1}, ["a"])`,
	`object.union({"a": 1}, {"b": 2})`, `object.union_n([{"a": 1}, {"b": 2}])`,
	`concat(",", ["a", "b"])`, "format_int(31, 16)", `indexof("abc", "c")`, `substring("abcd", 1, 2)`, `lower("AÉ")`, `upper("aé")`, `contains("abc", "b")`,
	`startswith("abc", "a")`, `endswith("abc", "c")`, `strings.reverse("abc")`, `split("a,b", ",")`, `replace("aa", "a", "b")`, `strings.replace_n({"a": "b"}, "aa")`,
	`trim(" a ", " ")`, `trim_left("aab", "a")`, `trim_prefix("ab", "a")`, `trim_right("baa", "a")`, `trim_suffix("ab", "b")`, `trim_space(" a ")`,
	"numbers.range(1, 3)", `to_number("3.5")`, `[x | walk({"a": 1}, x)]`, `count(graph.reachable({"a": ["b"], "b": []}, ["a"]))`,
	`regex.is_valid("[")`, `regex.match("^a+$", "aaa")`, `regex.find_all_string_submatch_n("a(.)", "abac", -1)`,
	"1 == 1", "1 < 2", "1 <= 1", "2 > 1", "2 >= 3", "1 != 2", "2 in [1, 2]", `["a", 1 in {"a": 1}]`,

	// Those of the host.
	`sprintf("%s|%d|%v|%5.2f|%x|%q", ["a", 7, [1, "b", {"c": null}], 1.5, 255, "é"])`, `sprintf("%d %s", [1.5, 2])`, `sprintf("%v %v", [1, 2, 3])`,
	`sprintf("%v", [123456789012345678901234567890])`, `sprintf("%d", [1e3])`, `sprintf("%v", [true])`, `sprintf("%t %s", [true, false])`,
	`sprintf("%03d%%", [7])`, `sprintf("%v", [{"b": [1.25], "a": "<&>"}])`,
	`strings.any_prefix_match("abc", ["x", "ab"])`, `strings.any_prefix_match({"abc", "d"}, {"q"})`, `strings.any_suffix_match(["abc"], "bc")`, `strings.any_prefix_match([], [])`,
	`strings.count("aaa", "a")`, `strings.count("", "")`,
	`time.parse_duration_ns("1h1.5s")`, `time.parse_rfc3339_ns("2026-01-05T12:00:00.5+02:00")`,
}

// undefinedIn are failures of builtins, which OPA makes undefined.
var undefinedIn = []string{
	`time.parse_duration_ns("soon")`, `time.parse_rfc3339_ns("2300-01-01T00:00:00Z")`, `time.parse_rfc3339_ns("2026-13-05T12:00:00Z")`, "1 / data.zero", `to_number("x")`,
}

func TestBuiltinsAgreeWithOPA(t *testing.T) {
	expressions := slices.Concat(natives, undefinedIn)
	source := "route := {\"agent\": \"a\", \"reason\": json.marshal(results)}\n"
	for i, e := range expressions {
		source += fmt.Sprintf("results[\"%d\"] := x if x := %s\n", i, e)
	}
	m := opened(t, policy.Source{Name: "p", Path: compiled(t, source, "route"), Kinds: []string{"route"}, Data: map[string]string{"zero": "0"}})
	_, r := m.Route(t.Context(), policy.RouteFacts{Facts: facts(), Agents: []string{"a"}})
	if r.Error != "" {
		t.Fatal(r.Error)
	}
	got, want := results(t, r.Reason), results(t, inOPA(t, source))
	for i, e := range expressions {
		key := strconv.Itoa(i)
		if diff := cmp.Diff(want[key], got[key]); diff != "" {
			t.Errorf("%s, OPA's and ours:\n%s", e, diff)
		}
		if _, defined := got[key]; defined == slices.Contains(undefinedIn, e) {
			t.Errorf("%s gives %v", e, got[key])
		}
	}
}

func results(t *testing.T, text string) (values map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &values); err != nil {
		t.Fatalf("%v: %q", err, text)
	}
	return values
}

// inOPA evaluates the reason in OPA itself.
func inOPA(t *testing.T, source string) string {
	t.Helper()
	set, err := oparego.New(oparego.Query("data.flynn.route.reason"), oparego.Module("p.rego", "package flynn\n"+source)).Eval(t.Context())
	if err != nil || len(set) == 0 {
		t.Fatalf("%v, %v", set, err)
	}
	return set[0].Expressions[0].Value.(string)
}

// Every function in the tables is used above.
func TestNativesAreComplete(t *testing.T) {
	all := strings.Join(natives, "\n")
	for _, b := range opa.Builtins() {
		if b.Match == 0 && !strings.Contains(all, b.Name+"(") {
			t.Errorf("%s is not compared with OPA", b.Name)
		}
	}
	for _, name := range rego.NativeNames() {
		if !strings.Contains(all, name+"(") {
			t.Errorf("%s is not compared with OPA", name)
		}
	}
}

// OPA is as large as everything else that Flynn is made of, and would be in its way at every start.
func TestFlynnDoesNotLinkOPA(t *testing.T) {
	out, err := exec.CommandContext(context.Background(), "go", "list", "-deps", "../../../cmd/flynn").Output()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(out), "host/policy/opa\n") {
		t.Error("the list of packages lacks our own")
	}
	for _, dep := range strings.Fields(string(out)) {
		if strings.HasPrefix(dep, "github.com/open-policy-agent/") {
			t.Errorf("flynn links %s", dep)
		}
	}
}
