package gateway_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/sdk/need"
)

// TestReference keeps docs/reference/http.md like the comment of Server.handler.
func TestReference(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "routes.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	doc := ""
	ast.Inspect(file, func(n ast.Node) bool {
		if f, ok := n.(*ast.FuncDecl); ok && f.Name.Name == "handler" {
			doc = f.Doc.Text()
		}
		return true
	})
	_, list, _ := strings.Cut(doc, "\n\n")
	rows := "| Request | Answer |\n| --- | --- |\n"
	line := regexp.MustCompile(`^\s*((?:GET|POST)?\s*/\S*)\s+(.*)$`)
	for l := range strings.Lines(list) {
		if found := line.FindStringSubmatch(strings.TrimRight(l, "\n")); found != nil {
			rows += "| `" + strings.Join(strings.Fields(found[1]), " ") + "` | " + found[2] + " |\n"
		}
	}
	need.Golden(t, "../../docs/reference/http.md", "# HTTP\n\n"+
		"The gateway listens on loopback. Every request but those marked \"no token\" carries `Authorization: Bearer TOKEN`, with the token in\n"+
		"`gateway.token` of the store's folder, and comes from no page or from the gateway's own.\n\n"+rows+"\n"+
		"[api.md](api.md) lists the operations of the API, and [openapi.json](openapi.json) describes them for programs (OpenAPI 3.1); a running Flynn\n"+
		"serves its own at `/api/v1/openapi.json`. Errors are problems as RFC 9457 has them. A conversation can be followed\n"+
		"as it happens over the WebSocket, whose frames `host/gateway/protocol.go` describes.\n")
}
