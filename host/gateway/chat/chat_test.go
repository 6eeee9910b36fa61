package chat_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/flynnhost/flynn/host/gateway/chat"
	"github.com/flynnhost/flynn/host/gateway/gatewaytest"
	"github.com/flynnhost/flynn/host/message"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// host is a gateway before an in-memory host, that can be restarted on its port.
type host struct {
	*gatewaytest.Server
	t *testing.T
}

func start(t *testing.T, agent gatewaytest.Agent) *host {
	t.Helper()
	return &host{gatewaytest.Serve(t, agent), t}
}

// screen is a writer that a test can wait on.
type screen struct {
	mu   sync.Mutex
	buf  bytes.Buffer
	more chan struct{}
}

func newScreen() *screen { return &screen{more: make(chan struct{}, 1)} }

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buf.Write(p)
	select {
	case s.more <- struct{}{}:
	default:
	}
	return len(p), nil
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}

// await waits until want has been written.
func (s *screen) await(t *testing.T, want string) {
	t.Helper()
	limit := time.After(time.Minute)
	for !strings.Contains(s.String(), want) {
		select {
		case <-s.more:
		case <-limit:
			t.Fatalf("%q was never written; there is %q", want, s)
		}
	}
}

func (h *host) run(in string, edit ...func(*chat.Config)) (out, errs string, err error) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var o, e bytes.Buffer
	cfg := chat.Config{URL: h.URL, Token: h.Token, In: strings.NewReader(in), Out: &o, Err: &e}
	for _, f := range edit {
		f(&cfg)
	}
	err = chat.Run(ctx, cfg)
	return o.String(), e.String(), err
}

func TestPipe(t *testing.T) {
	ask := func(c *chat.Config) { c.Approvals = chat.Ask }
	tests := []struct {
		name, in  string
		edit      []func(*chat.Config)
		out, errs string
		failed    bool
	}{
		{name: "answers in order", in: "one\ntwo\n\nthree", out: "You said: one\nYou said: two\nYou said: three\n"},
		{name: "no input", in: ""},
		{
			name: "tool in a sandbox", in: "!box ls -la\n",
			out:  "Let me see.\nThe command ran.\n",
			errs: "shell ls -la [in sandbox default]\n  | ran: ls -la\n",
		},
		{
			name: "denied by a policy", in: "!deny curl x\n",
			out:  "Let me see.\nThe command was not run.\n",
			errs: "shell curl x [denied]\n  no-curl: curl x is not allowed\n  | refused: no-curl: curl x is not allowed\n",
		},
		{
			name: "approval is denied by default", in: "!ask reboot\nstill there?\n",
			out: "Let me see.\nThe command was not run.\nYou said: still there?\n",
			errs: "shell reboot [asks first, on the host]\n  approve: shell commands on the host wait for a person\n" +
				"Allow shell to run on the host?\n  command: reboot\n  folder: /home/ada/work\n  agent: demo\n" +
				"  because: approve: shell commands on the host wait for a person\n" +
				"denied: the input is not a terminal; use --approvals ask or wait\n" +
				"  | refused: approve: shell commands on the host wait for a person\n",
		},
		{
			name: "approval is answered by the next line", in: "!ask reboot\nwhat?\ny\nbye\n", edit: []func(*chat.Config){ask},
			out: "Let me see.\nThe command ran.\nYou said: bye\n",
			errs: "shell reboot [asks first, on the host]\n  approve: shell commands on the host wait for a person\n" +
				"Allow shell to run on the host?\n  command: reboot\n  folder: /home/ada/work\n  agent: demo\n" +
				"  because: approve: shell commands on the host wait for a person\n" +
				"  s allows from now on: this call in this session\n  a allows from now on: this call until next month\n" +
				"[y/s/a/N] Please answer y, s, a or n.\n[y/s/a/N]   | ran: reboot\n",
		},
		{
			name: "approval for the session", in: "!ask reboot\ns\n", edit: []func(*chat.Config){ask},
			out: "Let me see.\nThe command ran.\n",
			errs: "shell reboot [asks first, on the host]\n  approve: shell commands on the host wait for a person\n" +
				"Allow shell to run on the host?\n  command: reboot\n  folder: /home/ada/work\n  agent: demo\n" +
				"  because: approve: shell commands on the host wait for a person\n" +
				"  s allows from now on: this call in this session\n  a allows from now on: this call until next month\n" +
				"[y/s/a/N]   | ran: reboot\n",
		},
		{
			name: "what is not offered is no answer", in: "!ask bad\na\nn\n", edit: []func(*chat.Config){ask},
			out: "Let me see.\nThe command was not run.\n",
			errs: "shell bad [asks first, on the host]\n  approve: shell commands on the host wait for a person\n" +
				"Allow shell to run on the host?\n  command: bad\n  not shown, but followed: Badfile (bad)\n  limits: not held on this machine: memory_limit\n  folder: /home/ada/work\n  agent: demo\n" +
				"  because: approve: shell commands on the host wait for a person\n" +
				"  s allows from now on: this call in this session\n" +
				"  s is as good as a shell: bad can run any program\n" +
				"[y/s/N] Please answer y, s or n.\n[y/s/N]   | refused: approve: shell commands on the host wait for a person\n",
		},
		{name: "failed turn", in: "!fail\nafter\n", out: "You said: after\n", errs: "failed: the model could not be reached\n", failed: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out, errs, err := start(t, gatewaytest.Demo).run(tt.in, tt.edit...)
			if got := errors.Is(err, chat.ErrTurnFailed); got != tt.failed || err != nil && !got {
				t.Errorf("error %v, want failed turn %v", err, tt.failed)
			}
			if out != tt.out {
				t.Errorf("stdout\n got %q\nwant %q", out, tt.out)
			}
			if errs != tt.errs {
				t.Errorf("stderr\n got %q\nwant %q", errs, tt.errs)
			}
		})
	}
}

func TestJSON(t *testing.T) {
	out, _, err := start(t, gatewaytest.Demo).run("hello\n", func(c *chat.Config) { c.JSON = true })
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	dec := json.NewDecoder(strings.NewReader(out))
	for {
		var e message.Event
		if err := dec.Decode(&e); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("decode %q: %v", out, err)
		}
		kinds = append(kinds, string(e.Kind))
	}
	if got, want := strings.Join(kinds, " "), "said turn_started text_delta text_delta text_delta reply turn_done"; got != want {
		t.Errorf("events %q, want %q", got, want)
	}
}

func TestRefusals(t *testing.T) {
	h := start(t, gatewaytest.Demo)
	tests := []struct {
		name, want string
		edit       func(*chat.Config)
	}{
		{"wrong token", "the token is wrong", func(c *chat.Config) { c.Token = strings.Repeat("x", 43) }},
		{"nobody there", "start it with: flynn serve", func(c *chat.Config) { c.URL = "http://127.0.0.1:1" }},
		{"not a URL", "is not a URL", func(c *chat.Config) { c.URL = "127.0.0.1" }},
		{"bad conversation", "conversation must be", func(c *chat.Config) { c.Conversation = "a b" }},
		{"line too long", "put the text into a file", func(c *chat.Config) { c.In = strings.NewReader(strings.Repeat("x", message.MaxText+1)) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := h.run("hello\n", tt.edit)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("error %v, want %q", err, tt.want)
			}
			if strings.Contains(err.Error(), h.Token) {
				t.Error("the error holds the token")
			}
		})
	}
}

func TestAnswerTimesOut(t *testing.T) {
	_, _, err := start(t, gatewaytest.Demo).run("!hang\n", func(c *chat.Config) { c.Timeout = 50 * time.Millisecond })
	if err == nil || !strings.Contains(err.Error(), "no answer came within 50ms") {
		t.Fatalf("error %v", err)
	}
}

// A host that goes away in the middle of an answer: the answer is printed once, and so is the next.
func TestRestart(t *testing.T) {
	release := make(chan struct{})
	h := start(t, func(ctx context.Context, turn *gatewaytest.Turn, text string) (string, error) {
		if text == "slow" {
			turn.Say("Half ")
			select {
			case <-release:
			case <-ctx.Done():
				return "", ctx.Err()
			}
			turn.Say("and half.")
			return "Half and half.", nil
		}
		return gatewaytest.Demo(ctx, turn, text)
	})
	out, errs := newScreen(), newScreen()
	done := make(chan error, 1)
	go func() {
		done <- chat.Run(context.Background(), chat.Config{
			URL: h.URL, Token: h.Token, In: strings.NewReader("slow\nnext\n"), Out: out, Err: errs, Timeout: time.Minute,
		})
	}()
	out.await(t, "Half ")
	h.Stop()
	errs.await(t, "connection lost")
	close(release) // the turn ends while nobody can watch
	h.AwaitFinal(2)
	h.Start()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	// The newline is where the note about the lost connection came between.
	if got, want := out.String(), "Half \nand half.\nYou said: next\n"; got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
	if n := h.Accepted(); n != 2 {
		t.Errorf("accepted %d messages, want 2", n)
	}
}

func TestInteractive(t *testing.T) {
	h := start(t, gatewaytest.Demo)
	keys, typed := io.Pipe()
	out, errs := newScreen(), newScreen()
	done := make(chan error, 1)
	go func() {
		done <- chat.Run(context.Background(), chat.Config{
			URL: h.URL, Token: h.Token, In: keys, Out: out, Err: errs, Interactive: true,
		})
	}()
	enter := func(s string) {
		if _, err := io.WriteString(typed, s+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	errs.await(t, "> ")
	if got := errs.String(); !strings.HasPrefix(got, "This is a test.\nThree things to try:\n  hello       is answered\n") {
		t.Errorf("the first screen is %q", got)
	}
	enter("!hang")
	out.await(t, "Thinking about it ")
	enter("/stop")
	errs.await(t, "failed: the turn was stopped")
	enter("!ask make")
	errs.await(t, "[y/s/a/N] ")
	enter("y")
	out.await(t, "The command ran.")
	enter("/quit")
	if err := <-done; !errors.Is(err, chat.ErrTurnFailed) {
		t.Errorf("error %v, want the stopped turn's", err)
	}
	_ = typed.Close()
}

// Text that is shown cannot control the terminal, and an approved command cannot hide.
func TestHostileText(t *testing.T) {
	h := start(t, func(ctx context.Context, turn *gatewaytest.Turn, _ string) (string, error) {
		_, err := turn.Run(ctx, gatewaytest.Call{
			Tool: "sh\x1b[2Kell", Args: map[string]string{"command": "ls \u202e hs.x/\u200b\x1b[1A"}, Decision: "ask", Where: "host",
		})
		reply := "a\x1b]0;title\x07b \u202ec 👩‍🚀\n"
		turn.Say(reply)
		return reply, err
	})
	out, errs, err := h.run("go\n")
	if err != nil {
		t.Fatal(err)
	}
	if want := "a]0;titleb c 👩‍🚀\n"; out != want {
		t.Errorf("stdout %q, want %q", out, want)
	}
	if strings.ContainsAny(errs, "\x1b\x07\u202e\u200b") {
		t.Errorf("stderr holds control characters: %q", errs)
	}
	if want := "command: ls <U+202E> hs.x/<U+200B><U+001B>[1A\n"; !strings.Contains(errs, want) {
		t.Errorf("stderr %q lacks %q", errs, want)
	}
}

// A host that stops for good: a pipe hears it soon.
func TestHostStopsForGood(t *testing.T) {
	h := start(t, gatewaytest.Demo)
	out, errs := newScreen(), newScreen()
	in, typed := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- chat.Run(context.Background(), chat.Config{URL: h.URL, Token: h.Token, In: in, Out: out, Err: errs, Patience: 50 * time.Millisecond})
	}()
	io.WriteString(typed, "hello\n")
	out.await(t, "You said: hello")
	h.Stop()
	if err := <-done; err == nil || !strings.Contains(err.Error(), "flynn has been away for 50ms") {
		t.Errorf("error %v", err)
	}
	typed.Close()
}
