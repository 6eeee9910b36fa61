package setup

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/model/prove"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/model/modeltest"
	"github.com/flynnhost/flynn/host/sandbox/driver"
)

func TestWhatAFailureOfAModelMeans(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		body   string
		want   string
	}{
		{"a bad key", 401, `{"error":{"message":"Incorrect API key provided","type":"invalid_request_error","code":"invalid_api_key"}}`, "the key is not accepted"},
		{"no credit", 402, `{"error":{"message":"Insufficient credits"}}`, "no credit"},
		{"no credit, as OpenAI says it", 429, `{"error":{"message":"You exceeded your current quota","code":"insufficient_quota"}}`, "no credit"},
		{"the limit", 429, `{"error":{"message":"slow down","type":"rate_limit_error"}}`, "try again in a minute"},
		{"an unknown model", 404, `{"error":{"message":"no such model"}}`, `no model "test-model"`},
		{"a failure of the server", 500, `{"error":{"message":"oops"}}`, "a failure of its own"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := modeltest.New(t)
			s.Script(modeltest.Reply{Status: c.status, ContentType: "application/json", Raw: c.body})
			m := s.Config("openai")
			_, err := prove.Model(t.Context(), m)
			if err == nil {
				t.Fatal("it works")
			}
			if got := prove.Explain(m, err); !strings.Contains(got, c.want) || strings.Contains(got, modeltest.Key) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	dead := config.Model{Provider: "openai", Model: "x", BaseURL: "http://127.0.0.1:1/v1"}
	if _, err := prove.Model(t.Context(), dead); err == nil || !strings.Contains(prove.Explain(dead, err), "nothing answers") {
		t.Errorf("a dead port: %v", err)
	}
	s := modeltest.New(t)
	s.Script(modeltest.Reply{Text: "ready"})
	if p, err := prove.Model(t.Context(), s.Config("anthropic")); err != nil || p.Text != "ready" {
		t.Errorf("got %+v, %v", p, err)
	}
}

func TestList(t *testing.T) {
	const list = `{"data":[{"id":"a","context_length":1},{"id":"b","context_window":2},{"id":"c","max_model_len":3},{"id":"d","max_context_length":4},
		{"id":"e","max_input_tokens":5},{"id":"f","context_length":"long"},{"id":"g","context_length":-1},{"id":"h\u0007"},{"id":""}]}`
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") }))
	defer elsewhere.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch key := r.Header.Get("X-Api-Key") + r.Header.Get("Authorization"); {
		case r.URL.Path == "/moved/models":
			http.Redirect(w, r, elsewhere.URL, http.StatusFound)
		case r.URL.String() == "/v1/models?limit=1000" && key == "k" && r.Header.Get("Anthropic-Version") != "", r.URL.String() == "/v1/models" && key == "Bearer k":
			fmt.Fprint(w, list)
		default:
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	defer server.Close()
	for _, m := range []config.Model{{Provider: "anthropic", BaseURL: server.URL}, {Provider: "openai", BaseURL: server.URL + "/v1/"}} {
		m.APIKey = "k"
		l, err := List(t.Context(), m)
		want := []ListedModel{{"a", 1}, {"b", 2}, {"c", 3}, {"d", 4}, {"e", 5}, {"f", 0}, {"g", 0}}
		if err != nil || !slices.Equal(l.Models, want) || time.Since(l.Date) > time.Minute || l.Received.Before(l.Sent) {
			t.Errorf("%s: %+v, %v", m.Provider, l, err)
		}
	}
	for _, url := range []string{server.URL + "/moved", server.URL + "/other"} {
		l, err := List(t.Context(), config.Model{Provider: "openai", BaseURL: url, APIKey: "k"})
		if !errors.Is(err, ErrNoList) || l.Date.IsZero() {
			t.Errorf("%s: %+v, %v", url, l, err)
		}
	}
	if _, err := List(t.Context(), config.Model{Provider: "openai", BaseURL: "http://127.0.0.1:1"}); err == nil || errors.Is(err, ErrNoList) {
		t.Errorf("nobody answers: %v", err)
	}
}

func TestJournal(t *testing.T) {
	dir := t.TempDir()
	old := filepath.Join(dir, "old")
	if err := os.WriteFile(old, []byte("one"), 0o640); err != nil {
		t.Fatal(err)
	}
	var j Journal
	if _, err := WriteSecret(&j, filepath.Join(dir, "data/secrets"), "key", "s3cret"); err != nil {
		t.Fatal(err)
	}
	if err := j.Keep(old); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(old, []byte("two"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := j.Undo(); err != nil {
		t.Fatal(err)
	}
	text, _ := os.ReadFile(old)
	if left, _ := os.ReadDir(dir); string(text) != "one" || len(left) != 1 {
		t.Errorf("left %v, with %q", left, text)
	}
}

func TestCleanSecret(t *testing.T) {
	for text, ok := range map[string]bool{" a-key\r\n": true, "": false, "two\nlines": false, "a\x1b[0m": false, strings.Repeat("x", MaxSecret+1): false} {
		if _, err := CleanSecret(text); (err == nil) != ok {
			t.Errorf("%.20q: %v", text, err)
		}
	}
}

// TestSandboxes: the first configuration has a sandbox that this machine can make, and an agent without a shell where it can make none.
func TestSandboxes(t *testing.T) {
	own := func(lacks []driver.Lack, err error) func(context.Context) ([]driver.Lack, error) {
		return func(context.Context) ([]driver.Lack, error) { return lacks, err }
	}
	for _, c := range []struct {
		name, profile, limits string
		own                   func(context.Context) ([]driver.Lack, error)
		enabled               bool
	}{
		{"all of it", "coding", "required", own(nil, nil), true},
		{"without limits", "coding", config.BestEffort, own([]driver.Lack{{Limit: driver.CPULimit, Why: "no control groups"}}, nil), true},
		{"with what no configuration relies on", "coding", "required", own([]driver.Lack{{Limit: driver.LeftMemory, Why: "one user"}}, nil), true},
		{"refused by the system", "minimal", "required", own(nil, errors.New("no user namespaces")), false},
		{"not looked for", "minimal", "required", nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			text, err := starter(Look(t.Context(), os.Getenv, Places{Own: c.own}), Answers{}, "")
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(t.TempDir(), "flynn.toml")
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := config.Load(path, os.Getenv)
			if err != nil {
				t.Fatal(err)
			}
			if a := got.Agents["assistant"]; got.Sandbox.Enabled != c.enabled || got.Sandbox.Limits != c.limits || a.ToolProfile != c.profile {
				t.Errorf("profile %s, %+v:\n%s", a.ToolProfile, got.Sandbox, text)
			}
		})
	}
}
