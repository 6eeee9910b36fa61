package host_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/sdk/need"
)

// The tests of this file keep the house as it was laid out: who may import whom, that every package says what it is for,
// and that the module file holds nothing that a reader would not expect.

const module = "github.com/flynnhost/flynn/"

// pkg is what go list tells of a package.
type pkg struct {
	ImportPath  string
	Doc         string
	Name        string
	Imports     []string
	TestGoFiles []string
	GoFiles     []string
}

func packages(t *testing.T) []pkg {
	t.Helper()
	need.Source(t)
	cmd := exec.Command("go", "list", "-json=ImportPath,Doc,Name,Imports,GoFiles,TestGoFiles", "./...")
	cmd.Dir = ".."
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("list packages: %v", err)
	}
	var all []pkg
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// allowed is an area, and those that it may use.
type allowed struct {
	name string
	uses []string
}

// areas say which areas of the host an area may use, from the bottom to the top: no arrow leads back up. Packages of host/internal may be
// used by all of them, and of sdk those that open names.
var areas = []allowed{
	{"message", nil},
	{"buildinfo", nil},
	{"sandbox", []string{"message"}},
	{"config", []string{"message", "sandbox"}},
	{"rows", []string{"message"}},
	{"store", []string{"buildinfo", "message", "rows", "sandbox"}},
	{"cluster", []string{"message", "config", "store"}},
	{"install", nil},
	{"policy", []string{"config", "install", "message", "rows", "store"}},
	{"route", []string{"config", "message", "policy"}},
	{"model", []string{"config", "rows", "store"}},
	{"plugin", []string{"config", "install", "message", "rows", "store"}},
	{"parts", []string{"cluster", "config", "install", "plugin", "policy", "store"}},
	{"access", []string{"config", "message", "plugin", "route", "rows", "store"}},
	{"tool", []string{"config", "message", "model", "plugin", "policy", "route", "rows", "sandbox", "store"}},
	{"sandbox/fleet", []string{"config", "install", "message", "plugin", "rows", "sandbox", "store", "tool"}},
	{"channel", []string{"access", "config", "message", "plugin", "route", "rows", "sandbox", "store", "tool"}},
	{"agent", []string{"config", "message", "model", "policy", "route", "rows", "sandbox", "sandbox/fleet", "store", "tool"}},
	{"inforce", []string{"access", "agent", "channel", "config", "message", "model", "policy", "route", "rows", "store", "tool"}},
	{"observe", []string{"access", "agent", "channel", "message", "model", "plugin", "policy", "rows", "sandbox", "store", "tool"}},
	{"gateway", []string{"access", "agent", "config", "message", "model", "observe", "plugin", "policy", "route", "rows", "sandbox", "store", "tool"}},
	{"admin", []string{"access", "agent", "buildinfo", "config", "gateway", "install", "message", "model", "observe", "plugin", "policy", "route", "rows", "sandbox", "sandbox/fleet", "store", "tool"}},
}

// inner are packages that may use less of the project than the room that they belong to.
var inner = map[string][]string{
	"host/sandbox/frame":    {},
	"host/sandbox/link":     {"host/sandbox/machine", "host/sandbox/frame"},
	"host/sandbox/pool":     {},
	"host/sandbox/driver":   {"host/sandbox/frame", "host/sandbox/image", "host/sandbox/machine"},
	"host/sandbox/resume":   {"host/internal/selfsigned", "host/sandbox/frame", "sdk/backoff"},
	"host/sandbox/executor": {"host/sandbox/archive", "host/sandbox/frame", "host/sandbox/link", "host/sandbox/machine"},
	"host/sandbox/spec": {
		"host/internal/netaddr", "host/sandbox/bridge", "host/sandbox/compose", "host/sandbox/driver", "host/sandbox/egress", "host/sandbox/image", "host/sandbox/mounts",
		"host/sandbox/program",
	},
	"host/sandbox/container": {
		"host/internal/durable", "host/internal/peercred", "host/message", "host/sandbox/driver", "host/sandbox/executor", "host/sandbox/frame", "host/sandbox/link",
		"host/sandbox/machine", "host/sandbox/reaper", "host/sandbox/resume", "host/sandbox/spec", "host/sandbox/wssync",
	},
}

// rows are the leaf packages that say what an area keeps, and what it asks of the store for that. They are below the store, which
// implements it, and so below the rest of their areas.
var rows = []string{
	"access/pairings", "access/signins", "agent/memory", "agent/schedule/timetable", "agent/turnlog", "channel/mailbox", "model/usage", "policy/journal", "tool/consent",
}

// area is the part of an import path that arrows are about: "store" for host/store/sqlite, "" for the wiring.
func area(path string) string {
	inside, _ := strings.CutPrefix(path, "host/")
	if slices.Contains(rows, inside) {
		return "rows"
	}
	if fleet := "sandbox/fleet"; inside == fleet || strings.HasPrefix(inside, fleet+"/") {
		return fleet // the one area inside another
	}
	name, _, _ := strings.Cut(inside, "/")
	return name
}

func TestAreasLeadDown(t *testing.T) {
	for i, a := range areas {
		for _, used := range a.uses {
			if !slices.ContainsFunc(areas[:i], func(b allowed) bool { return b.name == used }) {
				t.Errorf("%s uses %s, which does not stand below it", a.name, used)
			}
		}
	}
}

func TestImportLayers(t *testing.T) {
	for _, p := range packages(t) {
		path := strings.TrimPrefix(p.ImportPath, module)
		for _, imp := range p.Imports {
			imp, ours := strings.CutPrefix(imp, module)
			if !ours {
				continue
			}
			if few, is := inner[path]; is && !slices.Contains(few, imp) {
				t.Errorf("%s imports %s: it may use %q", path, imp, few)
			}
			if why := forbidden(path, imp); why != "" {
				t.Errorf("%s imports %s: %s", path, imp, why)
			}
		}
	}
}

// open are the packages of sdk that the host uses.
var open = []string{"sdk", "sdk/backoff", "sdk/cut", "sdk/markdown", "sdk/need", "sdk/plugintest/fake", "sdk/plugintest/suite", "sdk/policy/abi", "sdk/uptime"}

// forbidden says why a package may not import another of the project; it is "" when it may.
func forbidden(path, imp string) string {
	top, _, _ := strings.Cut(path, "/")
	switch self := area(path); {
	case top == "cmd", path == "host":
		return ""
	case top == "sdk":
		if !strings.HasPrefix(imp, "sdk/") {
			return "sdk imports nothing of the project but sdk"
		}
	case top == "plugins" || top == "policies" || top == "examples":
		if own := strings.Join(strings.SplitN(path, "/", 3)[:2], "/"); imp != own && !strings.HasPrefix(imp, own+"/") && !strings.HasPrefix(imp, "sdk/") {
			return top + " imports only sdk"
		}
	case slices.Contains(open, imp), strings.HasPrefix(imp, "sdk/proto/"), self == "internal" && area(imp) == "internal":
		return ""
	case self == "internal" && path != "host/internal/hosttest":
		return "the small parts of host/internal know nothing of the areas that use them"
	case self != area(imp) && area(imp) != "internal":
		for _, a := range areas {
			if a.name == self && slices.Contains(a.uses, area(imp)) {
				return ""
			}
		}
		return "the areas of host/house_test.go do not have this arrow"
	}
	return ""
}

// A supervisor that is linked with the C library cannot start in most images; a plain go build must not make one.
func TestSupervisorNeedsNoCLibrary(t *testing.T) {
	cmd := exec.Command("go", "list", "-deps", "./cmd/flynn-sandboxd")
	cmd.Dir = ".."
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1", "GOOS=linux")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, dep := range strings.Fields(string(out)) {
		if dep == "runtime/cgo" || dep == "net" || dep == "os/user" {
			t.Errorf("flynn-sandboxd imports %s, by way of some package", dep)
		}
	}
	if len(out) == 0 {
		t.Error("no packages were listed")
	}
}

func TestEveryPackageSaysWhatItIsFor(t *testing.T) {
	for _, p := range packages(t) {
		if len(p.GoFiles) == 0 {
			continue // tests only
		}
		if want := "Package " + p.Name + " "; p.Name != "main" && !strings.HasPrefix(p.Doc, want) {
			t.Errorf("%s: its package comment does not begin with %q", p.ImportPath, want)
		} else if p.Doc == "" {
			t.Errorf("%s has no package comment", p.ImportPath)
		}
	}
}

// An expression that is compiled when its package is initialised costs time at every start, of commands and plugins too, used or not.
func TestEveryExpressionWaitsForItsUse(t *testing.T) {
	need.Source(t)
	cmd := exec.Command("go", "list", "-deps", "-f", `{{if not .Standard}}{{$dir := .Dir}}{{range .GoFiles}}{{$dir}}/{{.}}{{"\n"}}{{end}}{{end}}`, "./cmd/flynn")
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	house, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	looked := 0
	for _, name := range strings.Fields(string(out)) {
		if !strings.HasPrefix(name, house+string(filepath.Separator)) {
			continue
		}
		looked++
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			if d, ok := decl.(*ast.GenDecl); ok && d.Tok == token.VAR {
				ast.Inspect(d, func(n ast.Node) bool {
					if c, ok := n.(*ast.SelectorExpr); ok && c.Sel.Name == "MustCompile" {
						t.Errorf("%s: an expression is compiled at every start: have sync.OnceValue around it", files.Position(c.Pos()))
					}
					_, later := n.(*ast.FuncLit)
					return !later
				})
			}
		}
	}
	if looked == 0 {
		t.Error("no file was looked at")
	}
}

func TestModuleFile(t *testing.T) {
	text, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	table, err := os.ReadFile("../CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "replace") || strings.HasPrefix(line, "exclude") {
			t.Errorf("go.mod has %q: others could not build what we build", line)
		}
		fields := strings.Fields(line)
		direct := len(fields) == 2 && strings.HasPrefix(fields[1], "v")
		if direct && !strings.Contains(string(table), "`"+fields[0]+"`") {
			t.Errorf("direct dependency %s has no line in the table of CONTRIBUTING.md", fields[0])
		}
	}
}

func TestTopLevel(t *testing.T) {
	want := []string{"CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "README.md", "cmd", "docs", "examples", "go.mod", "go.sum", "host", "justfile",
		"plugins", "policies", "sdk", "tools.mod", "tools.sum"}
	out, err := exec.Command("git", "-C", "..", "ls-tree", "--name-only", "HEAD").Output()
	if err != nil {
		t.Skipf("not a git checkout: %v", err)
	}
	for _, name := range strings.Fields(string(out)) {
		if !strings.HasPrefix(name, ".") && !slices.Contains(want, name) {
			t.Errorf("%s lies at the top level, which holds only %s", name, strings.Join(want, ", "))
		}
	}
}
