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

// layers say which rooms of the project a room may use; sub-packages belong to their room, and sdk/policy/abi,
// sdk/proto, sdk/need and host/jsonform are open to the host. A room that is not listed may use nothing of the project.
var layers = map[string][]string{
	"host/message": {},
	"host/cron":    {},
	"host/lane":    {},
	"host/glob":    {},
	"host/machine": {"host/sandbox/deletion", "host/sandbox/erase"},
	"host/durable": {},
	"host/signing": {},
	"host/netaddr": {},
	"host/media":   {"host/durable"},
	"host/schema":  {},
	"host/config": {
		"host/cron", "host/glob", "host/netaddr", "host/sandbox/bridge", "host/sandbox/compose", "host/sandbox/egress", "host/sandbox/engine",
		"host/sandbox/image", "host/sandbox/mounts",
	},
	"host/store":   {"host/message"},
	"host/budget":  {"host/store"},
	"host/model":   {"host/config"},
	"host/task":    {"host/model"},
	"host/policy":  {"host/durable", "host/message", "host/glob", "host/signing", "sdk"},
	"host/route":   {"host/config", "host/glob", "host/message", "host/policy"},
	"host/sandbox": {"host/approval/shell", "host/machine", "host/netaddr", "host/quota"},
	"host/plugin": {
		"host/config", "host/durable", "host/media", "host/message", "host/netaddr", "host/schema", "host/signing", "host/store", "sdk", "sdk/plugintest/fake",
		"sdk/proto",
	},
	"host/provider": {"host/durable", "host/glob", "host/plugin", "host/tool"},
	"host/channel":  {"host/message", "host/store", "host/lane", "host/route", "host/config", "sdk/markdown", "sdk/proto"},
	"host/access":   {"host/config", "host/message", "host/plugin"},
	"host/approval": {"host/machine", "host/store"},
	"host/elevate":  {"host/store"},
	"host/pairing":  {"host/message", "host/route", "host/store"},
	"host/command":  {"host/approval", "host/config", "host/config", "host/message", "host/pairing", "host/route", "host/store"},
	"host/tool":     {"host/approval", "host/machine", "host/message", "host/model", "host/netaddr", "host/policy", "host/schema", "host/store"},
	"host/agent": {
		"host/approval", "host/budget", "host/decisionlog", "host/machine", "host/message", "host/model", "host/policy", "host/route", "host/store",
		"host/task", "host/tool",
	},
	"host/code":      {"host/machine", "host/message", "host/quota", "host/sandbox", "host/tool"},
	"host/session":   {"host/config", "host/agent", "host/message", "host/store"},
	"host/schedule":  {"host/cron", "host/message", "host/store"},
	"host/lint":      {"host/config", "host/policy", "host/store"},
	"host/preflight": {"host/config", "host/machine", "host/plugin", "host/policy", "host/sandbox"},
	"host/explain":   {"host/agent", "host/model", "host/store"},
	"host/telemetry": {"host/explain"},
	"host/gateway":   {"host/explain", "host/message", "host/store"},
	"host/door":      {"host/message"},

	"host/spool":       {},
	"host/decisionlog": {"host/policy", "host/store"},
	"host/shadowlog":   {"host/policy", "host/spool", "host/store"},
	"host/egresslog":   {"host/sandbox", "host/spool", "host/store"},
}

// inner are packages that may use less of the project than the room that they belong to.
var inner = map[string][]string{
	"host/sandbox/frame": {},
	"host/sandbox/link":  {"host/machine", "host/sandbox/frame"},
	"host/sandbox/pool":  {},
}

// room is the part of an import path that layers are about: "host/store" for host/store/sqlite.
func room(path string) string {
	parts := strings.Split(strings.TrimPrefix(path, module), "/")
	return strings.Join(parts[:min(2, len(parts))], "/")
}

func TestImportLayers(t *testing.T) {
	for _, p := range packages(t) {
		self, path := room(p.ImportPath), strings.TrimPrefix(p.ImportPath, module)
		for _, imp := range p.Imports {
			if !strings.HasPrefix(imp, module) {
				continue
			}
			if allowed, is := inner[path]; is && !slices.Contains(allowed, strings.TrimPrefix(imp, module)) {
				t.Errorf("%s imports %s: it may use %q", path, strings.TrimPrefix(imp, module), allowed)
			}
			if room(imp) == self {
				continue
			}
			if why := forbidden(self, path, strings.TrimPrefix(imp, module)); why != "" {
				t.Errorf("%s imports %s: %s", path, strings.TrimPrefix(imp, module), why)
			}
		}
	}
}

func forbidden(self, path, imp string) string {
	top, _, _ := strings.Cut(path, "/")
	switch {
	case imp == "sdk/need", imp == "host/jsonform" && top != "sdk" && top != "plugins":
		return ""
	case top == "cmd" || self == "host":
		return ""
	case top == "sdk":
		if !strings.HasPrefix(imp, "sdk/") {
			return "sdk imports nothing of the project but sdk"
		}
	case top == "plugins" || top == "policies" || top == "examples":
		if !strings.HasPrefix(imp, "sdk/") {
			return top + " imports only sdk"
		}
	default:
		allowed := layers[self]
		if !slices.Contains(allowed, room(imp)) && !slices.Contains(allowed, imp) && !slices.ContainsFunc(allowed, func(a string) bool {
			return strings.HasPrefix(imp, a+"/")
		}) {
			return "the layers in host/house_test.go do not have this arrow"
		}
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

// What is compiled where a package is initialised is paid for by every start, of a command and of a plugin too, used or not.
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
	want := []string{"CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "README.md", "cmd", "examples", "go.mod", "go.sum", "host", "justfile",
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
