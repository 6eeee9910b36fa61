package rego

import (
	"maps"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
)

// reads returns the names of the facts that compiled modules read. known is false if the modules use the document as a whole, or a
// computed name.
func reads(modules map[string]*ast.Module) (names []string, known bool) {
	seen, known := map[string]bool{}, true
	var visitor *ast.GenericVisitor
	visitor = ast.NewGenericVisitor(func(x any) bool {
		switch x := x.(type) {
		case ast.Var:
			known = known && !x.Equal(ast.InputRootDocument.Value)
		case ast.Ref:
			if !x.HasPrefix(ast.InputRootRef) {
				return false
			}
			name, ok := fact(x)
			if ok {
				seen[name] = true
			}
			known = known && ok
			for _, step := range x[1:] {
				visitor.Walk(step)
			}
			return true
		}
		return false
	})
	for _, m := range modules {
		visitor.Walk(m)
	}
	return slices.Sorted(maps.Keys(seen)), known
}

// fact returns the name after input.
func fact(ref ast.Ref) (string, bool) {
	if len(ref) < 2 {
		return "", false
	}
	name, ok := ref[1].Value.(ast.String)
	return string(name), ok
}
