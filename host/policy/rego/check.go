package rego

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/policy/opa"
	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/bundle"
)

// check compiles the sources as far as types go. It is stricter than OPA: a fact that does not exist is an error, and so is a negation that is
// never true. It returns the modules as OPA's compiler has rewritten them.
func check(files []bundle.ModuleFile, kinds []string) (map[string]*ast.Module, error) {
	modules := map[string]*ast.Module{}
	for _, f := range files {
		modules[f.Path] = f.Parsed.Copy()
	}
	schemas := ast.NewSchemaSet()
	schemas.Put(ast.SchemaRootRef, opa.Schema(slices.Contains(kinds, kindRoute), slices.Contains(kinds, kindTool)))
	c := ast.NewCompiler().WithCapabilities(capabilities()).WithSchemas(schemas).WithStrict(true)
	if c.Compile(modules); c.Failed() {
		return nil, readable(c.Errors)
	}
	var errs ast.Errors
	for _, f := range files {
		errs = append(errs, neverTrue(f.Parsed)...)
	}
	for _, kind := range kinds {
		if len(c.GetRulesExact(ast.MustParseRef("data."+opa.Package+"."+kind))) == 0 {
			errs = append(errs, ast.NewError(ast.CompileErr, files[0].Parsed.Package.Location,
				"no rule %s in package %s, which a policy of kind %s needs", kind, opa.Package, kind))
		}
	}
	if len(errs) > 0 {
		return nil, readable(errs)
	}
	return c.Modules, nil
}

// neverTrue finds `not input.account`: all facts are always there, so that it is false whatever the account is. A policy that
// means to deny what has no account would deny nothing.
func neverTrue(m *ast.Module) (errs ast.Errors) {
	truths := truths()
	ast.WalkExprs(m, func(e *ast.Expr) bool {
		t, ok := e.Terms.(*ast.Term)
		if !ok || !e.Negated {
			return false
		}
		ref, ok := t.Value.(ast.Ref)
		if !ok || len(ref) != 2 || !ref.HasPrefix(ast.InputRootRef) {
			return false
		}
		if name, ok := ref[1].Value.(ast.String); ok && string(name) != opa.Args && !slices.Contains(truths, string(name)) {
			errs = append(errs, ast.NewError(ast.CompileErr, e.Location,
				"not %v is never true, because %v is always there: compare it with the empty value", ref, ref))
		}
		return false
	})
	return errs
}

// truths are the facts that are true or false.
func truths() (names []string) {
	for _, f := range append(opa.RouteFacts(), opa.ToolFacts()...) {
		if f.IsTruth() {
			names = append(names, f.Name)
		}
	}
	return names
}

// readable writes errors one a line, as "file:line: what", and says of a function that OPA has and the host does not what there is instead.
func readable(err error) error {
	var faults ast.Errors
	if !errors.As(err, &faults) {
		return err
	}
	lines := make([]string, 0, len(faults))
	for _, f := range faults {
		lines = append(lines, readableFault(f))
	}
	return errors.New(strings.Join(slices.Compact(lines), "\n"))
}

func readableFault(f *ast.Error) string {
	message := f.Message
	if name, ok := strings.CutPrefix(message, "undefined function "); ok && ast.BuiltinMap[name] != nil {
		message = fmt.Sprintf("%s is not offered to policies, which have no network, clock, files or randomness; the time is in input.unix_time", name)
	}
	if f.Details != nil {
		for _, line := range f.Details.Lines() {
			message += "\n\t" + line
		}
	}
	if f.Location == nil {
		return message
	}
	return fmt.Sprintf("%s:%d: %s", f.Location.File, f.Location.Row, message)
}
