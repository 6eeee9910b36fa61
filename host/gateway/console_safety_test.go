package gateway_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/config/edit"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/backend"
	"github.com/flynnhost/flynn/host/gateway/gatewaytest"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/observe/explain"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/policy/configured"
	"github.com/flynnhost/flynn/host/policy/decisionlog"
	"github.com/flynnhost/flynn/host/policy/history"
	"github.com/flynnhost/flynn/host/policy/journal"
	w "github.com/flynnhost/flynn/host/policy/meter/wasmtest"
	"github.com/flynnhost/flynn/host/sandbox/egress"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/selftest"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/sqlite"
	"github.com/flynnhost/flynn/sdk/plugintest/rude"
	"github.com/flynnhost/flynn/sdk/policy/abi"
)

// TestSafetyRooms opens the rooms of policies, of the timeline and of sandboxes in a real browser, with rude data.
func TestSafetyRooms(t *testing.T) {
	t.Parallel()
	b := browser(t)
	for _, tt := range []struct {
		name string
		run  func(*testing.T, context.Context)
	}{
		{"policies", roomPolicies},
		{"shadow", roomShadow},
		{"timeline", roomTimeline},
		{"sandboxes", roomSandboxes},
		{"terminal", roomTerminal},
	} {
		t.Run(tt.name, func(t *testing.T) { tt.run(t, b) })
	}
}

// with starts the gateway again with more subjects.
func (d *fixture) with(change func(*gateway.Backend)) {
	d.stop()
	change(&d.front)
	d.start()
}

const markup = `<img src=x onerror="window.hurt=1">`

// always is a module that answers every tool call alike.
func always(decision, rule int64) []byte {
	return w.Policy(1).Hook("flynn_tool", "", w.I64(decision|rule<<8))
}

// policyStore is a real chain of one policy, with its log and history in a real store.
func policyStore(t *testing.T) (*policy.Engine, *sqlite.Store, string) {
	t.Helper()
	dir := t.TempDir()
	s, err := sqlite.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	past, err := history.Open(dir, s)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	path := filepath.Join(folder, "policy.wasm")
	for name, text := range map[string]string{
		"policy.wasm": string(always(abi.ToolDeny, 7)), "rules.txt": markup + strings.Repeat("\u202e", 100),
		"policy.toml": "name = \"guard\"\nversion = \"1.0.0\"\nabi = \"flynn 1\"\nkinds = [\"tool\"]\nlanguage = \"wasm\"\n[build]\noutput = \"policy.wasm\"\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	e, err := policy.New(t.Context(), policy.Config{Sources: []policy.Source{{Name: "guard", Path: path, Kinds: []string{policy.KindTool}}}, History: past})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e, s, path
}

// decide has the chain decide n times, and keeps the decisions.
func decide(t *testing.T, e *policy.Engine, s *sqlite.Store, n int) {
	t.Helper()
	set := e.Pin()
	defer set.Release()
	var records []policy.Record
	for k := range n {
		f := policy.ToolFacts{Agent: "main", Session: "s", Tool: fmt.Sprintf("tool-%d", k%3), Effect: "read", Args: json.RawMessage(`{"n":"<b>"}`)}
		f.Message.Channel, f.Message.Sender.ID, f.Message.Text = "irc", "\u202e"+markup, "hello"
		f.Role, f.Door, f.Now = "guest", "channel", time.Now()
		_, r := set.Tool(t.Context(), f)
		records = append(records, r...)
	}
	if err := s.AddDecisions(t.Context(), decisionlog.Rows(time.Now(), records)); err != nil {
		t.Fatal(err)
	}
}

func roomPolicies(t *testing.T, b context.Context) {
	e, s, path := policyStore(t)
	decide(t, e, s, 10_000)
	if err := s.AddDecisions(t.Context(), []journal.Decision{{
		At: time.Now(), Kind: "enforce", Policy: "host", Answer: "deny", Reason: "a.b: " + strings.Repeat(markup, 1<<20/len(markup)), Error: "\x1b[2J\u202e",
	}}); err != nil {
		t.Fatal(err)
	}
	d := open(t, gatewaytest.Demo)
	d.with(func(f *gateway.Backend) {
		policies := backend.Policies{Engine: e, Store: s}
		f.Policies, f.Trials, f.Decisions = policies, backend.NewTrials(policies, s), backend.Decisions{Store: s}
	})
	p := room(t, b, d, "policies", "Policies")
	p.until(`document.querySelectorAll("#room tbody")[1]?.rows.length === 100`)
	p.looks("policies")
	p.click(`#room .room-column > section p .button`) // more
	p.until(`document.querySelectorAll("#room tbody")[1].rows.length === 200`)
	p.eval(`[...document.querySelectorAll("#room select")].at(-1).focus()`)
	p.eval(`(() => { const s = [...document.querySelectorAll("#room select")].at(-1); s.value = "ask"; s.dispatchEvent(new Event("input", { bubbles: true })); })()`)
	p.until(`document.querySelector("#room .room-empty")?.textContent.includes("more to search")`)
	p.eval(`location.hash = "policies/decision/10001"`)
	p.until(`document.querySelector("#room h1")?.textContent === "Decision 10001"`)
	p.eval(`location.hash = "policies/decision/1"`)
	p.until(`document.querySelectorAll("#room tbody tr").length > 10`)
	p.looks("decision")

	p.eval(`location.hash = "policies/policy/guard"`)
	p.until(`document.querySelector("#room h1")?.textContent === "Policy guard" && document.querySelector("#room .views")`)
	tab := func(name string) {
		p.eval(`[...document.querySelectorAll("#room .views button")].find((x) => x.textContent === "` + name + `").click()`)
	}
	tab("Try a module")
	drop := func(name string, wasm []byte) {
		p.eval(`(() => {
			const data = new DataTransfer();
			data.items.add(new File([Uint8Array.from(atob("` + base64.StdEncoding.EncodeToString(wasm) + `"), (c) => c.charCodeAt(0))], ` + jsString(name) + `));
			document.querySelector(".drop").dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
		})()`)
	}
	p.until(`document.querySelector(".drop")`)
	drop("x.txt", []byte("this is not Wasm"))
	p.until(`document.querySelector("#room .room-notice.bad")?.textContent.includes("no module for policy guard")`)
	drop(markup, always(abi.ToolAsk, 9))
	p.until(`document.querySelector("#room .room-notice.bad")?.textContent.startsWith("10,000 of 10,000 decisions change; 10,000 of them looser")`)
	p.until(`document.querySelectorAll("#room tbody")[1]?.rows.length === 100`)
	p.looks("policy-replay")
	tab("Source")
	p.until(`document.querySelectorAll("#room details").length === 2`)
	tab("Test cases")
	p.click(`#room .button.main`)
	p.until(`document.querySelector("#room .trouble")?.textContent.includes("cases")`) // there are none

	// Another module comes into force, and a person goes back to the first one.
	if err := os.WriteFile(path, always(abi.ToolAsk, 1), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = e.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	p.eval(`location.hash = "policies"`)
	for len(must(s.ListPolicyChanges(t.Context(), journal.ChangeFilter{Policy: "guard"}))(t)) < 2 {
		time.Sleep(20 * time.Millisecond)
	}
	p.eval(`location.hash = "policies/policy/guard"`)
	p.until(`document.querySelector("#room .views")`)
	tab("Versions")
	p.until(`document.querySelectorAll("#room tbody tr").length === 2 && document.querySelectorAll("#room tbody .button").length === 1`)
	p.click(`#room tbody .button`)
	p.until(`document.querySelector("dialog[open]")?.textContent.includes("decides from now on")`)
	p.want(`document.activeElement.textContent`, "Cancel")
	p.click(`dialog[open] .button.danger`)
	p.until(`document.querySelector("#room .badge.warn")?.textContent === "pinned"`)
	if st := e.Status()[0]; st.State != policy.StatePinned {
		t.Errorf("the policy is %s", st.State)
	}
	p.harmless()
}

// roomShadow makes a policy of a real flynn.toml a shadow and takes that back, and drops a module that is asked the policy's cases.
func roomShadow(t *testing.T, b context.Context) {
	_, s, module := policyStore(t)
	folder := filepath.Dir(module)
	if err := os.MkdirAll(filepath.Join(folder, "cases"), 0o700); err != nil {
		t.Fatal(err)
	}
	cases := "kind = \"tool\"\n[facts]\nsender = \"irc:bob\"\nrole = \"owner\"\nagent = \"helper\"\ntool = \"x\"\neffect = \"read\"\n" +
		"[[case]]\nname = \"<img src=x> \\u202e ]]\"\nwant = { deny = true, rule = 7 }\n"
	if err := os.WriteFile(filepath.Join(folder, "cases", "a.toml"), []byte(cases), 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "flynn.toml")
	text := "[routing]\ndefault_agent = \"main\"\n[agent_configs.main]\n# keep ]] me\n[[policies]]\nname = \"guard\" # this one\npath = \"" + module + "\"\nkinds = [\"tool\"]\n" +
		"[store]\ndir = \"" + t.TempDir() + "\"\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	holder := must(config.NewHolder(path, os.Getenv, log))(t)
	e := must(policy.New(t.Context(), policy.Config{Sources: configured.Live(holder.Current(), log)}))(t)
	t.Cleanup(func() { e.Close() })
	holder.Subscribe(func(ctx context.Context, _, next *config.Config) (commit, rollback func(), err error) {
		return e.Stage(ctx, configured.Live(next, log))
	})
	d := open(t, gatewaytest.Demo)
	d.with(func(f *gateway.Backend) {
		policies := backend.Policies{Engine: e, Store: s, Editor: edit.InHost(holder, edit.EditorConfig{Getenv: os.Getenv})}
		f.Policies, f.Trials, f.Decisions = policies, backend.NewTrials(policies, s), backend.Decisions{Store: s}
	})
	p := room(t, b, d, "policies/policy/guard", "Policy guard")
	p.press("Make it a shadow")
	p.until(`document.querySelector("dialog[open]")?.textContent.includes("decides nothing from then on")`)
	p.want(`document.activeElement.textContent`, "Cancel")
	p.press("Make it a shadow")
	p.until(`document.querySelector("#room .badge.info")?.textContent === "Shadow" && !document.querySelector("dialog[open]")`)
	if now := onDisk(t, path); !strings.Contains(now, "# keep ]] me\n[[policies]]\nname = \"guard\" # this one\n") || !strings.Contains(now, "shadow = true\n") || !e.Status()[0].Shadow {
		t.Errorf("the file is\n%s", now)
	}
	// Somebody else takes the policy out of the file: it is said, and nothing is written.
	other := strings.Replace(text, "guard", "other", 1)
	if err := os.WriteFile(path, []byte(other), 0o600); err != nil {
		t.Fatal(err)
	}
	p.dare("Let it decide")
	p.until(`document.querySelector("#room .trouble")?.textContent.includes("guard")`)
	if now := onDisk(t, path); now != other {
		t.Errorf("the file is\n%s", now)
	}
	p.click(`dialog[open] footer .button`)
	if err := os.WriteFile(path, []byte(strings.Replace(text, "kinds", "shadow = true\nkinds", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	p.dare("Let it decide")
	p.until(`!document.querySelector("#room .badge.info") && !document.querySelector("dialog[open]")`)
	if now := onDisk(t, path); now != text || e.Status()[0].Shadow {
		t.Errorf("the file is\n%s", now)
	}

	tab := func() {
		p.eval(`[...document.querySelectorAll("#room .views button")].find((x) => x.textContent === "Try a module").click()`)
	}
	drop := func(wasm []byte) {
		p.until(`document.querySelector(".drop")`)
		p.eval(`(() => {
			const data = new DataTransfer();
			data.items.add(new File([Uint8Array.from(atob("` + base64.StdEncoding.EncodeToString(wasm) + `"), (c) => c.charCodeAt(0))], "x.wasm"));
			document.querySelector(".drop").dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
		})()`)
	}
	tab()
	drop(always(abi.ToolAsk, 9))
	p.says("0 passed, 1 failed.")
	p.says("U+202E ]]")
	drop(always(abi.ToolDeny, 7))
	p.says("1 passed, 0 failed.")
	if err := os.RemoveAll(filepath.Join(folder, "cases")); err != nil {
		t.Fatal(err)
	}
	drop(always(abi.ToolDeny, 7))
	p.says("The test cases were not asked: ")
	p.harmless()
}

// harmless checks that nothing of others became markup or ran.
func (p pageDriver) harmless() {
	p.t.Helper()
	p.want(`document.querySelectorAll("#room img, #room script, #room b > b").length + (window.hurt ?? 0)`, "0")
}

func must[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func roomTimeline(t *testing.T, b context.Context) {
	s := must(sqlite.Open(t.Context(), t.TempDir()))(t)
	t.Cleanup(func() { s.Close() })
	for i, v := range rude.Texts() {
		if len(v.Text) > 100_000 {
			continue
		}
		row, _, err := s.AppendInbox(t.Context(), message.Message{
			Channel: "irc", EventID: fmt.Sprint(i), Text: v.Text + markup, Sender: message.Sender{ID: "ann"}, Conversation: message.Conversation{ID: "ann", Kind: message.DM}, ReceivedAt: time.Now(),
		}, mailbox.InboxNew, "")
		if err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			if err := s.SetInbox(t.Context(), row.ID, mailbox.InboxDropped, v.Text); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := s.CommitTurn(t.Context(), turnlog.Commit{
			Turn: turnlog.Turn{ID: store.NewID(time.Now()), Agent: "main", Session: "irc:ann:main", Channel: "irc", Conversation: message.Conversation{ID: "ann"}, Sender: "irc:ann",
				Inbox: []int64{row.ID}, State: turnlog.TurnDone, Started: time.Now(), Ended: time.Now()},
			InboxState: mailbox.InboxDone,
			Decisions: []journal.Decision{{At: time.Now(), Kind: "route_table", Policy: "table", Answer: "main"},
				{At: time.Now(), Kind: "route", Policy: "door", Answer: "drop", Reason: v.Text, Error: markup}},
			Replies: []message.Reply{{Key: fmt.Sprint("r", i), Channel: "irc", Text: v.Text}},
		}); err != nil {
			t.Fatal(err)
		}
	}
	d := open(t, gatewaytest.Demo)
	d.with(func(f *gateway.Backend) { f.Turns, f.Explains = explain.Lister{Store: s}, explain.Reader{Store: s} })
	p := room(t, b, d, "timeline", "Timeline")
	p.until(`document.querySelectorAll("#room tbody tr").length > 10`)
	p.looks("timeline")
	p.eval(`[...document.querySelectorAll("#room tbody tr")].find((r) => r.textContent.includes("done")).querySelector("a").click()`)
	p.until(`document.querySelector("#room h1")?.textContent === "Turn" && document.querySelectorAll("#room .station").length >= 3`)
	p.want(`document.querySelectorAll("#room .made a[href^='#policies/decision/']").length`, "2")
	p.looks("turn")
	p.eval(`location.hash = "timeline/turn/" + encodeURIComponent("message/1")`)
	p.until(`document.querySelector("#room code")?.textContent === "message/1"`)
	p.eval(`location.hash = "timeline/turn/nobody"`)
	p.until(`document.querySelector("#room .room-notice.bad")`)

	chat := d.dial("web", "main")
	chat.send("a1", "!ask ls "+markup)
	chat.await(func(f gateway.ServerFrame) bool { return len(f.Approvals) == 1 })
	p.eval(`location.hash = "timeline/approvals"`)
	p.until(`document.querySelector("#room .asked pre")?.textContent === "ls <img src=x onerror=\"window.hurt=1\">"`)
	p.looks("timeline-approvals")
	p.click(`#room .approval .deny`)
	p.until(`document.querySelector("#room .room-empty")`)
	for _, part := range []string{"grants", "audit"} {
		p.eval(`location.hash = "timeline/` + part + `"`)
		p.until(`document.querySelector("#room .room-empty, #room tbody")`)
	}
	p.harmless()
}

// boxes is a host with one sandbox.
type boxes struct {
	mu    sync.Mutex
	test  selftest.State
	shell *shell
	gone  bool
}

var _ gateway.Sandboxes = (*boxes)(nil)

func box() gateway.LiveSandbox {
	return gateway.LiveSandbox{
		ID: strings.Repeat("ab", 32), Session: "irc/dm:\u202e<img>:main", Agent: "main", Image: markup, Network: "allowlist", Since: time.Now(), Memory: 3 << 20,
		MemoryLimit: 512 << 20, Tasks: 4, TasksLimit: 256, Processes: []machine.Process{{ID: "p1", Script: "sleep 1\n\x1b[2J" + markup, Running: true}},
	}
}

func (b *boxes) Sandboxes(context.Context) ([]gateway.LiveSandbox, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.gone {
		return nil, nil
	}
	return []gateway.LiveSandbox{box()}, nil
}

func (*boxes) Containers(context.Context) ([]gateway.Container, error) { return nil, nil }

func (*boxes) SandboxRules(context.Context) ([]gateway.SandboxRules, error) {
	return []gateway.SandboxRules{{Image: "debian", Network: "allowlist", Allow: []string{"*.example.org:443", markup}, Credentials: []string{"api.example.org"}, Bridges: []string{"gh"}}}, nil
}

func (b *boxes) SandboxFiles(_ context.Context, _, path string) (gateway.SandboxFolder, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.gone {
		return gateway.SandboxFolder{}, fmt.Errorf("%w: no live sandbox", store.ErrNotFound)
	}
	out := gateway.SandboxFolder{More: 12345}
	for i, name := range []string{markup, "two\nlines", "\u202egpj.exe", "sub", strings.Repeat("long", 60)} {
		kind := "file"
		if name == "sub" {
			kind = "folder"
		}
		out.Entries = append(out.Entries, gateway.SandboxFile{Name: name, Ref: base64.RawURLEncoding.EncodeToString([]byte(path + "/" + name)), Kind: kind, Size: int64(i), Mode: "-rw-r--r--", Mtime: time.Now()})
	}
	return out, nil
}

func (*boxes) OpenSandboxFile(context.Context, string, string) (io.ReadCloser, gateway.SandboxFile, error) {
	return io.NopCloser(strings.NewReader("<script>")), gateway.SandboxFile{Name: "\u202e<a>\r\nSet-Cookie: x", Size: 8}, nil
}

func (*boxes) Egress(_ context.Context, f egress.RecordFilter) ([]egress.Record, string, error) {
	var list []egress.Record
	if f.Person == message.SenderKey(`irc:"ann" ]] `+markup) {
		return list, "", nil
	}
	for i := range f.Limit {
		list = append(list, egress.Record{ID: fmt.Sprint(f.Before, ".", i), At: time.Now(), Kind: "proxy", Session: "irc/dm:ann:main", Method: "CONNECT", Host: markup + "\u202e", Port: 443, Reason: "not on the allowlist"})
	}
	if f.Before != "" {
		return list, "", nil
	}
	return list, "next", nil
}

func (b *boxes) StartSelfTest(_ context.Context, _, by string) (selftest.State, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.test = selftest.State{Running: true, By: by, Began: time.Now(), Of: 90}
	return b.test, nil
}

func (b *boxes) SelfTest(context.Context) (selftest.State, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.test.Running {
		for i, status := range []selftest.Status{selftest.Pass, selftest.Weak, selftest.Fail} {
			b.test.Add(selftest.Outcome{Name: fmt.Sprint("row/", i, len(b.test.Outcomes)), Status: status, Detail: markup, Setting: "change it"})
		}
		b.test.Running = len(b.test.Outcomes) < 9
	}
	if b.test.Outcomes == nil {
		b.test.Outcomes = []selftest.Outcome{}
	}
	return b.test, nil
}

func (b *boxes) OpenTerminal(context.Context, string, gateway.TerminalSize, string) (gateway.Terminal, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.gone {
		return nil, fmt.Errorf("%w: no live sandbox", store.ErrNotFound)
	}
	r, out := io.Pipe()
	b.shell = &shell{PipeReader: r, out: out, typed: make(chan string, 100)}
	return b.shell, nil
}

// shell is a terminal that a test writes to.
type shell struct {
	*io.PipeReader
	out   *io.PipeWriter
	typed chan string
}

func (s *shell) Write(p []byte) (int, error)     { s.typed <- string(p); return len(p), nil }
func (*shell) Resize(gateway.TerminalSize) error { return nil }
func (*shell) Ended() string                     { return "the host was halted" }
func (s *shell) Close() error                    { return s.PipeReader.Close() }

func roomSandboxes(t *testing.T, b context.Context) {
	d, host := open(t, gatewaytest.Demo), &boxes{}
	d.with(func(f *gateway.Backend) { f.Sandboxes = host })
	p := room(t, b, d, "sandboxes", "Sandboxes")
	p.until(`document.querySelectorAll("#room tbody").length === 3 && document.querySelectorAll("#room tbody")[1].rows.length === 100`)
	p.looks("sandboxes")
	p.eval(`[...document.querySelectorAll("#room .button")].find((x) => x.textContent === "Show more").click()`)
	p.until(`document.querySelectorAll("#room tbody")[1].rows.length === 200`)
	p.fill("Person", "irc:\"ann\" ]] "+markup)
	p.until(`document.querySelector("#room .room-empty")?.textContent.includes("asked for the network")`)
	p.fill("Person", "")
	p.until(`document.querySelectorAll("#room tbody").length === 3`)
	p.eval(`[...document.querySelectorAll("#room .button")].find((x) => x.textContent === "Run the self-test").click()`)
	p.until(`document.querySelector("dialog[open]")?.textContent.includes("hundred attacks")`)
	p.click(`dialog[open] .button.danger`)
	p.until(`document.querySelector("#room .room-notice.bad")?.textContent.includes("3 succeeded")`)
	p.eval(`[...document.querySelectorAll("#room tbody a")].find((x) => x.textContent === "Files").click()`)
	p.until(`document.querySelectorAll("#room tbody tr").length === 5`)
	p.looks("sandbox-files")
	p.eval(`(() => { window.kept = []; HTMLAnchorElement.prototype.click = function () { window.kept.push(this.download); }; })()`)
	p.click(`#room tbody tr:nth-child(3) .button`)
	p.until(`window.kept.length === 1`)
	p.want(`window.kept[0]`, "_gpj.exe")
	host.mu.Lock()
	host.gone = true
	host.mu.Unlock()
	p.click(`#room header .button`)
	p.until(`document.querySelector("#room .room-notice.bad")?.textContent.includes("no live sandbox")`)
	p.harmless()
}

func roomTerminal(t *testing.T, b context.Context) {
	d, host := open(t, gatewaytest.Demo), &boxes{}
	d.with(func(f *gateway.Backend) { f.Sandboxes = host })
	p := room(t, b, d, "sandboxes/terminal/abc", "Terminal in sandbox abc")
	p.until(`document.querySelector("#room .badge")?.textContent === "connected"`)
	say := func(text string) {
		t.Helper()
		host.mu.Lock()
		defer host.mu.Unlock()
		if _, err := host.shell.out.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	say("$ ")
	typed := func(want string) {
		t.Helper()
		got := ""
		for len(got) < len(want) {
			select {
			case some := <-host.shell.typed:
				got += some
			case <-time.After(time.Minute):
				t.Fatalf("typed %q, want %q", got, want)
			}
		}
		if got != want {
			t.Errorf("typed %q, want %q", got, want)
		}
	}
	p.until(`document.activeElement.className === "source screen"`)
	p.do(chromedp.SendKeys(".screen", "ls\t\r"))
	typed("ls\t\r")
	p.eval(`["c", "[", "a"].forEach((key) => document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key, ctrlKey: true, bubbles: true })))`)
	typed("\x03\x1b\x01")
	p.eval(`["ArrowUp", "Escape", "PageUp", "F1"].forEach((key) => document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true })))`)
	typed("\x1b[A\x1b\x1b[5~\x1bOP")
	p.eval(`(() => {
		const data = new DataTransfer();
		data.setData("text", "two\nlines \x1b[201~" + "x".repeat(20000));
		document.activeElement.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
	})()`)
	typed("two\rlines [201~" + strings.Repeat("x", 20000))
	p.eval(`document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: "F6", bubbles: true }))`)
	p.want(`document.activeElement.matches(".typing input")`, "true")
	p.do(chromedp.SendKeys(".typing input", "ls\r"))
	typed("ls\r")
	p.click(`.typing .button:nth-of-type(2)`)
	typed("\x03")
	say("\x1b[31mred\x1b[0m " + markup + "\r\nab\bc\r\n\u202eevil\x1b]0;title\x07.\r\n50%\r100%\r\n")
	p.until(`document.querySelector(".screen").innerText.includes("100%")`)
	p.want(`document.querySelector(".screen").innerText.includes("$ red <img") && /\nac *\n/.test(document.querySelector(".screen").innerText)`, "true")
	p.want(`/[\x1b\u202e]|50%|title/.test(document.querySelector(".screen").innerText)`, "false")
	p.want(`document.querySelector(".screen .f1").textContent`, "red")
	p.looks("terminal")
	say("\x1b[?1049h\x1b[2J\x1b[3;5Hwhole screen\x1b[6n")
	p.until(`document.querySelector(".screen").innerText.includes("    whole screen") && !document.querySelector(".screen").innerText.includes("red")`)
	typed("\x1b[3;17R")
	say("\x1b[?1049l")
	p.until(`document.querySelector(".screen").innerText.includes("red")`)
	say(strings.Repeat(strings.Repeat("x", 200)+"\r\n", 5000) + "the end")
	p.until(`document.querySelector(".screen").innerText.includes("the end")`)
	p.want(`document.querySelectorAll(".screen > div").length <= 1300`, "true")
	host.shell.out.Close() // as the kill switch does
	p.until(`document.querySelector("#room .badge")?.textContent === "ended" && document.querySelector("#room .room-notice").textContent.includes("halted")`)
	p.want(`document.querySelector(".typing input").disabled`, "true")
	p.harmless()
	host.mu.Lock()
	host.gone = true
	host.mu.Unlock()
	p.eval(`location.hash = "sandboxes/terminal/gone"`)
	p.until(`document.querySelector("#room .badge")?.textContent === "refused" && document.querySelector("#room .room-notice.bad").textContent.includes("no live sandbox")`)
}
