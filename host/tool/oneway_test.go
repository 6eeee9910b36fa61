package tool_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/sdk/need"
)

const (
	module = "github.com/flynnhost/flynn/"
	self   = module + "host/tool"
)

// listed is what go list says of a package.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles, Deps           []string
	ImportMap               map[string]string
}

func list(t *testing.T) map[string]listed {
	t.Helper()
	need.Source(t)
	cmd := exec.Command("go", "list", "-deps", "-export", "-json=ImportPath,Dir,Export,GoFiles,Deps,ImportMap", "./cmd/...", "./host/...")
	cmd.Dir, cmd.Stderr = "../..", os.Stderr
	if unraced := os.Getenv("FLYNN_TEST_UNRACED"); unraced != "" { // what the tests are compiled from is there
		cmd.Env = append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -race "+unraced)
	} else {
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("list packages: %v", err)
	}
	all := map[string]listed{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all[p.ImportPath] = p
	}
}

// uses are the uses of functions in a package: of which, in which function of which file.
func uses(t *testing.T, all map[string]listed, p listed, found func(in, file string, used *types.Func)) {
	t.Helper()
	fset := token.NewFileSet()
	lookup := func(path string) (io.ReadCloser, error) {
		if to, ok := p.ImportMap[path]; ok {
			path = to
		}
		return os.Open(all[path].Export)
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	var files []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	c := types.Config{Importer: importer.ForCompiler(fset, "gc", lookup), FakeImportC: true}
	if _, err := c.Check(p.ImportPath, fset, files, info); err != nil {
		t.Fatalf("check %s: %v", p.ImportPath, err)
	}
	for _, f := range files {
		for _, d := range f.Decls {
			name := "a declaration"
			if fn, ok := d.(*ast.FuncDecl); ok {
				name = fn.Name.Name
			}
			ast.Inspect(d, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok {
					if used, ok := info.Uses[id].(*types.Func); ok {
						found(name, filepath.Base(fset.Position(id.Pos()).Filename), used)
					}
				}
				return true
			})
		}
	}
}

// takes reports whether a function has a parameter of a type of this package.
func takes(f *types.Func, name string) bool { return has(f.Signature().Params(), name) }

func has(vars *types.Tuple, name string) bool {
	for v := range vars.Variables() {
		of := types.Unalias(v.Type())
		if p, ok := of.(*types.Pointer); ok {
			of = types.Unalias(p.Elem())
		}
		if of.String() == self+"."+name {
			return true
		}
	}
	return false
}

// callers are the functions, as "package.function", that may use a function which leads a call to a tool, by a name for the function used.
var callers = map[string][]string{
	"a tool's Run":           {"host/tool.run"},                                            // of Runner.Run, with a decision of Admit
	"a run of a decision":    {"host/agent.perform", "host/agent.refused"},                 // which have it from Admit
	"Enforcer.enforce":       {"host/tool.admit", "host/tool.DryRun", "host/tool.enforce"}, // the last for the parent's agent
	"Enforcer.Admit":         {"host/agent.admit", "host/agent.begin"},                     // one after the other, and side by side
	"Enforcer.admit":         {"host/tool.Admit"},
	"another Decision maker": nil,
}

// kind is the name of a function in callers, or "".
func kind(f *types.Func) string {
	of := ""
	if f.Pkg() != nil {
		of = f.Pkg().Path()
	}
	result := has(f.Signature().Results(), "Decision")
	switch name := f.Name(); {
	case name == "Run" && takes(f, "Decision"):
		return "a run of a decision"
	case takes(f, "Call") && has(f.Signature().Results(), "Result") && name == "Run":
		return "a tool's Run"
	case of == self && result && slices.Contains([]string{"enforce", "Admit", "admit"}, name):
		return "Enforcer." + name
	case of == self && result && name != "DryRun":
		return "another Decision maker"
	}
	return ""
}

// TestOneWayToRun searches all code of the host for callers that lead a call to a tool's Run: only Admit makes a decision that runs, and only
// a Runner runs one.
func TestOneWayToRun(t *testing.T) {
	all := list(t)
	seen := map[string]bool{}
	checked := 0
	for path, p := range all {
		if path != self && !slices.Contains(p.Deps, self) || !strings.HasPrefix(path, module) {
			continue
		}
		checked++
		uses(t, all, p, func(in, file string, used *types.Func) {
			k := kind(used)
			if k == "" {
				return
			}
			by := strings.TrimPrefix(path, module) + "." + in
			seen[k+" by "+by] = true
			if !slices.Contains(callers[k], by) {
				t.Errorf("%s (%s) uses %s, %s: only %q may", by, file, used.FullName(), k, callers[k])
			}
		})
	}
	for k, by := range callers {
		for _, d := range by {
			if !seen[fmt.Sprintf("%s by %s", k, d)] {
				t.Errorf("%s is not used by %s any more: take it from the list", k, d)
			}
		}
	}
	if checked < 10 {
		t.Errorf("only %d packages were looked at", checked)
	}
}
