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

// check parses and type-checks the sources. It is stricter than OPA: an unknown fact is an error, and so is a negation that is
// never true. It returns the modules as rewritten by OPA's compiler.
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

// neverTrue returns an error for each expression like `not input.account`, which is always false, because every fact is always present. A policy
// that is meant to deny senders without an account would deny nothing.
func neverTrue(m *ast.Module) (errs ast.Errors) {
	bools := boolFacts()
	ast.WalkExprs(m, func(e *ast.Expr) bool {
		t, ok := e.Terms.(*ast.Term)
		if !ok || !e.Negated {
			return false
		}
		ref, ok := t.Value.(ast.Ref)
		if !ok || len(ref) != 2 || !ref.HasPrefix(ast.InputRootRef) {
			return false
		}
		if name, ok := ref[1].Value.(ast.String); ok && string(name) != opa.Args && !slices.Contains(bools, string(name)) {
			errs = append(errs, ast.NewError(ast.CompileErr, e.Location,
				"not %v is never true, because %v is always there: compare it with the empty value", ref, ref))
		}
		return false
	})
	return errs
}

// boolFacts returns the names of the facts that are true or false.
func boolFacts() (names []string) {
	for _, f := range append(opa.RouteFacts(), opa.ToolFacts()...) {
		if f.IsBool() {
			names = append(names, f.Name)
		}
	}
	return names
}

// readable formats errors as lines like "file:line: what", with a hint for functions of OPA that the host does not offer.
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
