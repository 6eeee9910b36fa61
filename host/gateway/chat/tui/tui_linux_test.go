package tui_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/chat/tui"
	"github.com/flynnhost/flynn/host/gateway/gatewaytest"
	"github.com/flynnhost/flynn/host/internal/terminal/terminaltest"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/sdk/plugintest/rude"
)

func TestMain(m *testing.M) {
	// The library's reader of the terminal may be left with a key that came when the program had ended.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/charmbracelet/ultraviolet.(*TerminalReader).sendEvents"))
}

// program is the terminal program on a terminal.
type program struct {
	*terminaltest.Terminal
	t     *testing.T
	ended chan error
}

// open starts the program for a gateway.
func open(t *testing.T, url, token string) *program {
	t.Helper()
	p := &program{Terminal: terminaltest.Open(t, 80, 24), t: t, ended: make(chan error, 1)}
	before := p.modes()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.ended <- tui.Run(ctx, tui.Config{
			URL: url, Token: token, Conversation: "main", In: p.Program, Out: p.Program, Environ: []string{"TERM=xterm-256color"}, Colour: true,
		})
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		if after := p.modes(); before != after {
			t.Errorf("the terminal's modes are %+v, and were %+v", after, before)
		}
	})
	return p
}

// modes are those of the terminal.
func (p *program) modes() unix.Termios {
	p.t.Helper()
	modes, err := unix.IoctlGetTermios(int(p.Program.Fd()), unix.TCGETS)
	if err != nil {
		p.t.Fatal(err)
	}
	return *modes
}

// serve starts a host with an agent, and the program, and waits until it can be written to.
func serve(t *testing.T, agent gatewaytest.Agent) (*gatewaytest.Server, *program) {
	t.Helper()
	h := gatewaytest.Serve(t, agent)
	p := open(t, h.URL, h.Token)
	p.Await("ready · main")
	return h, p
}

// say writes a message and sends it.
func (p *program) say(text string) {
	p.t.Helper()
	p.Type(text)
	p.Await(text)
	p.Type(terminaltest.Enter)
}

// left waits until the program has ended without an error, and checks that it has switched off what it switched on.
func (p *program) left() {
	p.t.Helper()
	select {
	case err := <-p.ended:
		if err != nil {
			p.t.Errorf("ended with %v", err)
		}
	case <-time.After(time.Minute):
		p.t.Fatal("does not end")
	}
	p.ended <- nil
	p.AwaitThat("the program switches off what it has switched on", func() bool {
		raw := p.Raw()
		for _, mode := range regexp.MustCompile(`\x1b\[\?([0-9]+)h`).FindAllStringSubmatch(raw, -1) {
			on, off := strings.LastIndex(raw, mode[0]), strings.LastIndex(raw, "\x1b[?"+mode[1]+"l")
			if (off > on) == (mode[1] == "25") { // the cursor is shown again
				return false
			}
		}
		return true
	})
	if raw := p.Raw(); strings.Contains(raw, "\x1b[?1049h") || strings.Contains(raw, "\x1b[?1000h") {
		p.t.Error("it has taken the screen, or the mouse")
	}
}

// once waits until a text is shown exactly once: what has just moved to the scrollback is in the live part for another frame.
func (p *program) once(text string) {
	p.t.Helper()
	p.AwaitThat(fmt.Sprintf("%q is shown once", text), func() bool { return strings.Count(p.All(), text) == 1 })
}

// gates are what an agent waits for, by name.
type gates map[string]chan struct{}

func (g gates) wait(ctx context.Context, name string) {
	select {
	case <-g[name]:
	case <-ctx.Done():
	}
}

func TestStreamsMarkdown(t *testing.T) {
	g := gates{"more": make(chan struct{}), "end": make(chan struct{})}
	_, p := serve(t, func(ctx context.Context, turn *gatewaytest.Turn, _ string) (string, error) {
		const first, second = "# A title\n\nThe *first* part of ", "an **answer**.\n\n- one\n- two\n\n```sh\nls  -la\n```\nIt ends."
		turn.Say(first)
		g.wait(ctx, "more")
		turn.Say(second)
		g.wait(ctx, "end")
		return first + second, ctx.Err()
	})
	p.say("hello")
	p.Await("The first part of")
	p.Await("answering, Ctrl-C stops")
	close(g["more"])
	p.Await("It ends.")
	close(g["end"])
	p.Await("ready · main")
	want := `
This is a test.
Three things to try:
  hello       is answered
  !ask make   asks first
  /status     shows the state

› hello

A title

The first part of an answer.

• one
• two

  ls  -la

It ends.

› Write a message; /help lists commands
ready · main · demo`
	if got := p.Screen(); got != want {
		t.Errorf("the screen shows\n%s\nand not\n%s", got, want)
	}
	if !strings.Contains(p.Raw(), "\x1b[1m") || strings.Contains(p.All(), "**") {
		t.Errorf("the Markdown is not laid out:\n%q", p.Raw())
	}
}

func TestACallRuns(t *testing.T) {
	g := gates{"end": make(chan struct{})}
	_, p := serve(t, func(ctx context.Context, turn *gatewaytest.Turn, _ string) (string, error) {
		turn.Interim("Let me see.")
		_, err := turn.Run(ctx, gatewaytest.Call{
			Tool: "shell", Args: map[string]string{"command": "make test"}, Decision: "run_in_sandbox", Where: "sandbox",
			Output: "compiling\n" + strings.Repeat("a line\n", 10) + "linking\n", During: func() { g.wait(ctx, "end") },
		})
		turn.Say("Done.")
		return "Done.", err
	})
	p.say("go")
	p.Await("● shell make test [runs, in the sandbox]\n  │ linking\n")
	close(g["end"])
	p.Await("ready · main")
	p.once("✓ shell make test [in the sandbox]\n  │ compiling\n")
	p.once("│ … 6 more lines\n")
	p.once("Let me see.")
	p.once("Done.")
}

func TestApprovals(t *testing.T) {
	h, p := serve(t, gatewaytest.Demo)
	p.say("!ask first")
	p.Await("$ first")
	p.Await("a approve once") // the keys count once the request was on the screen for a while
	p.Type("a")
	p.Await("approved, once: first")
	p.Await("The command ran.")

	p.say("!ask second")
	p.Await("$ second")
	p.Await("a approve once")
	p.Type("d")
	p.Await("denied: second")
	p.Await("The command was not run.")

	p.say("!ask third")
	p.Await("$ third")
	p.Await("a approve once")
	p.Type("s")
	p.Await("2 session: this call in this session")
	p.Await("3 standing: this call until next month")
	p.Type("2")
	p.Await("approved, session: this call in this session: third")
	p.Await("ready · main")
	grants, err := h.Grants(t.Context())
	if err != nil || len(grants) != 1 || grants[0].Scope != "session" {
		t.Errorf("granted %+v, %v", grants, err)
	}

	p.say("!ask bad")
	p.Await("$ bad")
	p.Await("a approve once")
	p.Await("not shown, but followed: Badfile (bad)")
	p.Type("s")
	p.Await("2 session: this call in this session (as good as a shell: bad can run any\n    program)\n  - bad can run any program\n")
	p.Type("3") // not offered
	p.Await("answers the request")
	p.Type(terminaltest.Escape)
	p.Await("a approve once")
	p.Type("d")
	p.Await("denied: bad")
}

// A person who types when a request appears means the message.
func TestTypingDoesNotApprove(t *testing.T) {
	g := gates{"ask": make(chan struct{})}
	h, p := serve(t, func(ctx context.Context, turn *gatewaytest.Turn, text string) (string, error) {
		g.wait(ctx, "ask")
		return gatewaytest.Demo(ctx, turn, text)
	})
	p.say("!ask reboot")
	p.Type("dr")
	p.Await("› dr")
	close(g["ask"])
	p.Await("$ reboot")
	p.Type("aft")
	p.Await("› draft")
	p.Await("Tab: answer this request")
	if list, err := h.Approvals(t.Context()); err != nil || len(list) != 1 {
		t.Fatalf("open requests: %+v, %v", list, err)
	}
	p.Type(terminaltest.Tab)
	p.Await("a approve once")
	p.Type("a")
	p.Await("approved, once: reboot")
	p.Await("› draft")
}

func TestSessionsAndAgents(t *testing.T) {
	h := gatewaytest.Serve(t, gatewaytest.Demo)
	h.Info.Agents = []gateway.AgentStatus{{Name: "demo", Model: "small"}, {Name: "cod\x1b[2Jer", Model: "large", Sandbox: "builds"}}
	p := open(t, h.URL, h.Token)
	p.Await("ready · main")
	p.say("one")
	p.Await("You said: one")
	p.say("/session other")
	p.Await("── other ──")
	p.say("two")
	p.Await("You said: two")
	p.say("/sessions")
	p.Await("› other (this one)")
	p.Await("main  one just now")
	p.Type(terminaltest.Down + terminaltest.Enter)
	p.Await("ready · main")
	p.AwaitThat("the history of main comes again", func() bool { return strings.Count(p.All(), "You said: one") == 2 })
	p.say("/session a b")
	p.Await("a session's name has letters")
	p.Type(terminaltest.CtrlC) // empties the input
	p.AwaitGone("/session a b")
	p.say("/agent")
	p.Await("cod<U+001B>[2Jer  large, in sandbox builds")
	p.Type(terminaltest.Down + terminaltest.Enter)
	p.Await("You said: /agent cod")
}

func TestHistoryOfTheInput(t *testing.T) {
	_, p := serve(t, gatewaytest.Demo)
	for _, text := range []string{"first", "second"} {
		p.say(text)
		p.Await("You said: " + text)
		p.Await("ready · main")
	}
	p.Type("draft")
	p.Await("› draft\n")
	for _, step := range []struct{ key, shows string }{
		{terminaltest.Up, "second"}, {terminaltest.Up, "first"}, {terminaltest.Up, "hello"}, {terminaltest.Up, "!ask make"}, {terminaltest.Up, "/status"},
		{terminaltest.Up, "/status"}, {terminaltest.Down, "!ask make"}, {terminaltest.Down, "hello"}, {terminaltest.Down, "first"},
		{terminaltest.Down, "second"}, {terminaltest.Down, "draft"},
	} {
		p.Type(step.key)
		p.Await("› " + step.shows + "\nready · main")
	}
}

// The messages from before the program began are shown, and Up brings them back.
func TestHistoryOfTheConversation(t *testing.T) {
	h := gatewaytest.Serve(t, gatewaytest.Demo)
	err := h.Submit(t.Context(), message.Message{
		Channel: gateway.ChannelTerminal, EventID: "1", Conversation: message.Conversation{ID: "main"}, Text: "!box make",
	})
	if err != nil {
		t.Fatal(err)
	}
	h.AwaitFinal(4)
	p := open(t, h.URL, h.Token)
	p.Await("The command ran.")
	p.once("› !box make")
	p.once("✓ shell make [in sandbox default]")
	p.Type(terminaltest.Up)
	p.Await("› !box make\nready")
}

func TestAttachments(t *testing.T) {
	names := make(chan []message.Attachment, 1)
	h, p := serve(t, func(ctx context.Context, turn *gatewaytest.Turn, text string) (string, error) {
		names <- turn.Message().Attachments
		return "Seen.", nil
	})
	dir := t.TempDir()
	if err := errors.Join(
		os.WriteFile(filepath.Join(dir, "notes.txt"), []byte("the content"), 0o600),
		os.WriteFile(filepath.Join(dir, "no\u202etxt.exe"), nil, 0o600), // a name that cannot be shown is not offered
		os.Mkdir(filepath.Join(dir, "folder"), 0o700),
	); err != nil {
		t.Fatal(err)
	}
	p.say("/attach nowhere")
	p.Await("no such file")
	p.say("/attach " + dir + "/fol")
	p.Await("no such file")
	p.Type("/attach " + dir + "/fol" + terminaltest.Tab)
	p.Await("/folder/")
	p.Type(terminaltest.Enter)
	p.Await("it is no file")
	p.Type("/attach " + dir + "/no" + terminaltest.Tab)
	p.Await("/notes.txt")
	p.Type(terminaltest.Enter)
	p.Await("attached: notes.txt")
	p.say("look")
	p.Await("Seen.")
	got := <-names
	if len(got) != 1 {
		t.Fatalf("attached %+v", got)
	}
	if data, ok := h.Kept(got[0].Handle); !ok || string(data) != "the content" {
		t.Errorf("kept %q", data)
	}
}

// resize changes the size, and tells the program, which here has no terminal that controls it.
func (p *program) resize(columns, rows int) {
	p.t.Helper()
	p.Resize(columns, rows)
	if err := syscall.Kill(os.Getpid(), syscall.SIGWINCH); err != nil {
		p.t.Fatal(err)
	}
}

func TestResize(t *testing.T) {
	g := gates{"end": make(chan struct{})}
	_, p := serve(t, func(ctx context.Context, turn *gatewaytest.Turn, _ string) (string, error) {
		const text = "A paragraph of an answer that is longer than the screen will be wide.\n\nAnd some more of it."
		turn.Say(text)
		g.wait(ctx, "end")
		turn.Say(" The end.")
		return text + " The end.", ctx.Err()
	})
	p.say("go")
	p.Type("a draft of many words which will not fit, at least not as a whole")
	p.Await("And some more of it.")
	p.resize(20, 10)
	p.Await("› words which will\n  not fit, at least\n  not as a whole\nanswering, Ctrl-C") // where the cursor is
	for _, line := range strings.Split(p.Screen(), "\n") {
		if n := len([]rune(line)); n > 20 {
			t.Errorf("a line of %d cells: %q", n, line)
		}
	}
	p.resize(4, 3)
	p.resize(1, 1)
	p.resize(80, 24)
	p.Await("› a draft of many words which will not fit, at least not as a whole\nanswering, Ctrl-C stops · main · demo")
	close(g["end"])
	p.Await("The end.")
	p.Await("ready · main")
	p.once("The end.")
	p.once("ready · main")
}

// A long answer is in the scrollback, every line once and in order, though only its end fits the screen.
func TestTenThousandLines(t *testing.T) {
	const lines = 10_000
	var text strings.Builder
	for i := range lines {
		fmt.Fprintf(&text, "- line %05d of many\n", i)
	}
	_, p := serve(t, func(_ context.Context, turn *gatewaytest.Turn, _ string) (string, error) {
		turn.Say(text.String())
		return text.String(), nil
	})
	began := time.Now()
	p.say("go")
	p.Await("line 09999")
	p.Await("ready · main")
	t.Logf("10,000 lines in %v, for %d bytes", time.Since(began).Round(time.Millisecond), len(p.Raw()))
	found := regexp.MustCompile(`line (\d{5}) of many`).FindAllStringSubmatch(p.All(), -1)
	if len(found) != lines {
		t.Errorf("%d lines", len(found))
	}
	for i, f := range found {
		if f[1] != fmt.Sprintf("%05d", i) {
			t.Fatalf("line %d is %q", i, f[0])
		}
	}
	p.Type("still here")
	p.Await("› still here")
}

// sequences are the escape sequences that the program itself writes: styles, and the moves and modes of its renderer.
var sequences = regexp.MustCompile(`\x1b\[[0-9;?>=$ ]*[a-zA-Z]|\x1b\[\?[0-9]+\$p|\x1b[78M]|\x1b\[>[0-9;]*[qu]`)

// The texts of models, tools and files cannot steer the terminal.
func TestNobodySteersTheTerminal(t *testing.T) {
	texts := rude.Texts()
	texts = append(texts,
		rude.Value{Name: "clipboard", Text: "\x1b]52;c;aGFja2Vk\x07 \x1b]52;c;aGFja2Vk\x1b\\ \x9d52;c;aGFja2Vk\x9c"},
		rude.Value{Name: "link", Text: "[here](https://example.com/\x1b]8;;) \x1b]8;;https://evil.example\x1b\\x\x1b]8;;\x1b\\"},
		rude.Value{Name: "modes", Text: "\x1b[?1049h\x1b[?1000h\x1b[?25l\x1bc\x1b[!p\x1bP+q544e\x1b\\ \x1b_G\x1b\\ \x1b^x\x1b\\"},
		rude.Value{Name: "cut", Text: "\x1b"}, rude.Value{Name: "half", Text: "\x1b["},
	)
	const hidden = "\x1b\x00\u009b\u009d\u202e\u2066"
	clean := func(t *testing.T, p *program) {
		t.Helper()
		raw := p.Raw()
		for _, bad := range []string{"\x1b]", "\x1bP", "\x1b_", "\x1b^", "\x1bc", "\x07", "\x1b[?1049h", "\x1b[?1000h"} {
			if strings.Contains(raw, bad) {
				t.Errorf("the program wrote %q", bad)
			}
		}
		if rest := sequences.ReplaceAllString(raw, ""); strings.ContainsAny(rest, hidden) {
			t.Errorf("a sequence of another kind: %.200q", rest[strings.IndexAny(rest, hidden):])
		}
	}
	for _, v := range texts {
		if len(v.Text) > 5_000 {
			continue // TestTenThousandLines has a long one
		}
		t.Run(v.Name, func(t *testing.T) {
			t.Parallel()
			h, p := serve(t, func(ctx context.Context, turn *gatewaytest.Turn, _ string) (string, error) {
				turn.Interim(v.Text + "\n\n" + v.Text)
				_, err := turn.Run(ctx, gatewaytest.Call{
					Tool: "to" + v.Text + "ol", Args: map[string]string{"path": v.Text, v.Text: v.Text}, Decision: "run", Where: v.Text, Output: v.Text,
				})
				if err != nil {
					return "", err
				}
				_, err = turn.Run(ctx, gatewaytest.Call{
					Tool: "shell", Args: map[string]string{"command": v.Text, v.Text: v.Text}, Decision: "ask", Where: "host", Reasons: []string{v.Text},
				})
				turn.Say(v.Text)
				return v.Text + "\n\nThe end.", err
			})
			p.say("go")
			p.Await("a approve once")
			p.Type("a")
			p.Await("The end.")
			p.Await("ready · main")
			clean(t, p)
			// The same from the history.
			q := open(t, h.URL, h.Token)
			q.Await("The end.")
			q.Await("ready · main")
			clean(t, q)
			q.Type(terminaltest.CtrlD)
			q.left()
		})
	}
}

func TestCtrlC(t *testing.T) {
	t.Run("idle", func(t *testing.T) {
		_, p := serve(t, gatewaytest.Demo)
		p.Type("a draft")
		p.Await("› a draft")
		p.Type(terminaltest.CtrlC)
		p.AwaitGone("a draft")
		p.Await("Ctrl-C again leaves")
		p.Type(terminaltest.CtrlC)
		p.left()
	})
	t.Run("answer", func(t *testing.T) {
		_, p := serve(t, gatewaytest.Demo)
		p.say("!hang")
		p.Await("Thinking about it")
		p.Type(terminaltest.CtrlC)
		p.Await("✗ the turn was stopped")
		p.once("Thinking about it")
		p.AwaitGone("Ctrl-C again leaves") // after a while it would not
		p.Type("more")
		p.Await("› more")
	})
	t.Run("twice in an answer", func(t *testing.T) {
		stuck := make(chan struct{})
		_, p := serve(t, func(ctx context.Context, turn *gatewaytest.Turn, _ string) (string, error) {
			turn.Say("It has begun ")
			<-stuck
			return "", ctx.Err()
		})
		t.Cleanup(func() { close(stuck) })
		p.say("go")
		p.Await("It has begun")
		p.Type(terminaltest.CtrlC + terminaltest.CtrlC)
		p.left()
		p.once("It has begun")
	})
	t.Run("request", func(t *testing.T) {
		h, p := serve(t, gatewaytest.Demo)
		p.say("!ask reboot")
		p.Await("a approve once")
		p.Type(terminaltest.CtrlC)
		p.AwaitGone("a approve once")
		p.Await("the turn was stopped")
		if list, err := h.Approvals(t.Context()); err != nil || len(list) != 0 {
			t.Errorf("open requests: %+v, %v", list, err)
		}
		p.Type(terminaltest.CtrlC + terminaltest.CtrlC)
		p.left()
	})
	t.Run("list", func(t *testing.T) {
		_, p := serve(t, gatewaytest.Demo)
		p.say("/sessions")
		p.Await("+ a new session")
		p.Type(terminaltest.CtrlC)
		p.AwaitGone("+ a new session")
		p.Type(terminaltest.CtrlC)
		p.left()
	})
	t.Run("while it connects", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0") // where nobody answers
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		p := open(t, "http://"+l.Addr().String(), strings.Repeat("x", 43))
		p.Await("connecting")
		p.Type(terminaltest.CtrlC)
		p.Await("Ctrl-C again leaves")
		p.Type(terminaltest.CtrlC)
		p.left()
	})
}

// A host that restarts in the middle of an answer: nothing is lost, and nothing is shown twice.
func TestRestart(t *testing.T) {
	g := gates{"end": make(chan struct{})}
	h, p := serve(t, func(ctx context.Context, turn *gatewaytest.Turn, text string) (string, error) {
		if text != "slow" {
			return gatewaytest.Demo(ctx, turn, text)
		}
		turn.Interim("Let me see.")
		if _, err := turn.Run(ctx, gatewaytest.Call{Tool: "shell", Args: map[string]string{"command": "make"}, Decision: "run", Output: "made"}); err != nil {
			return "", err
		}
		turn.Say("The first part.\n\nHalf ")
		g.wait(ctx, "end")
		turn.Say("and half.")
		return "The first part.\n\nHalf and half.", ctx.Err()
	})
	p.say("slow")
	p.Await("Half")
	h.Stop()
	p.Await("connection lost")
	p.say("meanwhile")
	p.Await("is sent with the next connection: meanwhile")
	close(g["end"])
	h.AwaitFinal(4)
	h.Start()
	p.Await("You said: meanwhile")
	p.Await("ready · main")
	for _, text := range []string{"Let me see.", "✓ shell make [on the host]", "The first part.", "Half and half.", "› slow", "› meanwhile"} {
		p.once(text)
	}
	if n := h.Accepted(); n != 2 {
		t.Errorf("accepted %d messages", n)
	}
}

// A gateway that refuses or is not there: the error says so, and the terminal is as before.
func TestRefusals(t *testing.T) {
	h := gatewaytest.Serve(t, gatewaytest.Demo)
	for name, c := range map[string]struct{ url, token, want string }{
		"wrong token":  {h.URL, strings.Repeat("x", 43), "the token is wrong"},
		"nobody there": {"http://127.0.0.1:1", h.Token, "start it with: flynn serve"},
		"no URL":       {"127.0.0.1", h.Token, "is not a URL"},
	} {
		t.Run(name, func(t *testing.T) {
			p := open(t, c.url, c.token)
			err := <-p.ended
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), h.Token) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

func TestPaste(t *testing.T) {
	got := make(chan string, 2)
	_, p := serve(t, func(_ context.Context, _ *gatewaytest.Turn, text string) (string, error) {
		got <- text
		return "Thanks.", nil
	})
	p.Paste("one\r\ntwo\x1b[2J\u202e\rthree")
	p.Await("› one\n  two\n  three\n")
	p.Type(terminaltest.Enter)
	p.Await("Thanks.")
	if text := <-got; text != "one\ntwo\nthree" {
		t.Errorf("sent %q", text)
	}
	if strings.Contains(p.Raw(), "\u202e") {
		t.Error("a paste changes the direction of the screen")
	}
	long := strings.TrimSuffix(strings.Repeat("a line of a paste\n", 400), "\n")
	p.Type("see: ")
	p.Paste(long)
	p.Await("› see: [pasted text 1: 400 lines, 7199 bytes]")
	p.Type(terminaltest.Enter)
	if text := <-got; text != "see: "+long {
		t.Errorf("sent %d bytes", len(text))
	}
}
