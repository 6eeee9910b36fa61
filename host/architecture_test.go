package host_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestArchitecturePage resolves every file and function that docs/architecture.md names, and looks for every area in its table.
func TestArchitecturePage(t *testing.T) {
	text, err := os.ReadFile("../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	page := strings.Join(strings.Fields(string(text)), " ")
	for _, a := range areas {
		if a.name == "rows" {
			continue // no folder, see below
		}
		if !strings.Contains(page, "| `host/"+a.name+"` |") {
			t.Errorf("the table of areas lacks host/%s", a.name)
		}
	}
	for _, r := range rows {
		if !strings.Contains(page, "`"+r+"`") {
			t.Errorf("the paragraph about rows lacks %s", r)
		}
	}
	resolve(t, page, "../")
}

// TestContributingPage resolves the files that the newcomer's table names.
func TestContributingPage(t *testing.T) {
	text, err := os.ReadFile("../CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	resolve(t, string(text), "../")
}

// named is a file of the project between backquotes, with a function of it or without.
var named = regexp.MustCompile("`((?:host|cmd|sdk|plugins|policies|examples)/[\\w/.-]+\\.\\w+)(?:: ([\\w.]+))?`")

// resolve reports the names of a page that lead nowhere.
func resolve(t *testing.T, page, root string) {
	t.Helper()
	found := named.FindAllStringSubmatch(page, -1)
	if len(found) < 10 {
		t.Errorf("the page names %d files", len(found))
	}
	for _, m := range found {
		path, function := filepath.Join(root, m[1]), m[2]
		if function == "" {
			if _, err := os.Stat(path); err != nil {
				t.Error(err)
			}
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Error(err)
			continue
		}
		if !declares(file, function) {
			t.Errorf("%s has no %s", m[1], function)
		}
	}
}

// declares reports whether a file has a function, or a method that is named TYPE.METHOD.
func declares(file *ast.File, name string) bool {
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		full := f.Name.Name
		if f.Recv != nil {
			of := f.Recv.List[0].Type
			if star, ok := of.(*ast.StarExpr); ok {
				of = star.X
			}
			if index, ok := of.(*ast.IndexExpr); ok {
				of = index.X
			}
			if id, ok := of.(*ast.Ident); ok {
				full = id.Name + "." + full
			}
		}
		if full == name {
			return true
		}
	}
	return false
}
