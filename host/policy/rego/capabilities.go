package rego

import (
	"slices"

	"github.com/flynnhost/flynn/host/policy/opa"
	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/types"
)

// native returns the functions that OPA's compiler builds into the module. A test compiles each.
func native() []*ast.Builtin {
	return []*ast.Builtin{
		ast.Plus, ast.Minus, ast.Multiply, ast.Divide, ast.Abs, ast.Round, ast.Ceil, ast.Floor, ast.Rem, ast.ArrayConcat,
		ast.ArrayFlatten, ast.ArrayReverse, ast.ArraySlice, ast.And, ast.Or, ast.Intersection, ast.Union, ast.IsNumber,
		ast.IsString, ast.IsBoolean, ast.IsArray, ast.IsSet, ast.IsObject, ast.IsNull, ast.TypeNameBuiltin, ast.BitsOr,
		ast.BitsAnd, ast.BitsNegate, ast.BitsXOr, ast.BitsShiftLeft, ast.BitsShiftRight, ast.Count, ast.Sum, ast.Product,
		ast.Max, ast.Min, ast.Sort, ast.Base64IsValid, ast.Base64Decode, ast.Base64Encode, ast.Base64UrlEncode,
		ast.Base64UrlDecode, ast.NetCIDRContains, ast.NetCIDRIntersects, ast.Equal, ast.GreaterThan, ast.GreaterThanEq,
		ast.LessThan, ast.LessThanEq, ast.NotEqual, ast.GlobMatch, ast.JSONMarshal, ast.JSONUnmarshal, ast.JSONIsValid,
		ast.ObjectFilter, ast.ObjectGet, ast.ObjectKeys, ast.ObjectRemove, ast.ObjectUnion, ast.ObjectUnionN, ast.Concat,
		ast.FormatInt, ast.IndexOf, ast.Substring, ast.Lower, ast.Upper, ast.Contains, ast.StartsWith, ast.EndsWith,
		ast.StringReverse, ast.Split, ast.Replace, ast.ReplaceN, ast.Trim, ast.TrimLeft, ast.TrimPrefix, ast.TrimRight,
		ast.TrimSuffix, ast.TrimSpace, ast.InternalTemplateString, ast.NumbersRange, ast.ToNumber, ast.WalkBuiltin,
		ast.ReachableBuiltin, ast.RegexIsValid, ast.RegexMatch, ast.RegexFindAllStringSubmatch, ast.JSONRemove, ast.JSONFilter,
		ast.Member, ast.MemberWithKey,
	}
}

// capabilities returns the part of Rego that policies may use.
func capabilities() *ast.Capabilities {
	c := ast.CapabilitiesForThisVersion()
	names := append(opa.Names(), ast.Assign.Name, ast.Equality.Name, ast.RegoMetadataChain.Name, ast.RegoMetadataRule.Name,
		ast.InternalPrint.Name, ast.Print.Name)
	for _, b := range native() {
		names = append(names, b.Name)
	}
	c.Builtins = slices.DeleteFunc(slices.Clone(c.Builtins), func(b *ast.Builtin) bool { return !slices.Contains(names, b.Name) })
	c.Builtins = append(c.Builtins, matchers()...)
	return c
}

// matchers returns Flynn's own functions match(pattern, string), which mean the same in all languages.
func matchers() (list []*ast.Builtin) {
	for _, b := range opa.Builtins() {
		if b.Match != 0 {
			list = append(list, &ast.Builtin{Name: b.Name, Decl: types.NewFunction(types.Args(types.S, types.S), types.B)})
		}
	}
	return list
}
