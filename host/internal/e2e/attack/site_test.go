package attack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host"
	"github.com/flynnhost/flynn/host/agent/transcript"
	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/store/sqlite"
	"github.com/flynnhost/flynn/host/tool/builtin"
	"github.com/flynnhost/flynn/host/tool/consent"
	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/need"
)

// clientToken is that of the program "prog".
const clientToken = "prog-0123456789abcdef0123456789"

// patience is how long anything may take that is expected to happen.
const patience = time.Minute

// site is one host that runs, seen from outside.
type site struct {
	t     *testing.T
	dir   string
	url   string
	token string
	store *sqlite.Store // a second handle, as a person has who looks into the file
	chat  *chat
	tried map[string]bool // cells
}

// newSite runs a host. %DIR% in the configuration is its folder.
func newSite(t *testing.T, config string) *site {
	t.Helper()
	return newSiteThatReads(t, config, builtin.WebConfig{})
}

// newSiteThatReads runs one whose agents fetch pages from elsewhere than the public internet.
func newSiteThatReads(t *testing.T, config string, web builtin.WebConfig) *site {
	t.Helper()
	return newSiteThatProves(t, config, web, channel.SendersProved)
}

// newSiteThatProves runs one whose channel says that of its senders.
func newSiteThatProves(t *testing.T, config string, web builtin.WebConfig, proof channel.SenderProof) *site {
	t.Helper()
	dir, err := os.MkdirTemp("", "fl") // short, since it holds sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	t.Setenv("XDG_RUNTIME_DIR", dir)
	s := &site{t: t, dir: dir, tried: map[string]bool{}, chat: &chat{ready: make(chan struct{}), senders: proof}}
	s.write("flynn.toml", strings.ReplaceAll(config, "%DIR%", dir), 0o600)
	s.write("prog.token", clientToken, 0o600)
	manifest := chatManifest
	if proof != channel.SendersUnsaid {
		manifest += fmt.Sprintf("senders = %q\n", proof)
	}
	s.write("plugin/plugin.toml", manifest, 0o600)
	s.write("plugin/bin/none", "", 0o700)
	s.serveChat()
	s.look()
	h, err := host.New(t.Context(), host.Config{
		Path: filepath.Join(dir, "flynn.toml"), Getenv: os.Getenv, Log: slog.New(slog.DiscardHandler), Web: web,
		Attach: map[string]string{"chat": "unix:" + filepath.Join(dir, "chat")},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.run(h)
	select {
	case <-s.chat.ready:
	case <-time.After(patience):
		t.Fatal("the channel is never run")
	}
	s.eventually("the host is ready", func() error {
		code, body := s.http(http.MethodGet, "/readyz", s.token, nil)
		if code != http.StatusOK {
			return fmt.Errorf("readyz says %d: %s", code, body)
		}
		return nil
	})
	return s
}

func (s *site) run(h *host.Host) {
	at, err := url.Parse(h.URL())
	if err != nil {
		s.t.Fatal(err)
	}
	s.url = "http://" + at.Host
	token, err := os.ReadFile(filepath.Join(s.dir, "gateway.token"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.token = strings.TrimSpace(string(token))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	s.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			s.t.Errorf("run: %v", err)
		}
	})
}

// look opens the store beside the host. Its folder is locked against a second host, so the file is reached through another one. The host,
// which opens the store later, fences this opener out: it only reads.
func (s *site) look() {
	s.t.Helper()
	beside := filepath.Join(s.dir, "beside")
	err := errors.Join(os.Mkdir(filepath.Join(s.dir, "state"), 0o700), os.Mkdir(beside, 0o700), os.Symlink(filepath.Join(s.dir, "state", "flynn.db"), filepath.Join(beside, "flynn.db")))
	if err == nil {
		s.store, err = sqlite.Open(s.t.Context(), beside)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { s.store.Close() })
}

func (s *site) write(name, text string, mode fs.FileMode) {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), mode)); err != nil {
		s.t.Fatal(err)
	}
}

// eventually polls until f has nothing to say against.
func (s *site) eventually(what string, f func() error) {
	s.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.After(patience)
	for {
		err := f()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			s.t.Fatalf("%s: %v", what, err)
		}
	}
}

// http makes a request with a token, with the body as JSON. Its code is 0 when there is no answer. Any goroutine may call it.
func (s *site) http(method, path, token string, body any) (code int, answer string) {
	var data []byte
	if body != nil {
		var err error
		if data, err = json.Marshal(body); err != nil {
			return 0, err.Error()
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, s.url+path, bytes.NewReader(data))
	if err != nil {
		return 0, err.Error()
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(text)
}

// files are all files of that name in the workspaces of a host.
func (s *site) files(name string) []string {
	s.t.Helper()
	var found []string
	err := filepath.WalkDir(filepath.Join(s.dir, "state", "workspaces"), func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && d.Name() == name {
			found = append(found, path)
		}
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return found
}

// place is where a conversation is held.
type place struct{ channel, conversation string }

// turns are those of a place; one that does not exist has none.
func (s *site) turns(at place) []turnlog.Turn {
	s.t.Helper()
	turns, err := s.store.History(s.t.Context(), at.channel, at.conversation, 50)
	if err != nil {
		s.t.Fatal(err)
	}
	return turns
}

// ended waits for the last of n turns of a place to end.
func (s *site) ended(at place, n int) turnlog.Turn {
	s.t.Helper()
	var last turnlog.Turn
	s.eventually(fmt.Sprintf("turn %d in %v ends", n, at), func() error {
		turns := s.turns(at)
		if len(turns) < n || turns[n-1].State == turnlog.TurnRunning {
			return fmt.Errorf("turns are %+v", turns)
		}
		last = turns[n-1]
		return nil
	})
	return last
}

// calls are what came of the tool calls of a turn.
func (s *site) calls(turn string) []transcript.ToolResult {
	s.t.Helper()
	steps, err := s.store.Steps(s.t.Context(), turn)
	if err != nil {
		s.t.Fatal(err)
	}
	var out []transcript.ToolResult
	for _, step := range steps {
		if step.Kind != turnlog.StepToolResult {
			continue
		}
		var r transcript.ToolResult
		if err := json.Unmarshal(step.Data, &r); err != nil {
			s.t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

// waiting are the requests for approval of a turn.
func (s *site) waiting(turn string) []consent.Approval {
	s.t.Helper()
	all, err := s.store.ListApprovals(s.t.Context(), consent.ApprovalPending, 100)
	if err != nil {
		s.t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(a consent.Approval) bool { return a.Turn != turn })
}

// row waits for a message to have the state.
func (s *site) row(channel, event string, want mailbox.InboxState) mailbox.InboxRow {
	s.t.Helper()
	var row mailbox.InboxRow
	s.eventually("message "+event+" is "+string(want), func() error {
		var err error
		if row, err = s.store.FindInbox(s.t.Context(), channel, event); err == nil && row.State != want {
			err = fmt.Errorf("it is %s: %s", row.State, row.Note)
		}
		return err
	})
	return row
}

// policies are built from their source, as they ship, into the folder that %POLICIES% stands for.
var policies struct {
	once sync.Once
	dir  string
	err  error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if policies.dir != "" {
		os.RemoveAll(policies.dir)
	}
	os.Exit(code)
}

func withPolicies(t *testing.T, config string) string {
	t.Helper()
	need.Source(t)
	policies.once.Do(func() {
		if policies.dir, policies.err = os.MkdirTemp("", "flynn-policies"); policies.err != nil {
			return
		}
		for _, name := range []string{"owner-only-shell", "guard-tools", "untrusted-content"} {
			build := exec.Command("go", "build", "-buildmode=c-shared", "-trimpath", "-buildvcs=false",
				"-o", filepath.Join(policies.dir, name+".wasm"), "../../../../policies/"+name)
			build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "GOFLAGS=")
			if out, err := build.CombinedOutput(); err != nil {
				policies.err = fmt.Errorf("build %s: %w\n%s", name, err, out)
				return
			}
		}
	})
	if policies.err != nil {
		t.Fatal(policies.err)
	}
	return strings.ReplaceAll(config, "%POLICIES%", policies.dir)
}

const chatManifest = `
manifest = 1
name = "chat"
version = "0.1.0"
description = "A channel that lives in a test"
kinds = ["channel"]
protocols = [1]
[exec]
any = "bin/none"
[channel]
idempotent = true
markdown = true
fetch = true
`

// chat is a channel whose people are the test.
type chat struct {
	ready   chan struct{}
	once    sync.Once
	in      channel.Inbox
	count   int
	senders channel.SenderProof
}

// Describe implements channel.Channel.
func (c *chat) Describe() channel.Description {
	return channel.Description{
		Name: "chat", Version: "0.1.0", Capabilities: channel.Capabilities{Idempotent: true, Markdown: true, Senders: c.senders},
	}
}

// Configure implements channel.Channel.
func (*chat) Configure(context.Context, channel.Config) error { return nil }

// Run implements channel.Channel.
func (c *chat) Run(ctx context.Context, in channel.Inbox) error {
	in.Status(channel.StateReady, "")
	c.once.Do(func() {
		c.in = in
		close(c.ready)
	})
	<-ctx.Done()
	return nil
}

// Send implements channel.Channel.
func (*chat) Send(context.Context, channel.Send) (channel.Sent, error) {
	return channel.Sent{MessageIDs: []string{"m"}}, nil
}

// Fetch implements channel.Fetcher: the handle says what the bytes are, and how many.
func (*chat) Fetch(_ context.Context, handle string) (channel.Media, error) {
	size, err := strconv.Atoi(handle)
	return channel.Media{Size: int64(size), Body: io.NopCloser(strings.NewReader(strings.Repeat("x", size)))}, err
}

func (s *site) serveChat() {
	lis, err := net.Listen("unix", filepath.Join(s.dir, "chat"))
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- channel.Serve(ctx, lis, s.chat, slog.New(slog.DiscardHandler)) }()
	s.t.Cleanup(func() {
		cancel()
		<-done // its error is that the host has let go
	})
}

// said delivers an event as the plugin does, and returns its id once it is durable.
func (s *site) said(e channel.Event) string {
	s.t.Helper()
	s.chat.count++
	e.ID = fmt.Sprintf("e%d", s.chat.count)
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	if err := s.chat.in.Deliver(ctx, e); err != nil {
		s.t.Fatal(err)
	}
	return e.ID
}

// loads is the error of a host that is made from a configuration, which is then closed again.
func loads(t *testing.T, text string) error {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "flynn.toml")
	if err := errors.Join(os.WriteFile(path, []byte(strings.ReplaceAll(text, "%DIR%", dir)), 0o600),
		os.WriteFile(filepath.Join(dir, "prog.token"), []byte(clientToken), 0o600)); err != nil {
		t.Fatal(err)
	}
	h, err := host.New(t.Context(), host.Config{Path: path, Getenv: os.Getenv, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := h.Run(ctx); err != nil && !errors.Is(err, context.Canceled) { // it gives back what New has opened
		t.Errorf("run: %v", err)
	}
	return nil
}
