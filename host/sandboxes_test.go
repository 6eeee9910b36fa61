package host

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
	"github.com/flynnhost/flynn/host/sandbox/selftest"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// boxedHost is a running host with a gateway and one live sandbox of a session.
type boxedHost struct {
	*Host
	t    *testing.T
	id   string // of the sandbox
	base string
	key  string
}

func newBoxedHost(t *testing.T) *boxedHost {
	t.Helper()
	sandboxtest.Engine(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "flynn.toml")
	text := fmt.Sprintf("[store]\ndir = %q\n[gateway]\nlisten = \"127.0.0.1:0\"\n[routing]\ndefault_agent = \"main\"\n[agent_configs.main]\ntool_profile = \"full\"\n"+
		"[sandbox]\nenabled = true\nimage = %q\n", filepath.Join(dir, "s"), sandboxtest.Image)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := New(t.Context(), Config{Path: path, Getenv: os.Getenv, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	b := &boxedHost{Host: h, t: t}
	var address string
	eventually(t, "the gateway is there", func() bool { address = h.URL(); return address != "" })
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	b.base, b.key = "http://"+u.Host+"/api/v1", strings.TrimPrefix(u.Fragment, "token=")
	box, err := h.fleet.Sandbox(t.Context(), message.WorkspaceKey("tg/dm:ann:main"), "")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"<img src=x>": "a", "two\nlines": "b", "\u202egpj.exe": "c", "folder/in \xff it": "d", "..;%2e": "e"} {
		if err := box.WriteFile(t.Context(), name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := box.Exec(t.Context(), machine.Command{Script: "ln -s /etc/passwd out; ln -s 'two\nlines' in; ln -s /proc/1/root/etc up; mkfifo pipe; ln -s ../../etc/passwd rel"}); err != nil {
		t.Fatal(err)
	}
	var live []gateway.LiveSandbox
	b.get("/sandboxes", 200, &live)
	if len(live) != 1 || live[0].Session != "tg/dm:ann:main" || live[0].Agent != "main" || live[0].Memory <= 0 || live[0].MemoryLimit != 512<<20 || live[0].Tasks < 1 ||
		live[0].Network != "none" || live[0].Image == "" {
		t.Fatalf("live sandboxes: %+v", live)
	}
	b.id = live[0].ID
	return b
}

// get asks an operation and reads the answer into out, unless that is nil.
func (b *boxedHost) get(path string, status int, out any) (body string, header http.Header) {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, b.base+path, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+b.key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != status {
		b.t.Errorf("%s: %d, want %d: %s %v", path, res.StatusCode, status, text, err)
	}
	if out != nil {
		if err := json.Unmarshal(text, out); err != nil {
			b.t.Errorf("%s: %v: %s", path, err, text)
		}
	}
	return string(text), res.Header
}

// terminal opens one and says hello.
func (b *boxedHost) terminal(id, token string) *websocket.Conn {
	b.t.Helper()
	conn, _, err := websocket.Dial(b.t.Context(), "ws"+strings.TrimPrefix(b.base, "http")+"/sandboxes/"+id+"/terminal", &websocket.DialOptions{
		Subprotocols: []string{gateway.TerminalProtocol},
	})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = conn.CloseNow() })
	conn.SetReadLimit(1 << 20)
	hello := fmt.Sprintf(`{"type":"hello","token":%q,"rows":24,"cols":80}`, token)
	if err := conn.Write(b.t.Context(), websocket.MessageText, []byte(hello)); err != nil {
		b.t.Fatal(err)
	}
	return conn
}

// until reads frames until a text has come, and returns the last text frame.
func (b *boxedHost) until(conn *websocket.Conn, want string) gateway.TerminalFrame {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Minute)
	defer cancel()
	var out strings.Builder
	for {
		kind, data, err := conn.Read(ctx)
		if err != nil {
			b.t.Fatalf("%v; %q has not come in %q", err, want, out.String())
		}
		out.Write(data)
		if !strings.Contains(out.String(), want) {
			continue
		}
		var f gateway.TerminalFrame
		if kind == websocket.MessageText && json.Unmarshal(data, &f) != nil {
			b.t.Fatalf("frame %s", data)
		}
		return f
	}
}

func TestFilesOfALiveSandbox(t *testing.T) {
	b := newBoxedHost(t)
	at := "/sandboxes/" + b.id
	var folder gateway.SandboxFolder
	b.get(at+"/files", 200, &folder)
	refs := map[string]gateway.SandboxFile{}
	for _, e := range folder.Entries {
		refs[e.Name] = e
	}
	for name, want := range map[string]string{"<img src=x>": "a", "two\nlines": "b", "\u202egpj.exe": "c", "..;%2e": "e", "in": "b"} {
		body, header := b.get(at+"/file?ref="+refs[name].Ref, 200, nil)
		how := header.Get("Content-Disposition")
		if body != want || !strings.HasPrefix(how, "attachment; filename") || strings.ContainsAny(how, "\n<>") && !strings.Contains(how, `"`) || strings.Contains(how, "\u202e") ||
			header.Get("Content-Type") != "application/octet-stream" || header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%q: %q, %q", name, body, header)
		}
	}
	b.get(at+"/files?path=folder", 200, &folder)
	if len(folder.Entries) != 1 || folder.Entries[0].Name != "in \uFFFD it" {
		t.Errorf("the folder has %+v", folder)
	}
	if body, _ := b.get(at+"/file?ref="+folder.Entries[0].Ref, 200, nil); body != "d" {
		t.Errorf("a name that is no text: %q", body)
	}
	for path, status := range map[string]int{
		at + "/file?path=out": 400, at + "/file?path=rel": 400, at + "/file?path=up/passwd": 400, at + "/file?path=/etc/passwd": 400, at + "/file?path=../../etc/passwd": 400,
		at + "/files?path=up": 400, at + "/file?path=pipe": 400, at + "/file?path=folder": 400, at + "/file?path=missing": 404, at + "/file?ref=%2A": 400,
		at + "/file?path=two%0Alines": 400, "/sandboxes/nobody/files": 404, "/sandboxes/" + strings.Repeat("x", 200) + "/files": 422,
	} {
		if body, _ := b.get(path, status, nil); strings.Contains(body, "root:") {
			t.Errorf("%s gives out %q", path, body)
		}
	}
	if err := b.end(); err != nil {
		t.Fatal(err)
	}
	b.get(at+"/files", 404, nil)
	if len(b.fleet.Live()) != 0 {
		t.Error("a look at its files has brought a sandbox back")
	}
}

func TestTerminal(t *testing.T) {
	b := newBoxedHost(t)
	if f := b.until(b.terminal(b.id, "wrong"), `"error"`); f.Code != gateway.CodeUnauthorized {
		t.Errorf("a wrong token: %+v", f)
	}
	if f := b.until(b.terminal("nobody", b.key), `"error"`); f.Code != gateway.CodeNotFound {
		t.Errorf("no such sandbox: %+v", f)
	}
	conn := b.terminal(b.id, b.key)
	b.until(conn, `"ready"`)
	write := func(conn *websocket.Conn, kind websocket.MessageType, text string) {
		t.Helper()
		if err := conn.Write(t.Context(), kind, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	write(conn, websocket.MessageText, `{"type":"resize","rows":33,"cols":101}`)
	write(conn, websocket.MessageBinary, "stty size\n")
	b.until(conn, "33 101")
	write(conn, websocket.MessageBinary, "echo a$((1+1))b\n")
	b.until(conn, "a2b")
	write(conn, websocket.MessageBinary, "exit 3\n")
	if f := b.until(conn, `"ended"`); !strings.Contains(f.Message, "exit code 3") {
		t.Errorf("it ended: %+v", f)
	}
	// The kill switch ends a terminal, and keeps others from being opened.
	conn = b.terminal(b.id, b.key)
	b.until(conn, `"ready"`)
	if err := b.kill.Set(t.Context(), true, "fire", "web:owner"); err != nil {
		t.Fatal(err)
	}
	if f := b.until(conn, `"ended"`); f.Message != "the host was halted" {
		t.Errorf("halted: %+v", f)
	}
	if f := b.until(b.terminal(b.id, b.key), `"error"`); f.Code != gateway.CodeConflict || !strings.Contains(f.Message, "fire") {
		t.Errorf("while halted: %+v", f)
	}
	if err := b.kill.Set(t.Context(), false, "", "web:owner"); err != nil {
		t.Fatal(err)
	}
	// A sandbox that goes away takes its terminal along, and a frame that breaks the protocol does.
	conn = b.terminal(b.id, b.key)
	b.until(conn, `"ready"`)
	write(conn, websocket.MessageText, `{"type":"resize","rows":0,"cols":0}`)
	b.until(conn, "rows and cols must be")
	conn = b.terminal(b.id, b.key)
	b.until(conn, `"ready"`)
	if err := b.end(); err != nil {
		t.Fatal(err)
	}
	b.until(conn, `"ended"`)
	eventually(t, "every terminal has left two records", func() bool {
		began, err := b.store.ListAudit(t.Context(), consent.AuditFilter{Kind: consent.AuditTerminal})
		if err != nil {
			t.Fatal(err)
		}
		ended, err := b.store.ListAudit(t.Context(), consent.AuditFilter{Kind: consent.AuditTerminalEnd})
		if err != nil {
			t.Fatal(err)
		}
		return len(began) == 4 && len(ended) == 4 && began[0].Actor == "web:owner" && began[0].Subject == "tg/dm:ann:main"
	})
}

func TestSelfTestOfARunningHost(t *testing.T) {
	b := newBoxedHost(t)
	start := func(body string) int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.base+"/sandboxes/selftest", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+b.key)
		req.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		return res.StatusCode
	}
	if got := start(`{"sandbox":"nobody"}`); got != http.StatusNotFound {
		t.Errorf("a sandbox that is not configured: %d", got)
	}
	if got := start(`{}`); got != http.StatusAccepted {
		t.Fatalf("started: %d", got)
	}
	if got := start(`{}`); got != http.StatusConflict {
		t.Errorf("twice: %d", got)
	}
	var state selftest.State
	eventually(t, "an attack was tried", func() bool {
		b.get("/sandboxes/selftest", 200, &state)
		return len(state.Outcomes) > 2 || !state.Running
	})
	if state.Failure != "" || state.Of < 50 || state.By != "web:owner" || len(state.Outcomes) < 2 || state.Outcomes[0].Name == "" {
		t.Errorf("%+v", state)
	}
}

// end ends the live sandbox, as its time being up does.
func (b *boxedHost) end() error {
	box, err := b.fleet.LiveSession(b.id)
	if err != nil {
		return err
	}
	return box.Close()
}
