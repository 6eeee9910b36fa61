package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/flynnhost/flynn/host/agent/memory"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/rest"
	"github.com/flynnhost/flynn/host/policy/journal"
	w "github.com/flynnhost/flynn/host/policy/meter/wasmtest"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/sandbox/egress"
)

// document is the OpenAPI document that a running host gives out, with a validator for the JSON Schemas 2020-12 in it.
type document struct {
	callers
	token   string
	paths   map[string]map[string]documented // by path and method in small letters
	schemas *jsonschema.Compiler
}

type documented struct {
	ID          string         `json:"operationId"`
	RequestBody map[string]any `json:"requestBody"`
	Responses   map[string]struct {
		Content map[string]struct {
			Schema map[string]any `json:"schema"`
		} `json:"content"`
	} `json:"responses"`
}

func documentOf(c callers) *document {
	c.t.Helper()
	d := &document{callers: c, schemas: jsonschema.NewCompiler()}
	_, d.token, _ = strings.Cut(c.h.gateway.URL(), "#token=")
	status, _, text := d.request(http.MethodGet, "/openapi.json", d.token, "", "")
	var doc struct {
		OpenAPI string                           `json:"openapi"`
		Paths   map[string]map[string]documented `json:"paths"`
	}
	whole, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err = errors.Join(err, json.Unmarshal([]byte(text), &doc)); err != nil || status != 200 || !strings.HasPrefix(doc.OpenAPI, "3.1.") {
		c.t.Fatalf("%d %v %.300s", status, err, text)
	}
	d.paths = doc.Paths
	d.schemas.AssertFormat()
	if err := d.schemas.AddResource("openapi.json", whole); err != nil {
		c.t.Fatal(err)
	}
	return d
}

// request asks the running host. Of a stream that does not end only the first line is read.
func (d *document) request(method, path, token, kind, body string) (status int, contentType, text string) {
	d.t.Helper()
	r, err := http.NewRequestWithContext(d.t.Context(), method, d.base+rest.Prefix+path, strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()
	contentType = resp.Header.Get("Content-Type")
	if strings.HasPrefix(contentType, "text/event-stream") {
		return resp.StatusCode, contentType, ""
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	if err != nil {
		d.t.Fatal(err)
	}
	return resp.StatusCode, contentType, string(b)
}

// fits checks an answer to an operation against the document: its status, its media type, and all of its JSON.
func (d *document) fits(path, method string, status int, contentType, text string) {
	d.t.Helper()
	op, key := d.paths[path][strings.ToLower(method)], strconv.Itoa(status)
	answer, ok := op.Responses[key]
	if !ok && status >= 400 {
		key = "default"
		answer, ok = op.Responses[key]
	}
	if !ok {
		d.t.Errorf("%s %s answers %d, which is not described", method, path, status)
		return
	}
	if len(answer.Content) == 0 && text == "" {
		return
	}
	kind, _, _ := mime.ParseMediaType(contentType)
	media, ok := answer.Content[kind]
	if !ok {
		d.t.Errorf("%s %s: %d with the media type %q; described are %q", method, path, status, contentType, slices.Collect(maps.Keys(answer.Content)))
		return
	}
	if media.Schema == nil {
		return // a file
	}
	pointer := ""
	for _, part := range []string{"paths", path, strings.ToLower(method), "responses", key, "content", kind, "schema"} {
		pointer += "/" + url.PathEscape(strings.NewReplacer("~", "~0", "/", "~1").Replace(part))
	}
	d.valid("openapi.json#"+pointer, method+" "+path, status, text)
}

// valid checks JSON against a schema of the document.
func (d *document) valid(schema, what string, status int, text string) {
	d.t.Helper()
	s, err := d.schemas.Compile(schema)
	if err != nil {
		d.t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err == nil {
		err = s.Validate(v)
	}
	if err != nil {
		d.t.Errorf("%s: %d does not fit its schema: %v\n%.600s", what, status, err, text)
	}
	var p gateway.Problem
	if status >= 400 && (json.Unmarshal([]byte(text), &p) != nil || p.Status != status || p.Title != http.StatusText(status) || p.Detail == "" || p.Code == "") {
		d.t.Errorf("%s: %d with the problem %+v", what, status, p)
	}
}

// ask asks as this machine's owner, and checks the answer.
func (d *document) ask(template, method, path, kind, body string, want int) {
	d.t.Helper()
	status, contentType, text := d.request(method, path, d.token, kind, body)
	if status != want {
		d.t.Errorf("%s %s: %d %.300s, want %d", method, path, status, text, want)
	}
	d.fits(template, method, status, contentType, text)
}

// first returns a field of the first item of a list or page.
func (d *document) first(path, field string) string {
	d.t.Helper()
	_, _, text := d.request(http.MethodGet, path, d.token, "", "")
	var page struct{ Items []map[string]any }
	list := &page.Items
	var into any = &page
	if strings.HasPrefix(text, "[") {
		into = list
	}
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(into); err != nil || len(*list) == 0 {
		d.t.Fatalf("%s has nothing: %v %.300s", path, err, text)
	}
	return url.PathEscape(fmt.Sprint((*list)[0][field]))
}

// TestTheDocumentIsTrue checks the answers of a running host against its own OpenAPI document: every operation that reads, with things that
// are there; every operation of the table of TestCallers; and requests that are wrong. Nothing is answered that is not described.
func TestTheDocumentIsTrue(t *testing.T) {
	module := filepath.Join(t.TempDir(), "p.wasm")
	if err := os.WriteFile(module, w.Policy(1).Hook("flynn_tool", "", w.I64(0)), 0o600); err != nil {
		t.Fatal(err)
	}
	c := newCallers(t, "\n[[policies]]\nname = \"p\"\nkinds = [\"tool\"]\npath = \""+module+"\"\n"+
		"[[schedules]]\nname = \"report\"\nagent = \"main\"\nevery = \"100h\"\ntext = \"what is new?\"\nas = \"terminal:owner\"\n")
	d := documentOf(c)
	bob := c.arrive("bob", "")
	p := c.arrive("holder", d.token)
	d.fill()
	replace := p.ids.Replace
	t.Run("what is there", func(t *testing.T) {
		d := *d
		d.t = t
		d.ask("/schedules/{name}/runs", http.MethodPost, "/schedules/report/runs", "", "", 200)
		d.ask("/approvals/{id}/decision", http.MethodPost, bob.ids.Replace("/approvals/{ask}/decision"), "application/json", `{"grant":true}`, 204)
		paths := map[string]string{ // by operation, where names are needed
			"get-agent": "/agents/main", "list-entries": "{talk}/entries", "export-conversation": "{talk}/export", "get-person": "/people/tg:bob",
			"export-person": "/people/tg:bob/export", "explain-turn": "/turns/{turn}", "search": "/search?q=SECRET",
			"preview-schedule": "/schedules/preview?timing=30m", "list-runs": "/schedules/report/runs", "get-policy": "/policies/p",
			"get-decision": "/decisions/" + d.first("/decisions", "id"), "get-installed-plugin": "/installed-plugins/none",
			"get-transcript": "/sessions/" + d.first("/sessions", "key") + "/transcript", "export-session": "/sessions/" + d.first("/sessions", "key") + "/export",
			"list-plugin-lines": "/plugins/" + d.first("/plugins", "name") + "/logs", "get-plugin-login": "/plugins/" + d.first("/plugins", "name") + "/login",
		}
		absent := map[string]int{ // without an engine, plugins and the source of a policy
			"get-installed-plugin": 404, "get-policy-source": 404, "get-sandbox-file": 404, "list-sandbox-files": 404, "list-containers": 409,
		}
		for _, template := range slices.Sorted(maps.Keys(d.paths)) {
			op, ok := d.paths[template]["get"]
			if !ok {
				continue
			}
			path, given := paths[op.ID]
			if !given {
				path = strings.NewReplacer("{name}", "p", "{id}", "none").Replace(template)
			}
			path = replace(strings.ReplaceAll(path, "{talk}", "/conversations/{talk}"))
			want := absent[op.ID]
			if want == 0 {
				want = 200
			}
			d.ask(template, http.MethodGet, path, "", "", want)
		}
		for _, more := range []string{
			"/usage?by=day", "/usage?by=model", "/usage/series?by=agent&step=hour", "/conversations?limit=1&from=people", "/memory/notes?limit=1", "/logs?limit=1",
			"/egress?denied=true", "/decisions?kind=route_table", "/shadow-reports?examples=0", "/policy-changes?policy=p", "/turns?limit=1", "/audit?limit=1",
		} {
			template, _, _ := strings.Cut(more, "?")
			d.ask(template, http.MethodGet, more, "", "", 200)
		}
		if _, _, text := d.request(http.MethodGet, "/memory/notes", d.token, "", ""); !strings.Contains(text, "a note") {
			t.Errorf("the notes are %s", text)
		}
	})
	ops := rest.New(c.h.backend(), "test", nil).Operations()
	t.Run("wrong requests", func(t *testing.T) {
		d := *d
		d.t = t
		for _, op := range ops {
			path := replace(operations[op.ID].path)
			if path, _, _ = strings.Cut(path, "?"); path == "" {
				path = op.Path
			}
			for _, wrong := range []struct{ query, token, kind, body string }{
				{query: "?undescribed=1", token: d.token, body: operations[op.ID].body, kind: kindOf(op)},
				{token: "wrong"}, {}, {token: bob.token}, {token: d.token, body: "{", kind: "application/json"}, {token: d.token, body: `{"undescribed":1}`, kind: "application/json"},
				{token: d.token, body: `[null]`, kind: "application/json"}, {token: d.token, body: "x", kind: "text/html"}, {query: "?limit=-1&id=x&since=never", token: d.token},
			} {
				if op.Least == "" && wrong.body == "" || op.Least != route.Owner && wrong.token == bob.token {
					continue // it is not wrong
				}
				status, contentType, text := d.request(op.Method, path+wrong.query, wrong.token, wrong.kind, wrong.body)
				if status < 400 {
					t.Errorf("%s %s is answered %d to %+v", op.Method, path, status, wrong)
				}
				d.fits(op.Path, op.Method, status, contentType, text)
			}
		}
		for _, wrong := range [][2]string{{http.MethodGet, "/none"}, {http.MethodPost, "/status"}, {http.MethodPatch, "/halt"}, {http.MethodPut, "/turns/x"}} {
			status, contentType, text := d.request(wrong[0], wrong[1], d.token, "", "")
			if contentType != gateway.ProblemType {
				t.Errorf("%q: %d of the media type %s", wrong, status, contentType)
			}
			d.valid("openapi.json#/components/schemas/Problem", strings.Join(wrong[:], " "), status, text)
		}
	})
	t.Run("every operation", func(t *testing.T) {
		d := *d
		d.t = t
		for _, op := range ops {
			if row := operations[op.ID]; op.ID != "end-sign-in" { // the token of this machine is none
				path, kind := row.path, ""
				if path == "" {
					path = op.Path
				}
				if row.body != "" {
					kind = kindOf(op)
				}
				d.ask(op.Path, op.Method, replace(path), kind, strings.ReplaceAll(row.body, "NEW", "a-new-one"), row.owner)
			}
		}
	})
}

// fill puts into the store what no conversation with the demo model leaves there.
func (d *document) fill() {
	d.t.Helper()
	ctx, now := d.t.Context(), time.Now()
	count := journal.ShadowCount{Day: now, Policy: "p", Digest: "d", File: "f", Outcome: "changed", Count: 1}
	differs := journal.ShadowDifference{At: now, Policy: "p", Digest: "d", File: "f", Kind: "tool", Was: "deny", Is: "ask", Channel: "tg", Sender: "tg:bob", Tool: "x"}
	if err := errors.Join(
		d.h.store.WriteNote(ctx, memory.Note{Agent: "main", Key: "k", Text: "a note", Updated: now}, 0),
		d.h.store.WriteNote(ctx, memory.Note{Agent: "main", Person: "tg:bob", Key: "k", Text: "a note", Updated: now, Labels: []string{"x"}}, 0),
		d.h.store.AddEgress(ctx, []egress.Record{{ID: "e", At: now, Kind: "proxy", Host: "h.example", Port: 443, Reason: "not listed"}}),
		d.h.store.AddShadow(ctx, []journal.ShadowDifference{differs}, []journal.ShadowCount{count}),
	); err != nil {
		d.t.Fatal(err)
	}
}
