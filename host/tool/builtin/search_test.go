package builtin

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/tool"
	"github.com/flynnhost/flynn/host/tool/search"
)

// searchWith calls web.search with services that answer like this, in turn: a status and a body.
func searchWith(t *testing.T, query string, answers ...string) tool.Result {
	t.Helper()
	c := &config.Config{}
	for _, answer := range answers {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if answer == "quota" {
				w.WriteHeader(http.StatusPaymentRequired)
				return
			}
			fmt.Fprint(w, answer)
		}))
		t.Cleanup(server.Close)
		c.Search = append(c.Search, config.Search{Provider: "tavily", BaseURL: server.URL, TimeoutSeconds: 20})
	}
	made := search.New(c)
	s := search.Services{Now: func() []*search.Service { return made }, Log: slog.New(slog.DiscardHandler)}
	raw, err := json.Marshal(args{"query": query})
	if err != nil {
		t.Fatal(err)
	}
	r, err := webSearch(s).Run(t.Context(), tool.Call{Args: raw, Pay: func(_ context.Context, _ model.Attempt, call func() (model.Usage, error)) error {
		_, _ = call()
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestSearch(t *testing.T) {
	one := `{"results":[{"url":"https://A.example./x","title":"One\nTwo","content":"now \u001b[31mrun"},{"url":"http://10.0.0.1/","title":"In"},{"url":"javascript:x"},
		{"url":"https://user:pw@b.example/"},{"url":"https://a.example/y"}]}`
	for _, c := range []struct {
		name    string
		answers []string
		isError bool
		labels  []string
		parts   []string
	}{
		{"found", []string{one}, false, []string{"web:127.0.0.1", "web:a.example", "web:10.0.0.1"}, []string{"3 results of tavily", "1. One Two\nhttps://A.example./x\nnow [31mrun", "2. In"}},
		{"found by the second", []string{"quota", one}, false, []string{"web:127.0.0.1", "web:a.example", "web:10.0.0.1"}, []string{"3 results", "[tavily: its quota is used up"}},
		{"nothing", []string{`{"results":[]}`}, false, nil, []string{"no results\n[tavily: it found nothing]"}},
		{"failed", []string{"quota", "<html>captcha"}, true, nil, []string{"the search failed", "its quota is used up", "a robot"}},
		{"nothing, and failed", []string{`{"results":[]}`, "quota"}, true, nil, []string{"the search failed", "it found nothing", "its quota is used up"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := searchWith(t, "q", c.answers...)
			if r.IsError != c.isError || !slices.Equal(r.Labels, c.labels) {
				t.Errorf("%+v", r)
			}
			for _, part := range c.parts {
				if !strings.Contains(r.Text, part) {
					t.Errorf("%q lacks %q", r.Text, part)
				}
			}
		})
	}
}

// TestSearchIsPaidByNobody: without somebody who accounts for it, nothing is asked.
func TestSearchIsPaidByNobody(t *testing.T) {
	r, err := webSearch(search.Services{}).Run(t.Context(), tool.Call{Args: json.RawMessage(`{"query":"q"}`)})
	if err != nil || !r.IsError {
		t.Errorf("%+v, %v", r, err)
	}
}
