package jsonform

import (
	"encoding/json"
	"go/ast"
	goparser "go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/sdk/need"
)

func TestMarshal(t *testing.T) {
	raw := json.RawMessage("{\"a\":\"<&>\u2028\\u003c\"}")
	got, err := Marshal(struct {
		Text string
		Args json.RawMessage
	}{"a && b > c < d", raw})
	if want := `{"Text":"a && b > c < d","Args":` + string(raw) + "}"; err != nil || string(got) != want {
		t.Errorf("got %s, want %s, error %v", got, want, err)
	}
	if _, err := Marshal(func() {}); err == nil {
		t.Error("a function was encoded")
	}
}

func TestSame(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{`{"a":"<"}`, `{"a":"\u003c"}`, true},
		{`{"a":1,"b":2}`, ` { "b" : 2.0, "a" : 1 }`, true},
		{``, `{}`, true},
		{`{"a":"<"}`, `{"a":">"}`, false},
		{`{"a":"\\u003c"}`, `{"a":"<"}`, false},
		{`{"a":1}`, `{"a":1,"a":1}`, false},
		{`{"a":1}`, `{"a":"1"}`, false},
		{`[`, `{}`, false},
	} {
		if got := Same(json.RawMessage(c.a), json.RawMessage(c.b)); got != c.want {
			t.Errorf("%s and %s: %v, want %v", c.a, c.b, got, c.want)
		}
		if got := Same(json.RawMessage(c.b), json.RawMessage(c.a)); got != c.want {
			t.Errorf("%s and %s: %v, want %v", c.b, c.a, got, c.want)
		}
	}
}

// rooms are the packages in which JSON is stored, compared or shown. The JSON of other packages is read by decoders of foreign services
// and of our own sandboxes, or is hashed by one function, whose stored digests must not change.
var rooms = []string{
	"agent", "channel/command", "gateway", "message", "observe/explain", "policy/decisionlog", "store", "tool", "../cmd/flynn",
}

// elsewhere are the parts of rooms that write such other JSON.
var elsewhere = []string{"agent/code", "store/media", "tool/provider"}

// TestNothingEscapesHTML finds encoders that write <, > and & as escapes: a call that is stored like that is no longer the one that was shown.
func TestNothingEscapesHTML(t *testing.T) {
	need.Source(t)
	for _, room := range rooms {
		files := 0
		err := filepath.WalkDir(filepath.Join("../..", room), func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && (strings.HasSuffix(d.Name(), "test") || slices.Contains(elsewhere, strings.TrimPrefix(filepath.ToSlash(path), "../../"))):
				return fs.SkipDir
			case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
				return nil
			}
			files++
			fset := token.NewFileSet()
			f, err := goparser.ParseFile(fset, path, nil, 0)
			if err != nil {
				return err
			}
			for _, fn := range f.Decls {
				escaping(fn, func(pos token.Pos, name string) {
					t.Errorf("%s: json.%s escapes HTML; use jsonform.Marshal, or SetEscapeHTML(false)", fset.Position(pos), name)
				})
			}
			return nil
		})
		if err != nil || files == 0 {
			t.Errorf("%s: %d files, error %v", room, files, err)
		}
	}
}

// escaping finds the uses of encoding/json in a declaration that escape HTML.
func escaping(in ast.Node, found func(token.Pos, string)) {
	set := false
	var uses []*ast.SelectorExpr
	ast.Inspect(in, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		set = set || sel.Sel.Name == "SetEscapeHTML"
		if pkg, ok := sel.X.(*ast.Ident); ok && pkg.Name == "json" {
			uses = append(uses, sel)
		}
		return true
	})
	for _, u := range uses {
		switch u.Sel.Name {
		case "Marshal", "MarshalIndent":
			found(u.Pos(), u.Sel.Name)
		case "NewEncoder":
			if !set {
				found(u.Pos(), u.Sel.Name)
			}
		}
	}
}
