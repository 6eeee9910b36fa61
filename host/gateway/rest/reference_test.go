package rest_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/backend"
	"github.com/flynnhost/flynn/host/gateway/gatewaytest"
	"github.com/flynnhost/flynn/host/gateway/preview"
	"github.com/flynnhost/flynn/host/gateway/rest"
	"github.com/flynnhost/flynn/host/observe/explain"
	"github.com/flynnhost/flynn/host/observe/feed"
	"github.com/flynnhost/flynn/host/observe/hostlog"
	"github.com/flynnhost/flynn/host/store/sqlite"
	"github.com/flynnhost/flynn/sdk/need"
)

// everything is a backend with all subjects, to describe and not to use.
func everything() gateway.Backend {
	return gateway.Backend{
		Conversations: backend.Conversations{}, Approvals: backend.Approvals{}, Status: backend.Status{}, Access: backend.Access{}, Explains: explain.Reader{},
		Events: &feed.Feed{}, Halter: backend.Halt{}, Keys: &sqlite.Store{}, Logs: &hostlog.Log{}, DryRuns: backend.DryRuns{}, Files: backend.Files{}, Memory: backend.Memory{}, People: backend.People{}, Plugins: backend.Plugins{},
		Policies: backend.Policies{}, Reloads: backend.Reload{}, Schedules: backend.Schedules{}, Sessions: backend.Sessions{}, SignIns: backend.SignIns{}, Usages: backend.Usage{},
		Trials: &backend.Trials{}, Decisions: backend.Decisions{}, Turns: explain.Lister{}, Sandboxes: backend.Sandboxes{}, Previews: &preview.Service{}, Cluster: backend.Cluster{},
		Agents: backend.Agents{}, Routing: backend.Routing{}, Models: &backend.Models{},

		Configurations: gatewaytest.Settings{}, Secrets: gatewaytest.Settings{}, Channels: gatewaytest.Settings{}, Doctor: gatewaytest.Settings{},
		Installed: backend.Installed{},
	}
}

// TestEverythingIsDescribed finds subjects that the reference would leave out.
func TestEverythingIsDescribed(t *testing.T) {
	v := reflect.ValueOf(everything())
	for i := range v.NumField() {
		if v.Field(i).IsNil() {
			t.Errorf("everything lacks %s", v.Type().Field(i).Name)
		}
	}
}

// TestReference keeps docs/reference/openapi.json and api.md like the operations.
func TestReference(t *testing.T) {
	api := rest.New(everything(), "", nil)
	doc, err := api.OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := json.Indent(&text, doc, "", "  "); err != nil {
		t.Fatal(err)
	}
	need.Golden(t, "../../../docs/reference/openapi.json", text.String()+"\n")
	ops := api.Operations()
	slices.SortStableFunc(ops, func(a, b rest.Operation) int { return cmp.Compare(a.Subject, b.Subject) })
	var out strings.Builder
	out.WriteString("# The API\n\nBelow `/api/v1`, by subject; [openapi.json](openapi.json) has what each takes and answers. The role is the least that may use it:\n" +
		"guests and members get what is theirs. The token of this machine is an owner's; the chat command `/console` gives people one of their own.\n")
	subject := ""
	for _, op := range ops {
		if op.Subject != subject {
			subject = op.Subject
			fmt.Fprintf(&out, "\n## %s\n\n| Request | Role | |\n| --- | --- | --- |\n", subject)
		}
		fmt.Fprintf(&out, "| `%s %s` | %s | %s |\n", op.Method, op.Path, cmp.Or(op.Least, "anybody"), strings.ReplaceAll(op.Summary, "|", "\\|"))
	}
	need.Golden(t, "../../../docs/reference/api.md", out.String())
}
