// Package rego compiles policies in Rego to modules, with OPA's compiler.
//
// Start with Compile. It reports what the host does not offer with file and line, instead of leaving that to the loader: functions
// that are neither compiled into the module nor in the table of package opa, unknown facts, and rules that could never
// apply. The same sources give the same bytes.
//
// The package links OPA, which is large and slow to start. It is for the program flynn-rego and for tests; a test checks that flynn itself
// does not import it.
package rego

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/policy/opa"
	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/bundle"
	"github.com/open-policy-agent/opa/v1/compile"
)

// Bounds of the sources of one policy.
const (
	maxFiles = 256
	maxFile  = 1 << 20 // bytes
)

// The kinds of decision, as policy.toml writes them.
const (
	kindRoute = "route"
	kindTool  = "tool"
)

// Compile compiles all .rego files of a folder, except tests (_test.rego), to a module.
func Compile(ctx context.Context, sources fs.FS, kinds []string) ([]byte, error) {
	if len(kinds) == 0 {
		return nil, errors.New("name what the policy decides: route, tool or both")
	}
	var entrypoints []string
	for _, kind := range kinds {
		e, ok := map[string]string{kindRoute: opa.EntrypointRoute, kindTool: opa.EntrypointTool}[kind]
		if !ok {
			return nil, fmt.Errorf("a policy of kind %q: the kinds are %s and %s", kind, kindRoute, kindTool)
		}
		entrypoints = append(entrypoints, e)
	}
	slices.Sort(entrypoints) // their numbers are by order
	files, err := parse(sources)
	if err != nil {
		return nil, err
	}
	modules, err := check(files, kinds)
	if err != nil {
		return nil, err
	}
	wasm, err := build(ctx, files, slices.Compact(entrypoints))
	if err != nil {
		return nil, err
	}
	if names, known := reads(modules); known {
		wasm = opa.AppendReads(wasm, names)
	}
	return wasm, nil
}

// parse reads the sources in the order of their names.
func parse(sources fs.FS) ([]bundle.ModuleFile, error) {
	var files []bundle.ModuleFile
	var errs ast.Errors
	err := fs.WalkDir(sources, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !isSource(name, d) {
			return err
		}
		if len(files) == maxFiles {
			return fmt.Errorf("more than %d .rego files", maxFiles)
		}
		text, err := readFile(sources, name)
		if err != nil {
			return err
		}
		m, err := ast.ParseModuleWithOpts(name, string(text), ast.ParserOptions{RegoVersion: ast.RegoV1, Capabilities: capabilities()})
		var faults ast.Errors
		if errors.As(err, &faults) {
			errs = append(errs, faults...)
			return nil
		}
		files = append(files, bundle.ModuleFile{URL: name, Path: name, RelativePath: name, Raw: text, Parsed: m})
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case len(errs) > 0:
		return nil, readable(errs)
	case len(files) == 0:
		return nil, errors.New("there is no .rego file")
	}
	return files, nil
}

func isSource(name string, d fs.DirEntry) bool {
	return d.Type().IsRegular() && path.Ext(name) == ".rego" && !strings.HasSuffix(name, "_test.rego")
}

func readFile(sources fs.FS, name string) ([]byte, error) {
	info, err := fs.Stat(sources, name)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxFile {
		return nil, fmt.Errorf("%s has %d bytes, at most %d are allowed", name, info.Size(), maxFile)
	}
	return fs.ReadFile(sources, name)
}

// build runs the compiler without its optimiser, which gains little and would lose the lines of the source.
func build(ctx context.Context, files []bundle.ModuleFile, entrypoints []string) ([]byte, error) {
	b := bundle.Bundle{Modules: files, Data: map[string]any{}}
	b.Manifest.Init()
	c := compile.New().WithTarget(compile.TargetWasm).WithEntrypoints(entrypoints...).WithCapabilities(capabilities()).WithRegoVersion(ast.RegoV1).
		WithBundle(&b)
	if err := c.Build(ctx); err != nil {
		return nil, readable(err)
	}
	made := c.Bundle().WasmModules
	if len(made) != 1 {
		return nil, fmt.Errorf("OPA's compiler made %d modules in place of one", len(made))
	}
	return made[0].Raw, nil
}
