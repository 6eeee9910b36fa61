package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/sdk/plugintest/rude"
)

func TestConsoleShowsRudeNamesOnOneLine(t *testing.T) {
	asked := ""
	path := servedBy(t, func(w http.ResponseWriter, r *http.Request) {
		asked = r.Method + " " + r.URL.EscapedPath()
		if r.Method == http.MethodDelete {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		_, _ = w.Write([]byte(`[{"id":"i1","sender":"irc:a\u001b[2Jb\nc","role":"guest","began":"2026-11-21T12:00:00Z","used":"2026-11-21T13:00:00Z"}]`))
	})
	out, errs := new(strings.Builder), new(strings.Builder)
	getenv := func(string) string { return "" }
	if code := run(t.Context(), []string{"flynn", "console", "list", "--config", path}, getenv, strings.NewReader(""), out, errs); code != 0 {
		t.Fatal(errs)
	}
	if lines := strings.Count(out.String(), "\n"); lines != 2 || strings.Contains(out.String(), "\x1b") || !strings.Contains(out.String(), "i1") {
		t.Errorf("the list is %q", out)
	}
	for _, id := range rude.Texts() {
		if id.Text == "" || strings.HasPrefix(id.Text, "-") || strings.ContainsRune(id.Text, 0) || len(id.Text) > 1000 {
			continue
		}
		out.Reset()
		errs.Reset()
		if code := run(t.Context(), []string{"flynn", "console", "end", "--config", path, id.Text}, getenv, strings.NewReader(""), out, errs); code != 0 || !strings.HasPrefix(asked, "DELETE /api/v1/sign-ins/") || strings.Count(asked, "/") != 4 {
			t.Errorf("%s: %d %s asks %s", id.Name, code, errs, asked)
		}
	}
}
