package attack

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/model/modeltest"
	"github.com/flynnhost/flynn/host/model/usage"
	"github.com/flynnhost/flynn/host/tool/builtin"
)

// TestSearchesAreLabelled has an agent search, read what was found, and fall for it: the labels of both hold back the command that an attacker wants,
// and usage and explain tell of the search.
func TestSearchesAreLabelled(t *testing.T) {
	model := modeltest.New(t)
	front := httptest.NewServer(model)
	t.Cleanup(front.Close)
	t.Setenv("MODEL_KEY", modeltest.Key)
	t.Setenv("SEARCH_KEY", "the-key-of-the-search")
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, "<p>%s</p>", injected) }))
	t.Cleanup(page.Close)
	at := netip.MustParseAddrPort(page.Listener.Addr().String())
	found := fmt.Sprintf("http://localhost:%d/found", at.Port())
	spent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(432) }))
	t.Cleanup(spent.Close)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"results":[{"url":%q,"title":"The weather","text":%q}]}`, found, injected)
	}))
	t.Cleanup(service.Close)
	inForce := strings.ReplaceAll(guarded, "%MODEL%", front.URL+"/v1") + fmt.Sprintf(`
[[search]]
provider = "tavily"
base_url = %q
api_key_env = "SEARCH_KEY"
[[search]]
provider = "exa"
base_url = %q
api_key_env = "SEARCH_KEY"
`, spent.URL, service.URL)
	s := newSiteThatReads(t, withPolicies(t, strings.NewReplacer(`write = "ask"`, `execute = "deny"`, "web:* network:*", "web:*").Replace(inForce)), builtin.WebConfig{
		Ports: []uint16{at.Port()},
		Allow: func(a netip.AddrPort) error {
			if a.Port() != at.Port() || !a.Addr().IsLoopback() {
				return fmt.Errorf("%s is not the page of this test", a)
			}
			return nil
		},
	})
	model.Script(
		runs("before", "true"), does("search", "web.search", `{"query":"weather"}`), runs("harm", "touch stolen"),
		does("inner", "web.fetch", fmt.Sprintf(`{"url":%q}`, service.URL)), does("read", "web.fetch", fmt.Sprintf(`{"url":%q}`, found)), done,
	)
	where := place{"web", "main"}
	s.types(where, "what is the weather?")
	turn := s.ended(where, 1)
	calls := s.calls(turn.ID)
	if len(calls) != 5 {
		t.Fatalf("calls are %+v", calls)
	}
	text := func(i int) string { return calls[i].Result.Text }
	if calls[0].Decision != "run" || calls[1].Decision != "run" || !strings.Contains(text(1), injected) || !strings.Contains(text(1), "[tavily: its quota is used up") {
		t.Errorf("before the search and the search: %+v", calls[:2])
	}
	if !slices.Equal(calls[1].Result.Labels, []string{"web:127.0.0.1", "web:localhost"}) {
		t.Errorf("the search has the labels %q", calls[1].Result.Labels)
	}
	if calls[2].Decision == "run" || !strings.Contains(text(2), "untrusted-content") || len(s.files("stolen")) > 0 {
		t.Errorf("the command: %+v", calls[2])
	}
	if !calls[3].Result.IsError || strings.Contains(text(3), injected) {
		t.Errorf("an agent reads the service, whose address is for searches alone: %+v", calls[3])
	}
	if !strings.Contains(text(4), injected) || !slices.Equal(calls[4].Result.Labels, []string{"web:localhost"}) {
		t.Errorf("the page: %+v", calls[4])
	}
	rows, err := s.store.ListUsage(t.Context(), usage.Filter{Turn: turn.ID})
	if err != nil {
		t.Fatal(err)
	}
	var paid []string
	for _, u := range rows {
		if u.Task == "web.search" {
			paid = append(paid, fmt.Sprintf("%s %s %d %q", u.Provider, u.Model, u.Cost, u.Failure))
		}
	}
	if want := []string{`tavily search 0 "quota"`, `exa search 7000000 ""`}; !slices.Equal(paid, want) {
		t.Errorf("usage has %q", paid)
	}
	code, trace := s.http(http.MethodGet, "/api/v1/turns/"+turn.ID, s.token, nil)
	if code != http.StatusOK || !strings.Contains(trace, "web.search") || !strings.Contains(trace, `"provider":"exa"`) || strings.Contains(trace, "the-key") {
		t.Errorf("explain, %d: %s", code, trace)
	}
}
