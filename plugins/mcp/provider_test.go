package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/flynnhost/flynn/sdk/plugintest"
	"github.com/flynnhost/flynn/sdk/tool"
)

func TestManifestAgreesWithTheProcess(t *testing.T) {
	if d := (&provider{}).Describe(); d.Name != "mcp" || d.Version != "0.1.0" {
		t.Errorf("got %+v; plugin.toml says mcp 0.1.0", d)
	}
}

func TestSettings(t *testing.T) {
	for name, c := range map[string]struct {
		settings map[string]any
		secrets  map[string]string
		want     string // "" is fine
	}{
		"program":             {map[string]any{"command": "srv", "args": []string{"-x"}, "env": map[string]string{"A": "b"}}, nil, ""},
		"address":             {map[string]any{"url": "https://example.org/mcp", "headers": map[string]string{"X-Team": "a"}}, map[string]string{"bearer": "b"}, ""},
		"this machine":        {map[string]any{"url": "http://127.0.0.1:1/mcp"}, nil, ""},
		"nothing":             {map[string]any{}, nil, "set command, or url"},
		"both":                {map[string]any{"command": "srv", "url": "https://example.org"}, nil, "not both"},
		"in the open":         {map[string]any{"url": "http://example.org/mcp"}, nil, "http sends everything in the open"},
		"in the open, wanted": {map[string]any{"url": "http://example.org/mcp", "insecure": true}, nil, ""},
		"password in the url": {map[string]any{"url": "https://a:b@example.org/mcp"}, nil, "must be an address"},
		"no address":          {map[string]any{"url": "file:///etc/passwd"}, nil, "must be an address"},
		"missing secret":      {map[string]any{"command": "srv", "secret_variables": map[string]string{"KEY": "secret"}}, nil, "write secret_env"},
		"secret":              {map[string]any{"command": "srv", "secret_variables": map[string]string{"KEY": "secret"}}, map[string]string{"secret": "x"}, ""},
		"bad variable":        {map[string]any{"command": "srv", "env": map[string]string{"A=B": "x"}}, nil, "not the name of a variable"},
		"header that splits":  {map[string]any{"url": "https://example.org", "headers": map[string]string{"A": "b\r\nC: d"}}, nil, "this is not a header"},
		"root that is none":   {map[string]any{"command": "srv", "roots": []string{"here"}}, nil, "must be an absolute path"},
		"unknown key":         {map[string]any{"command": "srv", "comand": "x"}, nil, "unknown key"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := plugintest.TryStartTools(t, &provider{dial: (&place{}).dial, timeouts: quick()}, plugintest.Config{Settings: c.settings, Secrets: c.secrets})
			wrong, _ := errors.AsType[tool.FieldErrors](err)
			if c.want == "" && err != nil || c.want != "" && !strings.Contains(fmt.Sprint(wrong), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestServersEnvironmentIsScrubbed(t *testing.T) {
	s := settings{
		Env: map[string]string{"A": "b"}, SecretVariables: map[string]string{"KEY": "secret"}, secrets: map[string]string{"secret": "s3"}, stateDir: "/state",
	}
	got := s.environment(func(name string) (string, bool) { return "host's " + name, name != "TZ" })
	for _, want := range []string{"A=b", "KEY=s3", "HOME=/state", "PATH=host's PATH"} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is not in %q", want, got)
		}
	}
	if slices.ContainsFunc(got, func(v string) bool { return strings.HasPrefix(v, "FLYNN") || strings.HasPrefix(v, "TZ=") }) {
		t.Errorf("too much is in %q", got)
	}
}

func TestResultsOfEveryKind(t *testing.T) {
	at := &place{server: newServer(map[string]mcp.ToolHandler{
		"all": func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{StructuredContent: map[string]any{"n": 1}, Content: []mcp.Content{
				&mcp.TextContent{Text: "words"},
				&mcp.ImageContent{Data: []byte("pixels"), MIMEType: "image/png"},
				&mcp.AudioContent{Data: []byte("waves"), MIMEType: "nonsense"},
				&mcp.ResourceLink{URI: "file:///a", Name: "a"},
				&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "file:///b", Text: "inside"}},
				&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "file:///c", Blob: []byte("blob"), MIMEType: "application/pdf"}},
			}}, nil
		},
		"fails": func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: "no"}}}, nil
		},
		"refuses": func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return nil, errors.New("not you")
		},
	})}
	h := start(t, at, plugintest.Config{Permissions: []string{"media"}})
	out, err := h.Call("all", map[string]any{})
	if err != nil || out.IsError {
		t.Fatalf("got %+v, %v", out, err)
	}
	if want := "words\n\n[resource \"a\": file:///a]\n\n[resource file:///b]\n\ninside\n\n[resource file:///c]"; out.Text != want {
		t.Errorf("text %q, want %q", out.Text, want)
	}
	if string(out.Structured) != `{"n":1}` || len(out.Media) != 3 {
		t.Fatalf("structured %s, media %q", out.Structured, out.Media)
	}
	for i, want := range []string{"image-1.png image/png pixels", "audio-2.bin application/octet-stream waves", "resource-3.pdf application/pdf blob"} {
		m, body, _ := h.Services().Media(out.Media[i])
		if got := fmt.Sprintf("%s %s %s", m.Name, m.Type, body); got != want {
			t.Errorf("file %d is %s, want %s", i, got, want)
		}
	}
	if out, err := h.Call("fails", nil); err != nil || !out.IsError || out.Text != "no" {
		t.Errorf("a tool that fails: %+v, %v", out, err)
	}
	if out, err := h.Call("refuses", nil); err != nil || !out.IsError || !strings.Contains(out.Text, "not you") {
		t.Errorf("a tool that refuses: %+v, %v", out, err)
	}
	if out, err := h.Call("missing", nil); err != nil || !out.IsError || !strings.Contains(out.Text, "no longer offers") {
		t.Errorf("a tool that is not there: %+v, %v", out, err)
	}
}

func TestProgressAndCancel(t *testing.T) {
	ended := make(chan error, 1)
	at := &place{server: newServer(map[string]mcp.ToolHandler{
		"slow": func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			for i := 1.0; ctx.Err() == nil; i++ { // it never ends by itself, and tells without end how far it is
				_ = r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
					ProgressToken: r.Params.GetProgressToken(), Progress: i, Total: 2 * i, Message: "at it",
				})
				select {
				case <-ctx.Done():
				case <-time.After(time.Millisecond):
				}
			}
			ended <- ctx.Err()
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "too late"}}}, nil
		},
		"quick": says("here"),
	})}
	h := start(t, at, plugintest.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var first string
	out, err := h.CallContext(ctx, "slow", nil, func(text string) {
		if first == "" {
			first = text
		}
		cancel()
	})
	if err == nil || out.Text != "" {
		t.Errorf("a cancelled call: %+v, %v", out, err)
	}
	if !strings.HasSuffix(first, "at it") {
		t.Errorf("progress %q", first)
	}
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("the server does not hear that the call is cancelled")
	}
	if out, err := h.Call("quick", nil); err != nil || out.Text != "here" {
		t.Errorf("the call after it: %+v, %v", out, err)
	}
}

func TestListFollowsTheServer(t *testing.T) {
	s := newServer(map[string]mcp.ToolHandler{"one": says("1")})
	at := &place{server: s}
	h := start(t, at, plugintest.Config{})
	revisions := h.Watch()
	before := <-revisions
	if got := h.Names(); !slices.Equal(got, []string{"one"}) {
		t.Fatalf("tools %q", got)
	}
	addTool(s, "two", says("2"))
	for r := range revisions {
		if r > before && slices.Equal(h.Names(), []string{"one", "two"}) {
			break
		}
	}
	if out, err := h.Call("two", nil); err != nil || out.Text != "2" {
		t.Errorf("the new tool: %+v, %v", out, err)
	}
}

func TestServerThatGoesAndComes(t *testing.T) {
	begun, never := make(chan bool), make(chan bool)
	defer close(never)
	at := &place{server: newServer(map[string]mcp.ToolHandler{"one": says("1"), "hangs": func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		close(begun)
		select {
		case <-never:
		case <-ctx.Done():
		}
		return nil, errors.New("gone")
	}})}
	h := start(t, at, plugintest.Config{})
	lost := make(chan plugintest.Outcome, 1)
	go func() {
		out, _ := h.CallContext(t.Context(), "hangs", nil, nil)
		lost <- out
	}()
	<-begun
	at.put(nil)
	if out := <-lost; !out.IsError {
		t.Errorf("a call whose server went away: %+v", out)
	}
	if text := h.WaitStatus(tool.StateDegraded); !strings.Contains(text, "next try") {
		t.Errorf("status %q", text)
	}
	for {
		out, err := h.Call("one", nil)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(out.Text, "is not connected: connect to the server: nobody is there") {
			break
		}
	}
	if got := h.Names(); !slices.Equal(got, []string{"hangs", "one"}) {
		t.Errorf("while it is away its tools are %q", got)
	}
	at.put(newServer(map[string]mcp.ToolHandler{"one": says("again")}))
	h.WaitStatus(tool.StateReady)
	if out, err := h.Call("one", nil); err != nil || out.Text != "again" {
		t.Errorf("when it is back: %+v, %v", out, err)
	}
}

func TestResources(t *testing.T) {
	s := newServer(map[string]mcp.ToolHandler{"resources.list": says("a shadow")})
	read := func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI, Text: "text of " + r.Params.URI}}}, nil
	}
	s.AddResource(&mcp.Resource{URI: "a://b", Name: "b", Description: "two\nlines"}, read)
	s.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: "a://x/{y}", Name: "x"}, read)
	h := start(t, &place{server: s}, plugintest.Config{})
	if got := h.Names(); !slices.Equal(got, []string{"resources.list", "resources.read"}) {
		t.Fatalf("tools %q", got)
	}
	out, err := h.Call("resources.list", nil)
	if err != nil || out.Text != "a://b \"b\": two lines\n\npattern a://x/{y} \"x\"" {
		t.Errorf("list: %+v, %v", out, err)
	}
	if out, err = h.Call("resources.read", map[string]string{"uri": "a://x/1"}); err != nil || !strings.HasSuffix(out.Text, "text of a://x/1") {
		t.Errorf("read: %+v, %v", out, err)
	}
	if out, err = h.Call("resources.read", map[string]string{"uri": "a://nowhere"}); err != nil || !out.IsError {
		t.Errorf("read what is not there: %+v, %v", out, err)
	}
	off := start(t, &place{server: s}, plugintest.Config{Settings: map[string]any{"command": "none", "resources": false}})
	if got := off.Names(); !slices.Equal(got, []string{"resources.list"}) {
		t.Errorf("without resources the tools are %q", got)
	}
}

func TestNamesAndSchemas(t *testing.T) {
	for name, want := range map[string]string{
		"get-sum": "get-sum", "a/b": "a_b_", "": "_", "x\x1b[2Jy": "x__2Jy_", strings.Repeat("n", 80): strings.Repeat("n", 55) + "_",
	} {
		got := usable(name)
		if !strings.HasPrefix(got, want) || len(got) > maxName {
			t.Errorf("%q becomes %q, want %q", name, got, want)
		}
	}
	if usable("a/b") == usable("a\\b") {
		t.Error("two names become one")
	}
	list := listing{names: map[string]string{}}
	for _, bad := range []*mcp.Tool{
		{Name: "no object", InputSchema: []any{1}}, {Name: "huge", InputSchema: map[string]any{"a": strings.Repeat("x", maxSchema)}},
		{Name: "bad result", OutputSchema: "text"},
	} {
		if err := list.add(bad); err == nil {
			t.Errorf("%s is taken", bad.Name)
		}
	}
	yes, no := true, false
	for _, c := range []struct {
		a    *mcp.ToolAnnotations
		want tool.Effect
	}{
		{nil, tool.EffectUnknown}, {&mcp.ToolAnnotations{ReadOnlyHint: true, DestructiveHint: &yes}, tool.Read},
		{&mcp.ToolAnnotations{}, tool.Destructive}, {&mcp.ToolAnnotations{DestructiveHint: &no}, tool.Write},
	} {
		if got := effect(c.a); got != c.want {
			t.Errorf("%+v claims %d, want %d", c.a, got, c.want)
		}
	}
}

// TestHugeList has a server with more tools than anybody can use, in pages.
func TestHugeList(t *testing.T) {
	s := mcp.NewServer(&mcp.Implementation{Name: "fake", Version: "1"}, &mcp.ServerOptions{PageSize: 50})
	for i := range 700 {
		addTool(s, fmt.Sprintf("t%03d", i), says("x"))
	}
	h := start(t, &place{server: s}, plugintest.Config{})
	if n := len(h.Names()); n != maxTools {
		t.Errorf("%d tools are offered, want %d", n, maxTools)
	}
}

func TestResultBombs(t *testing.T) {
	many := func(n int, part mcp.Content) mcp.ToolHandler {
		return func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			r := &mcp.CallToolResult{}
			for range n {
				r.Content = append(r.Content, part)
			}
			return r, nil
		}
	}
	at := &place{server: newServer(map[string]mcp.ToolHandler{
		"parts": many(10_000, &mcp.TextContent{Text: "x"}),
		"text":  many(1, &mcp.TextContent{Text: strings.Repeat("x", 4<<20)}),
	})}
	h := start(t, at, plugintest.Config{Permissions: []string{"media"}})
	for name, want := range map[string]string{"parts": "more parts are left out", "text": "[the rest is left out]"} {
		out, err := h.Call(name, nil)
		if err != nil || !strings.Contains(out.Text, want) || len(out.Text) > maxText+1000 || len(out.Media) > 2 {
			t.Errorf("%s: %.100q of %d bytes, %d files, %v; want %q", name, out.Text, len(out.Text), len(out.Media), err, want)
		}
	}
	image := &mcp.ImageContent{Data: make([]byte, maxMedia/2), MIMEType: "image/png"}
	r := (&provider{}).result(&mcp.CallToolResult{Content: []mcp.Content{image, image, image}})
	if len(r.Media) != 2 || !strings.Contains(r.Text, "files of one result have at most") {
		t.Errorf("%d files, %q", len(r.Media), r.Text)
	}
}

func FuzzContent(f *testing.F) {
	f.Add([]byte(`{"content":[{"type":"text","text":"a"},{"type":"image","data":"AA==","mimeType":"image/png"}],"structuredContent":{"a":[1]}}`))
	f.Add([]byte(`{"content":[{"type":"resource","resource":{"uri":"a","blob":"AAAA"}},{"type":"resource_link","uri":"\u0000"}],"isError":true}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var r mcp.CallToolResult
		if json.Unmarshal(text, &r) != nil {
			return
		}
		out := (&provider{}).result(&r)
		if len(out.Structured) > 0 && !json.Valid(out.Structured) || len(out.Text) > maxText+100 {
			t.Errorf("got %+v", out)
		}
	})
}
