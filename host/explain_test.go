package host

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/admin"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/observe/explain"
)

// TestATurnIsExplainedEverywhere runs a host: its API, a command beside it and a collector of spans tell of the same turn.
func TestATurnIsExplainedEverywhere(t *testing.T) {
	spans := make(chan string, 10)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		spans <- string(body)
	}))
	defer collector.Close()
	dir := t.TempDir()
	path := filepath.Join(dir, "flynn.toml")
	text := fmt.Sprintf("[store]\ndir = %q\n[gateway]\nlisten = \"127.0.0.1:0\"\n[routing]\ndefault_agent = \"a\"\n[agent_configs.a]\ntool_profile = \"minimal\"\n"+
		"[telemetry]\notlp_endpoint = %q\n", dir+"/s", collector.URL)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ready := make(chan struct{})
	h, err := New(t.Context(), Config{Path: path, Getenv: os.Getenv, Log: slog.New(slog.DiscardHandler), Ready: func() { close(ready) }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 60*time.Second)
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	defer func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	select {
	case <-ready: // what comes before that is taken for what an earlier process left, and queued twice
	case <-ctx.Done():
		t.Fatal("the host is not ready")
	}
	err = h.backend().Conversations.Submit(ctx, message.Message{
		Channel: "web", EventID: "e1", Text: "hello there", Sender: message.Sender{ID: "owner"}, Addressed: true,
		Conversation: message.Conversation{ID: "main", Kind: message.DM},
	})
	if err != nil {
		t.Fatal(err)
	}
	var sent string
	select {
	case sent = <-spans:
	case <-ctx.Done():
		t.Fatal("no spans came")
	}
	var asked explain.Trace
	eventually(t, "the trace has the delivery", func() bool {
		asked, err = h.backend().Explains.Explain(ctx, "message/1")
		return err == nil && len(asked.Deliveries) == 1 && asked.Deliveries[0].State == "sent"
	})
	if asked.State != "done" || len(asked.Route) == 0 || len(asked.Steps) != 1 {
		t.Errorf("the trace is %+v", asked)
	}
	if !strings.Contains(sent, asked.ID) || strings.Contains(sent, "hello") {
		t.Errorf("the spans of %s are %s", asked.ID, sent)
	}
	if last, err := h.backend().Explains.ExplainLast(ctx, "web", "main"); err != nil || last.Text() != asked.Text() {
		t.Errorf("the last of the running host: %v\n%s", err, last.Text())
	}
	c := h.current.Load().Config
	for name, read := range map[string]func() (explain.Trace, error){
		"by id": func() (explain.Trace, error) { return admin.Explain(ctx, c, asked.ID) },
		"last":  func() (explain.Trace, error) { return admin.ExplainLast(ctx, c, "web", "main") },
	} {
		if beside, err := read(); err != nil || beside.Text() != asked.Text() {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, beside.Text(), asked.Text())
		}
	}
}
