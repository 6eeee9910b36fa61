package livetest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/model/modeltest"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
)

const editorToken = "editor-0123456789abcdef0123456789"

// withClient is a host that a program may ask for one of its two agents.
const withClient = `
[agent_configs.main]
tool_profile = "coding"
sandbox = true
[agent_configs.secret]
[routing]
default_agent = "main"
[gateway]
listen = "127.0.0.1:%PORT%"
[store]
dir = "%DIR%/state"
[models.default]
provider = "demo"
[clients.editor]
token_file = "editor.token"
role = "member"
agents = ["main"]
[sandbox]
enabled = true
on_unavailable = "host"
`

func clientSite(t *testing.T, sandbox string) *site {
	t.Helper()
	s := newSite(t, withClient+sandbox)
	s.startForClient()
	return s
}

// startForClient starts the host with the client's token in its place.
func (s *site) startForClient() {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, "editor.token"), []byte(editorToken+"\n"), 0o600); err != nil {
		s.t.Fatal(err)
	}
	s.start()
}

func (s *site) openAI(token string) openai.Client {
	return openai.NewClient(option.WithBaseURL("http://127.0.0.1:"+s.port+"/v1"), option.WithAPIKey(token))
}

func say(agent, text string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{Model: agent, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(text)}}
}

func TestOpenAIClient(t *testing.T) {
	t.Parallel()
	s := clientSite(t, "")
	ctx, client, owner := t.Context(), s.openAI(editorToken), s.openAI(s.token())
	for name, want := range map[string]string{editorToken: "main", s.token(): "main secret"} {
		c := s.openAI(name)
		page, err := c.Models.List(ctx)
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, m := range page.Data {
			ids = append(ids, m.ID)
		}
		if got := strings.Join(ids, " "); got != want {
			t.Errorf("models are %q, want %q", got, want)
		}
	}
	answer, err := client.Chat.Completions.New(ctx, say("main", "hello"))
	if err != nil || answer.Choices[0].Message.Content != "You said: hello" || answer.Choices[0].FinishReason != "stop" || answer.Usage.TotalTokens == 0 {
		t.Errorf("answer %+v, %v", answer, err)
	}
	if answer, err := owner.Chat.Completions.New(ctx, say("secret", "hello")); err != nil || answer.Model != "secret" {
		t.Errorf("the owner's answer is %+v, %v", answer, err)
	}
	for _, c := range []struct {
		name   string
		client openai.Client
		params openai.ChatCompletionNewParams
		status int
	}{
		{"an agent that is not the client's", client, say("secret", "hello"), http.StatusNotFound},
		{"no agent", client, say("nobody", "hello"), http.StatusNotFound},
		{"a wrong token", s.openAI("wrong"), say("main", "hello"), http.StatusUnauthorized},
		{"tools of the program", client, openai.ChatCompletionNewParams{
			Model: "main", Messages: say("", "hello").Messages,
			Tools: []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{Name: "f"})},
		}, http.StatusBadRequest},
		{"a model that fails", client, say("main", "!fail auth"), http.StatusInternalServerError},
		{"a session that is no name", client, openai.ChatCompletionNewParams{
			Model: "main", Messages: say("", "hello").Messages, User: openai.String("a:b"),
		}, http.StatusBadRequest},
	} {
		_, err := c.client.Chat.Completions.New(ctx, c.params)
		var e *openai.Error
		if !errors.As(err, &e) || e.StatusCode != c.status {
			t.Errorf("%s: %v, want status %d", c.name, err, c.status)
		}
	}
	// A client's token opens the frontends for API clients alone.
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:"+s.port+"/api/v1/status", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+editorToken)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("the API answers a client's token with %s", resp.Status)
	}
}

func TestOpenAIStream(t *testing.T) {
	t.Parallel()
	s := clientSite(t, "")
	params := say("main", "!stream 20 one two three")
	params.StreamOptions = openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)}
	client := s.openAI(editorToken)
	stream := client.Chat.Completions.NewStreaming(t.Context(), params)
	defer stream.Close()
	var acc openai.ChatCompletionAccumulator
	var pieces int
	for stream.Next() {
		chunk := stream.Current()
		acc.AddChunk(chunk)
		if len(chunk.Choices) > 0 && chunk.Choices[0].Delta.Content != "" {
			pieces++
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	if got := acc.Choices[0].Message.Content; got != "You said: one two three" || pieces < 3 || acc.Usage.TotalTokens == 0 {
		t.Errorf("%q in %d pieces, usage %+v", got, pieces, acc.Usage)
	}
	failing := client.Chat.Completions.NewStreaming(t.Context(), say("main", "!fail auth"))
	defer failing.Close()
	for failing.Next() {
	}
	if failing.Err() == nil {
		t.Error("a turn that failed ended its stream without an error")
	}
}

// A question with a key is answered once, whatever happens in between.
func TestOpenAIQuestionOutlivesTheHost(t *testing.T) {
	t.Parallel()
	tier, server := scripted(t, "default", modeltest.Reply{Stall: true}, modeltest.Reply{Text: "still here"})
	s := newSite(t, strings.Replace(withClient, "[models.default]\nprovider = \"demo\"\n", tier, 1))
	s.startForClient()
	client := s.openAI(editorToken)
	once := option.WithHeader("Idempotency-Key", "question-1")
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		_, err := client.Chat.Completions.New(ctx, say("main", "are you there?"), once, option.WithMaxRetries(0))
		gone <- err
	}()
	s.eventually("the question is accepted", func() error {
		for _, c := range ask[gateway.Page[gateway.ConversationInfo]](s, "/api/v1/conversations").Items {
			if c.Channel == "openai" {
				return nil
			}
		}
		return pendingQuestion(s)
	})
	s.asked(server, 1)
	s.kill()
	cancel()
	if err := <-gone; err == nil {
		t.Fatal("the host answered after it was killed")
	}
	s.start()
	for range 2 {
		answer, err := client.Chat.Completions.New(t.Context(), say("main", "are you there?"), once)
		if err != nil || answer.Choices[0].Message.Content != "still here" {
			t.Fatalf("answer %+v, %v", answer, err)
		}
	}
	elsewhere := say("main", "are you there?")
	elsewhere.User = openai.String("another")
	for name, other := range map[string]openai.ChatCompletionNewParams{"words": say("main", "are you here?"), "session": elsewhere} {
		var refused *openai.Error
		_, err := client.Chat.Completions.New(t.Context(), other, once)
		if !errors.As(err, &refused) || refused.StatusCode != http.StatusUnprocessableEntity || refused.Code != "idempotency_key_reused" {
			t.Errorf("other %s with the same key: %v", name, err)
		}
	}
	if n := len(entriesOf(s, "openai", "editor/once/question-1")); n != 2 {
		t.Errorf("%d entries, want the question and its answer", n)
	}
}

// pendingQuestion finds the message that no turn has committed anything of yet.
func pendingQuestion(s *site) error {
	if len(entriesOf(s, "openai", "editor/once/question-1")) == 0 {
		return errors.New("nothing is there")
	}
	return nil
}

// progressLog collects what a server reports.
type progressLog struct {
	mu    sync.Mutex
	lines []string
}

func (p *progressLog) handle(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines = append(p.lines, r.Params.Message)
}

func (p *progressLog) has(want string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.lines {
		if strings.Contains(l, want) {
			return nil
		}
	}
	return fmt.Errorf("progress is %q", p.lines)
}

// tokenTransport is an HTTP client's way to send a token.
type tokenTransport string

func (t tokenTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(t))
	return http.DefaultTransport.RoundTrip(r)
}

func TestMCPClients(t *testing.T) {
	t.Parallel()
	sandboxtest.Engine(t)
	s := clientSite(t, "image = \""+sandboxtest.Image+"\"\n")
	for name, transport := range map[string]mcp.Transport{
		"streamable HTTP": &mcp.StreamableClientTransport{
			Endpoint: "http://127.0.0.1:" + s.port + "/mcp", HTTPClient: &http.Client{Transport: tokenTransport(editorToken)}, DisableStandaloneSSE: true,
		},
		"stdio": &mcp.CommandTransport{Command: exec.Command(filepath.Join(bin(t), "flynn"), "--config", filepath.Join(s.dir, "flynn.toml"),
			"mcp", "--token-file", filepath.Join(s.dir, "editor.token"))},
	} {
		t.Run(name, func(t *testing.T) {
			var seen progressLog
			client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{ProgressNotificationHandler: seen.handle})
			session, err := client.Connect(t.Context(), transport, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			tools, err := session.ListTools(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, tool := range tools.Tools {
				names = append(names, tool.Name)
			}
			want := "ask_main sandbox_file_edit sandbox_file_list sandbox_file_read sandbox_file_write sandbox_shell_exec"
			if got := strings.Join(names, " "); got != want {
				t.Errorf("tools are %q, want %q", got, want)
			}
			call := func(name string, args map[string]any) (text, id string, failed bool) {
				t.Helper()
				params := &mcp.CallToolParams{Name: name, Arguments: args}
				params.SetProgressToken(name)
				r, err := session.CallTool(t.Context(), params)
				if err != nil {
					t.Fatal(err)
				}
				if structured, ok := r.StructuredContent.(map[string]any); ok {
					id, _ = structured["session"].(string)
				}
				return r.Content[0].(*mcp.TextContent).Text, id, r.IsError
			}
			text, id, failed := call("ask_main", map[string]any{"message": "hello"})
			if text != "You said: hello" || id == "" || failed {
				t.Errorf("%q in session %q, failed %v", text, id, failed)
			}
			text, _, failed = call("sandbox_shell_exec", map[string]any{
				"agent": "main", "session": id, "arguments": map[string]any{"command": "echo from inside > note; hostname; id -u"},
			})
			if failed || text == "" || strings.Contains(text, "waits") {
				t.Errorf("the command says %q, failed %v", text, failed)
			}
			if text, again, _ := call("sandbox_file_read", map[string]any{"agent": "main", "session": id, "arguments": map[string]any{"path": "note"}}); !strings.Contains(text, "from inside") || again != id {
				t.Errorf("the session's file says %q in session %q", text, again)
			}
			if text, _, failed := call("sandbox_shell_exec", map[string]any{"agent": "main", "session": id, "arguments": map[string]any{"cmd": "true"}}); !failed {
				t.Errorf("arguments that do not fit were taken: %q", text)
			}
			if text, _, failed := call("ask_main", map[string]any{"message": "!fail auth", "session": id}); !failed {
				t.Errorf("a turn that failed is told as %q", text)
			}
			for _, line := range []string{"agent main has started", "calls shell.exec", "shell.exec has its result"} {
				s.eventually("progress", func() error { return seen.has(line) })
			}
		})
	}
	s.eventually("nothing runs", func() error {
		for _, c := range ask[gateway.Page[gateway.ConversationInfo]](s, "/api/v1/conversations").Items {
			if c.Running {
				return fmt.Errorf("%+v", c)
			}
		}
		return nil
	})
}

// A program that asks for the sandbox is refused where there is none, though people would be given the host.
func TestMCPSandboxIsNeverTheHost(t *testing.T) {
	t.Parallel()
	s := clientSite(t, "engine = \"unix://%DIR%/no.sock\"\n")
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: "http://127.0.0.1:" + s.port + "/mcp", HTTPClient: &http.Client{Transport: tokenTransport(s.token()), Timeout: time.Minute},
		DisableStandaloneSSE: true,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	r, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "sandbox_shell_exec", Arguments: map[string]any{
		"agent": "main", "arguments": map[string]any{"command": "touch ran"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if text := r.Content[0].(*mcp.TextContent).Text; !r.IsError || !strings.Contains(text, "the sandbox is unavailable") {
		t.Errorf("it says %q, error %v", text, r.IsError)
	}
	if files := s.workspaceFiles(); len(files) > 0 {
		t.Errorf("it ran on the host: %v", files)
	}
}
