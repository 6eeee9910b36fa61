package author

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/sdk/policy/abi"
	"github.com/flynnhost/flynn/sdk/policy/policytest"
)

func TestEveryFieldHasAName(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../../../sdk/policy/abi/abi.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, n := range policy.FieldNames() {
		names[strings.ReplaceAll(n, "_", "")] = true
	}
	found := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if typ, ok := spec.Type.(*ast.Ident); ok && typ.Name == "Field" {
			found++
			if name := strings.ToLower(spec.Names[0].Name); !names[name] {
				t.Errorf("abi.%s has no name here", spec.Names[0].Name)
			}
		}
		return true
	})
	if found == 0 || found != len(policy.FieldNames()) {
		t.Errorf("package abi has %d fields, %d have a name", found, len(policy.FieldNames()))
	}
}

func TestEntriesShowTheirValues(t *testing.T) {
	frame := policytest.Frame{abi.Sender: "irc:\"b\"", abi.Seed: -3, abi.Addressed: true, abi.Labels: []string{"a", "b c"}, 60: "new"}.Encode(t, abi.FrameRoute)
	list, err := entries(frame)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range list {
		got = append(got, e.name()+" "+e.String())
	}
	if want := `sender "irc:\"b\"", addressed true, labels ["a" "b c"], seed -3, field 60 "new"`; strings.Join(got, ", ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, ", "), want)
	}
}

func FuzzEntries(f *testing.F) {
	f.Add(policytest.Frame{abi.Sender: "irc:bob", abi.Labels: []string{"a", ""}, abi.Seed: 1}.Encode(f, abi.FrameRoute))
	f.Add([]byte("FLN1\x01\x00\xff\xff\x10\x00\x00\x00\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, frame []byte) {
		list, err := entries(frame)
		if err != nil {
			return
		}
		for _, e := range list {
			if e.String() == "" || e.name() == "" {
				t.Errorf("field %d shows nothing", e.field)
			}
			masked, err := entries(without(frame, e))
			if err != nil || len(masked) != len(list) {
				t.Errorf("hiding field %d broke the frame: %v", e.field, err)
			}
		}
	})
}
