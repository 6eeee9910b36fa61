// Package rest is the HTTP API below /api/v1, which the console and the command line share.
//
// Start with New, and with describe.go for what an operation is. There is one file for each subject: its operations, what they read and
// what they answer. The OpenAPI document at /api/v1/openapi.json is made from the same declarations. Package gateway checks the token and
// the origin of a request before it comes here and says who the caller is; whether the caller may use an operation is checked here, in one
// place. The package decides nothing else: it asks gateway.Backend.
package rest

import (
	"context"
	"log/slog"
	"net/http"
	"reflect"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/flynnhost/flynn/host/gateway"
)

// Prefix begins the paths of all operations.
const Prefix = "/api/v1"

// API is the API of one host. Its operations are described when the first request comes, because that takes milliseconds and a host that
// nobody looks at does not need them.
type API struct {
	backend gateway.Backend
	log     *slog.Logger
	make    func() *served
}

// served is the API once it is described.
type served struct {
	mux  *http.ServeMux
	huma huma.API
	ops  []Operation
}

// New returns the API of a host. log may be nil.
func New(backend gateway.Backend, version string, log *slog.Logger) *API {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	a := &API{backend: backend, log: log}
	a.make = sync.OnceValue(func() *served { return a.describe(version) })
	return a
}

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s := a.make()
	if _, pattern := s.mux.Handler(r); pattern == "" {
		s.unknown(w, r)
		return
	}
	s.mux.ServeHTTP(w, r)
}

// unknown answers requests that no operation has.
func (s *served) unknown(w http.ResponseWriter, r *http.Request) {
	status, detail := http.StatusNotFound, "there is no such path; "+Prefix+"/openapi.json lists all"
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		other := r.Clone(r.Context())
		other.Method = method
		if _, pattern := s.mux.Handler(other); pattern != "" {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) > 0 {
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		status, detail = http.StatusMethodNotAllowed, "this path has "+strings.Join(allowed, ", ")+" and not "+r.Method
	}
	gateway.WriteProblem(w, gateway.NewProblem(status, gateway.CodeNotFound, detail))
}

// OpenAPI returns the OpenAPI document, as JSON.
func (a *API) OpenAPI() ([]byte, error) { return a.make().huma.OpenAPI().MarshalJSON() }

// Operations returns all operations.
func (a *API) Operations() []Operation { return a.make().ops }

func (a *API) describe(version string) *served {
	s := &served{mux: http.NewServeMux()}
	config := huma.DefaultConfig("Flynn", version)
	config.Info.Description = "What a running Flynn can tell and do. " +
		"Every request carries a token (Authorization: Bearer TOKEN), and comes from no page or from " +
		"the gateway's own. Errors are problems as RFC 9457 has them. Requests that write take an Idempotency-Key, but for uploads of files and imports of " +
		"sessions, which are read as they come: a file has the same handle however often it is sent, and a session is imported once. Long lists come in pages: " +
		"send the next of one as the cursor of the following."
	config.Components = &huma.Components{
		Schemas:         huma.NewMapRegistry("#/components/schemas/", schemaName),
		SecuritySchemes: map[string]*huma.SecurityScheme{"token": {Type: "http", Scheme: "bearer"}},
	}
	config.Security = []map[string][]string{{"token": {}}}
	config.OpenAPIPath, config.DocsPath, config.SchemasPath = "", "", ""
	config.CreateHooks = nil // which add links to schemas
	config.Formats = map[string]huma.Format{"application/json": strictJSON, "json": strictJSON}
	config.RejectUnknownQueryParameters = true
	s.huma = humago.NewWithPrefix(s.mux, Prefix, config)
	r := &registrar{served: s, log: a.log}
	if a.backend.Keys != nil {
		r.keyed = newKeyed(a.backend.Keys)
	}
	a.register(r)
	return s
}

// register adds the operations of the subjects that the backend has.
func (a *API) register(r *registrar) {
	b := a.backend
	r.document()
	signIns{b.SignIns}.register(r)
	status{b.Status}.register(r)
	conversations{b.Conversations}.register(r)
	approvals{b.Approvals}.register(r)
	policies{b.Policies, b.DryRuns}.register(r)
	if b.Trials != nil {
		trials{b.Trials}.register(r)
	}
	if b.Decisions != nil {
		decisions{b.Decisions}.register(r)
	}
	if b.Sandboxes != nil {
		sandboxes{b.Sandboxes}.register(r)
	}
	if b.Cluster != nil {
		cluster{b.Cluster}.register(r)
	}
	if b.Previews != nil {
		previews{b.Previews}.register(r)
	}
	if b.Turns != nil {
		turnList{b.Turns}.register(r)
	}
	if b.Access != nil {
		people{b.Access, b.People}.register(r)
	}
	if b.Events != nil {
		(&events{Events: b.Events}).register(r)
	}
	if b.Agents != nil {
		agents{b.Agents}.register(r)
	}
	if b.Routing != nil {
		routing{b.Routing}.register(r)
	}
	if b.Models != nil {
		models{b.Models}.register(r)
	}
	if b.Explains != nil {
		turns{b.Explains, b.Conversations}.register(r)
	}
	if b.Files != nil {
		files{b.Files}.register(r)
	}
	if b.Halter != nil {
		halting{b.Halter}.register(r)
	}
	if b.Logs != nil {
		logs{b.Logs}.register(r)
	}
	if b.Memory != nil {
		memory{b.Memory}.register(r)
	}
	if b.Plugins != nil {
		plugins{b.Plugins}.register(r)
	}
	if b.Reloads != nil {
		reload{b.Reloads}.register(r)
	}
	if b.Configurations != nil {
		configuration{b.Configurations}.register(r)
	}
	if b.Secrets != nil {
		secrets{b.Secrets}.register(r)
	}
	if b.Channels != nil {
		channels{b.Channels}.register(r)
	}
	if b.Doctor != nil {
		doctor{b.Doctor}.register(r)
	}
	if b.Installed != nil {
		installed{b.Installed}.register(r)
	}
	if b.Schedules != nil {
		schedules{b.Schedules}.register(r)
	}
	if b.Sessions != nil {
		sessions{b.Sessions}.register(r)
	}
	if b.Usages != nil {
		usage{b.Usages}.register(r)
	}
}

// document serves the OpenAPI document itself.
func (r *registrar) document() {
	add(r, Operation{ID: "get-openapi", Method: http.MethodGet, Path: "/openapi.json", Subject: "API", Least: guest, Summary: "This document"},
		func(context.Context, gateway.Caller, *struct{}) (map[string]any, error) {
			text, err := r.huma.OpenAPI().MarshalJSON()
			if err != nil {
				return nil, err
			}
			var doc map[string]any
			return doc, decode(text, &doc)
		})
}

// schemaName names the schema of a type. Types of other packages than gateway have the package's name before their own.
func schemaName(t reflect.Type, hint string) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if page, of, ok := strings.Cut(t.Name(), "["); ok && page == "Page" {
		return "Page" + ofPage(strings.TrimSuffix(of, "]"))
	}
	name := huma.DefaultSchemaNamer(t, hint)
	path := t.PkgPath()
	pkg := path[strings.LastIndexByte(path, '/')+1:]
	if t.Name() == "" || path == "" || pkg == "gateway" || pkg == "rest" {
		return name
	}
	return strings.ToUpper(pkg[:1]) + pkg[1:] + name
}

// ofPage names the items of a page by the full name of their type: their package's name comes first unless it is gateway.
func ofPage(full string) string {
	last := full[strings.LastIndexByte(full, '/')+1:]
	pkg, name, _ := strings.Cut(last, ".")
	if pkg == "gateway" {
		return name
	}
	return strings.ToUpper(pkg[:1]) + pkg[1:] + name
}
