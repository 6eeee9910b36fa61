package gateway

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/sdk/need"
)

// TestReference keeps docs/reference/http.md like the comment of Server.handler, and that comment complete.
func TestReference(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "routes.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	doc, routes := "", []string(nil)
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Name.Name == "handler" {
				doc = n.Doc.Text()
			}
		case *ast.BasicLit:
			if pattern := strings.Trim(n.Value, `"`); regexp.MustCompile(`^(GET|POST) /api/`).MatchString(pattern) {
				routes = append(routes, pattern)
			}
		}
		return true
	})
	documented := regexp.MustCompile(`[ \t]+`).ReplaceAllString(strings.ReplaceAll(doc, "...", ""), " ")
	for _, r := range routes {
		if r = strings.ReplaceAll(r, "...", ""); !strings.Contains(documented, r) {
			t.Errorf("the comment of handler does not have %s", r)
		}
	}
	_, list, _ := strings.Cut(doc, "\n\n")
	rows := "| Request | Body and answer |\n| --- | --- |\n"
	line := regexp.MustCompile(`^\s*((?:GET|POST)?\s*/\S*)\s+(.*)$`)
	for l := range strings.Lines(list) {
		if found := line.FindStringSubmatch(strings.TrimRight(l, "\n")); found != nil {
			rows += "| `" + strings.Join(strings.Fields(found[1]), " ") + "` | " + strings.NewReplacer("{", "`{", "}", "}`", "[", "\\[", "<", "&lt;").Replace(found[2]) + " |\n"
		}
	}
	need.Golden(t, "../../docs/reference/http.md", "# HTTP\n\n"+
		"The gateway listens on loopback. Every request but those marked \"no token\" carries `Authorization: Bearer TOKEN`, with the token in\n"+
		"`gateway.token` of the store's folder, and comes from no page or from the gateway's own. A name with a capital letter is the JSON of that type in\n"+
		"`host/gateway`; `[X]` is a list. The routes below `/api/v1` may still change.\n\n"+rows)
}
