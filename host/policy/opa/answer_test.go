package opa

import (
	"strings"
	"testing"

	"github.com/flynnhost/flynn/sdk/policy/abi"
)

func TestReadRoute(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want Answer
		err  string
	}{
		"undefined":           {`[]`, Answer{}, ""},
		"an agent":            {`[{"result":{"agent":"coder","reason":"r","rule":3}}]`, Answer{abi.RouteAgent, 3, "coder", "r"}, ""},
		"drop":                {`[{"result":{"drop":true,"reason":"spam"}}]`, Answer{abi.RouteDrop, 0, "", "spam"}, ""},
		"a spoken abstention": {`[{"result":{"abstain":true,"reason":"r","rule":3}}]`, Answer{abi.RouteAbstain, 3, "", "r"}, ""},
		"abstain and drop":    {`[{"result":{"abstain":true,"drop":true}}]`, Answer{}, "more than one"},
		"a long reason":       {`[{"result":{"drop":true,"reason":"` + strings.Repeat("é", MaxReason/2+1) + `"}}]`, Answer{abi.RouteDrop, 0, "", strings.Repeat("é", MaxReason/2)}, ""},
		"a long name":         {`[{"result":{"agent":"` + strings.Repeat("x", maxName+1) + `"}}]`, Answer{}, "at most"},
		"drop of nothing":     {`[{"result":{"drop":false}}]`, Answer{}, "names no agent"},
		"both":                {`[{"result":{"agent":"a","drop":true}}]`, Answer{}, "more than one"},
		"a false drop beside": {`[{"result":{"agent":"a","drop":false}}]`, Answer{abi.RouteAgent, 0, "a", ""}, ""},
		"an empty agent":      {`[{"result":{"agent":""}}]`, Answer{}, "names no agent"},
		"null":                {`[{"result":null}]`, Answer{}, "route is null"},
		"a null agent":        {`[{"result":{"agent":null}}]`, Answer{}, "route.agent is null"},
		"an agent of numbers": {`[{"result":{"agent":7}}]`, Answer{}, "route.agent is the number 7"},
		"another case":        {`[{"result":{"Agent":"a"}}]`, Answer{}, `unknown key "Agent"`},
		"another case beside": {`[{"result":{"agent":"a","Drop":true}}]`, Answer{}, `unknown key "Drop"`},
		"a large rule":        {`[{"result":{"agent":"a","rule":16777216}}]`, Answer{}, "whole number"},
		"a rule below zero":   {`[{"result":{"agent":"a","rule":-1}}]`, Answer{}, "whole number"},
		"half a rule":         {`[{"result":{"agent":"a","rule":0.5}}]`, Answer{}, "whole number"},
		"two results":         {`[{"result":{"agent":"a"}},{"result":{"agent":"b"}}]`, Answer{}, "2 results"},
		"other bindings":      {`[{"x":1}]`, Answer{}, "no result"},
		"a list":              {`[{"result":["a"]}]`, Answer{}, "an array or set"},
		"no list":             {`{"result":{"agent":"a"}}`, Answer{}, "no list of results"},
		"null alone":          {`null`, Answer{}, "0 results"},
		"nothing":             {``, Answer{}, "no list of results"},
		"more behind it":      {`[]]`, Answer{}, "no list of results"},
		"text behind it":      {`[] x`, Answer{}, "no list of results"},
		"too long":            {strings.Repeat(" ", MaxAnswer) + `[]`, Answer{}, "bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ReadRoute([]byte(c.text))
			compare(t, got, err, c.want, c.err)
		})
	}
}

func TestReadTool(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want Answer
		err  string
	}{
		"undefined":         {`[]`, Answer{}, ""},
		"an empty set":      {`[{"result":[]}]`, Answer{}, ""},
		"an empty object":   {`[{"result":{}}]`, Answer{}, ""},
		"deny":              {`[{"result":{"deny":true,"reason":"r","rule":1}}]`, Answer{abi.ToolDeny, 1, "", "r"}, ""},
		"all":               {`[{"result":[{"deny":true,"ask":true,"sandbox":"strict"}]}]`, Answer{7, 0, "strict", ""}, ""},
		"joined, in order":  {`[{"result":[{"ask":true,"reason":"b","rule":2},{"deny":true,"reason":"a","rule":1}]}]`, Answer{3, 1, "", "a; b"}, ""},
		"the same reason":   {`[{"result":[{"ask":true,"reason":"a"},{"deny":true,"reason":"a"}]}]`, Answer{3, 0, "", "a"}, ""},
		"any sandbox":       {`[{"result":[{"sandbox":true},{"sandbox":"strict"}]}]`, Answer{4, 0, "strict", ""}, ""},
		"two sandboxes":     {`[{"result":[{"sandbox":"a"},{"sandbox":"b"}]}]`, Answer{5, 0, "a", "it requires two sandboxes, a and b"}, ""},
		"what is false":     {`[{"result":[{"deny":false,"reason":"r"},{"ask":true}]}]`, Answer{2, 0, "", ""}, ""},
		"an unknown key":    {`[{"result":[{"denied":true}]}]`, Answer{}, `unknown key "denied"`},
		"a string":          {`[{"result":["no"]}]`, Answer{}, `tool holds the string "no"`},
		"true":              {`[{"result":true}]`, Answer{}, "tool is true"},
		"deny by a string":  {`[{"result":{"deny":"no"}}]`, Answer{}, "tool.deny is the string"},
		"an empty sandbox":  {`[{"result":{"sandbox":""}}]`, Answer{}, "tool.sandbox"},
		"a number sandbox":  {`[{"result":{"sandbox":1}}]`, Answer{}, "tool.sandbox"},
		"too many":          {`[{"result":[` + strings.Repeat(`{"ask":true},`, maxRestrictions) + `{"ask":true}]}]`, Answer{}, "at most 64"},
		"one bad among all": {`[{"result":[{"ask":true},null]}]`, Answer{}, "tool holds null"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ReadTool([]byte(c.text))
			compare(t, got, err, c.want, c.err)
		})
	}
}

func compare(t *testing.T, got Answer, err error, want Answer, fault string) {
	t.Helper()
	switch {
	case fault == "" && err != nil, fault != "" && (err == nil || !strings.Contains(err.Error(), fault)):
		t.Errorf("error %v, want %q", err, fault)
	case err == nil && got != want:
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// FuzzAnswer feeds anything: what is accepted is an answer of the contract.
func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{
		`[]`, `[{"result":{"agent":"coder","reason":"r","rule":3}}]`, `[{"result":{"drop":true}}]`,
		`[{"result":[{"deny":true,"ask":true,"sandbox":"strict","rule":1},{"sandbox":"b"}]}]`, `[{"result":{"rule":1e3}}]`, `null`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if a, err := ReadRoute(text); err == nil {
			if a.Code > abi.RouteDrop || a.Code == abi.RouteAgent && a.Name == "" || a.Rule >= 1<<24 || len(a.Reason) > MaxReason {
				t.Errorf("%q gave %+v", text, a)
			}
		}
		if a, err := ReadTool(text); err == nil {
			if a.Code > 7 || a.Name != "" && a.Code&abi.ToolSandbox == 0 || a.Rule >= 1<<24 {
				t.Errorf("%q gave %+v", text, a)
			}
		}
	})
}
