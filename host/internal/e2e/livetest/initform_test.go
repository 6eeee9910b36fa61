//go:build linux

package livetest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/internal/terminal/terminaltest"
	"github.com/flynnhost/flynn/plugins/telegram/telegramtest"
)

// form is flynn init on a terminal.
type form struct {
	*terminaltest.Terminal
	t    *testing.T
	dir  string // for the configuration
	tool string // folder of the plugin telegram, of this test alone
	kind string // of terminal
	wait func() error
}

// newForm prepares a run: a folder, and a plugin of its own, by which its processes are known.
func newForm(t *testing.T) *form {
	t.Helper()
	f := &form{t: t, kind: "xterm-256color", dir: filepath.Join(t.TempDir(), "new", "site"), tool: filepath.Join(t.TempDir(), "telegram")}
	if err := os.CopyFS(f.tool, os.DirFS(telegramDir(t))); err != nil {
		t.Fatal(err)
	}
	return f
}

// run starts flynn init. The environment has no keys.
func (f *form) run(args ...string) {
	f.t.Helper()
	f.Terminal = terminaltest.Open(f.t, 100, 40)
	cmd := exec.Command(filepath.Join(bin(f.t), "flynn"), append([]string{"init", "--dir", f.dir, "--plugin-dir", "telegram=" + f.tool}, args...)...)
	cmd.Env = []string{"HOME=" + f.t.TempDir(), "TERM=" + f.kind, "PATH=" + os.Getenv("PATH")}
	f.wait = f.Run(cmd)
}

// step is a text to wait for, and what is typed then.
type step struct{ await, keys string }

func (f *form) walk(steps ...step) {
	f.t.Helper()
	for _, s := range steps {
		f.Await(s.await)
		f.Type(s.keys)
	}
}

// code is the exit code.
func (f *form) code() int {
	f.t.Helper()
	var exit *exec.ExitError
	if err := f.wait(); errors.As(err, &exit) {
		return exit.ExitCode()
	} else if err != nil {
		f.t.Fatal(err)
	}
	return 0
}

// processes are those that run the plugin of the test, without flynn init itself.
func (f *form) processes() (list []string) {
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range all {
		program, _ := os.Readlink(p + "/exe")
		text, _ := os.ReadFile(p + "/cmdline")
		if strings.Contains(program+string(text), f.tool) && !strings.Contains(string(text), "\x00init\x00") {
			list = append(list, p+" "+strings.ReplaceAll(string(text), "\x00", " "))
		}
	}
	return list
}

// silent is a server that accepts connections and says nothing.
func silent(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return "http://" + l.Addr().String()
}

// TestCtrlCUndoesEachStepOfInit ends flynn init in every step: nothing of it is left, no file, no secret and no process.
func TestCtrlCUndoesEachStepOfInit(t *testing.T) {
	server := telegramtest.Start(t)
	address := "127.0.0.1:" + freePort(t)
	model := []string{"--model-provider", "demo", "--listen", address}
	channel := append(model, "--channel", "telegram", "--set", "api_url="+server.URL)
	token := step{"┃ token of telegram", telegramtest.Token + terminaltest.Enter}
	owner := step{"┃ Make the next person who writes to it the owner?", "y"}
	for _, c := range []struct {
		name  string
		args  []string
		steps []step // the last is where Ctrl-C comes
		then  func()
	}{
		{name: "model", steps: []step{{await: "┃ Which model shall answer?"}}},
		{name: "address", args: []string{"--model-provider", "server"}, steps: []step{{await: "┃ Address of the server"}}},
		{name: "key", args: []string{"--model-provider", "openai"}, steps: []step{{await: "┃ API key of OpenAI"}}},
		{name: "name", args: []string{"--model-provider", "openai"}, steps: []step{
			{"┃ API key of OpenAI", "sk-1" + terminaltest.Enter}, {await: "┃ Name of the model"},
		}},
		{name: "the model's answer", args: []string{"--model-provider", "server", "--base-url", silent(t), "--model", "x"}, steps: []step{{await: "Asking x for one word"}}},
		{name: "a model that fails", args: []string{"--model-provider", "server", "--base-url", "http://127.0.0.1:1", "--model", "x"}, steps: []step{{await: "┃ What now?"}}},
		{name: "channel", args: model, steps: []step{{await: "┃ Over which channel"}}},
		{name: "token", args: channel, steps: []step{{await: "┃ token of telegram"}}},
		{name: "the platform's answer", args: append(model, "--channel", "telegram", "--set", "api_url="+silent(t)), steps: []step{token, {await: "whether it knows the account"}}},
		{name: "a wrong token", args: channel, steps: []step{{"┃ token of telegram", "1:wrong" + terminaltest.Enter}, {await: "┃ What now?"}}},
		{name: "owner", args: channel, steps: []step{token, {await: owner.await}}},
		{name: "first message", args: channel, steps: []step{token, owner, {await: "Write to it now"}}},
		{name: "code", args: channel, steps: []step{token, owner, {await: "Write to it now"}, {await: "Does your own chat show this code?"}}, then: func() {
			server.Private("Ann").Say("hello")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newForm(t)
			f.run(c.args...)
			for i, s := range c.steps {
				f.walk(s)
				if c.then != nil && i == len(c.steps)-2 {
					c.then()
				}
			}
			f.Type(terminaltest.CtrlC)
			if code := f.code(); code != 130 {
				t.Errorf("exit code %d", code)
			}
			f.Await("interrupted")
			if _, err := os.Stat(filepath.Dir(f.dir)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s is left: %v", f.dir, err)
			}
			if left := f.processes(); len(left) > 0 {
				t.Errorf("processes are left: %q", left)
			}
			if strings.Contains(f.Raw(), telegramtest.Token) || strings.Contains(f.Raw(), "sk-1") {
				t.Error("the terminal shows a secret")
			}
		})
	}
}

// TestInitOnADumbTerminal asks in lines. A secret is not shown while it is typed, and Ctrl-C there brings the echo back.
func TestInitOnADumbTerminal(t *testing.T) {
	f := newForm(t)
	f.kind = "dumb"
	f.run("--model-provider", "openai", "--no-channel", "--listen", "127.0.0.1:"+freePort(t), "--no-check")
	f.walk(step{"it is not shown):", "sk-two\r"}, step{"[gpt-5-mini]:", "\r"}, step{"Start flynn now, here in the terminal? [Y/n]:", "what\r"}, step{"answer with y or n", "n\r"})
	if code := f.code(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if text := read(t, filepath.Join(f.dir, "flynn-data/secrets/openai_api_key")); text != "sk-two\n" {
		t.Errorf("the secret is %q", text)
	}
	if strings.Contains(f.Raw(), "sk-two") || strings.Contains(f.Raw(), "\x1b") {
		t.Errorf("it shows %q", f.Raw())
	}

	g := newForm(t)
	g.kind = "dumb"
	g.run("--model-provider", "openai")
	g.walk(step{"it is not shown):", "sk-"}, step{"it is not shown):", terminaltest.CtrlC})
	if code := g.code(); code != 130 {
		t.Errorf("exit code %d", code)
	}
	if _, err := os.Stat(filepath.Dir(g.dir)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is left: %v", g.dir, err)
	}
	if modes, err := unix.IoctlGetTermios(int(g.Program.Fd()), unix.TCGETS); err != nil || modes.Lflag&unix.ECHO == 0 {
		t.Errorf("the echo is off: %v", err)
	}
}

// TestInitForm answers every question on a terminal, some of them wrong at first, and then changes one thing.
func TestInitForm(t *testing.T) {
	server := telegramtest.Start(t)
	f := newForm(t)
	models := httptest.NewServer(http.HandlerFunc(fussy))
	t.Cleanup(models.Close)
	address := "127.0.0.1:" + freePort(t)
	f.run("--listen", address, "--set", "api_url="+server.URL, "--model-provider", "server")
	const empty = "\x15" // Ctrl-U
	f.walk(
		step{"┃ Address of the server", empty + "localhost" + terminaltest.Enter},
		step{"must be such as", empty + "http://127.0.0.1:1/v1" + terminaltest.Enter},
		step{"does not list any", terminaltest.Enter},
		step{"it is needed", "small" + terminaltest.Enter},
		step{"nothing answers at http://127.0.0.1:1/v1", ""},
		step{"> give the address again", terminaltest.Enter},
		step{"give the address again\n┃ Address of the server\n┃ usually ends in /v1\n┃ > http://127.0.0.1:1/v1", empty + models.URL + "/v1" + terminaltest.Enter},
		step{"wants an API key, and there is none.\n┃ What now?\n┃ > give the address again", terminaltest.Down},
		step{"> give the key again", terminaltest.Enter},
		step{"┃ API key of", "wrong" + terminaltest.Enter},
		step{"Copy it again, whole.\n┃ What now?\n┃ > give the address again", terminaltest.Down},
		step{"> give the key again", terminaltest.Enter},
		step{"give the key again\n┃ API key of", "k3y" + terminaltest.Enter},
		step{"or the address is wrong.\n┃ What now?\n┃ > give the address again", terminaltest.Down + terminaltest.Down},
		step{"> choose another model", terminaltest.Enter},
		step{"┃ Name of the model", "large" + terminaltest.Enter},
		step{"It answered in", ""},
		step{"> Telegram", terminaltest.Enter},
		step{"┃ token of telegram", "1:wrong" + terminaltest.Enter},
		step{"> give its token and settings again", ""},
	)
	if left := f.processes(); len(left) > 0 {
		t.Errorf("the plugin on trial is left: %q", left)
	}
	f.Type(terminaltest.Enter)
	f.walk(
		step{"again\n┃ token of telegram", telegramtest.Token + terminaltest.Enter},
		step{"It does, after", ""},
		step{"┃ Make the next person", "y"},
		step{"Write to it now", ""},
	)
	chat := server.Private("Ann")
	chat.Say("hello")
	f.Await("┃ Does your own chat show this code?")
	_, code, _ := strings.Cut(f.Screen(), "got the code ")
	code, _, _ = strings.Cut(code, ".")
	if got := chat.AwaitMessages(1)[0].Text; code == "" || !strings.Contains(got, code) {
		t.Errorf("the terminal shows the code %q, the chat %q", code, got)
	}
	f.walk(step{"┃ Does your own chat show this code?", "y"}, step{"┃ Start flynn now", "n"}, step{"Start it with: flynn --config", ""})
	if code := f.code(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	config := filepath.Join(f.dir, "flynn.toml")
	before, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"# The model.", `model = "large"`, `base_url = "` + models.URL, "[channels.telegram]", `owners = ["telegram:`} {
		if !strings.Contains(string(before), want) {
			t.Errorf("no %q in\n%s", want, before)
		}
	}
	secrets := map[string]string{"server_api_key": "k3y\n", "telegram_token": telegramtest.Token + "\n"}
	for name, want := range secrets {
		path := filepath.Join(f.dir, "flynn-data/secrets", name)
		info, err := os.Stat(path)
		if err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
		if text, _ := os.ReadFile(path); string(text) != want {
			t.Errorf("%s is %q", name, text)
		}
	}
	if left := f.processes(); len(left) > 0 {
		t.Errorf("processes are left: %q", left)
	}

	// Again: it shows what there is, and what would change. "No" leaves the file alone.
	f.run("--model-provider", "demo")
	f.walk(step{"is there already", ""}, step{"default = openai/large", ""}, step{`-model = "large"`, ""}, step{"┃ Write this to", "n"})
	if code := f.code(); code != 130 {
		t.Errorf("exit code %d", code)
	}
	if after, _ := os.ReadFile(config); string(after) != string(before) {
		t.Errorf("the file has become\n%s", after)
	}
	f.run()
	f.walk(step{"┃ What shall change?", terminaltest.Down}, step{"> the model", terminaltest.Enter}, step{"┃ Which model shall answer?", terminaltest.CtrlC})
	if code := f.code(); code != 130 {
		t.Errorf("exit code %d", code)
	}
	if after, _ := os.ReadFile(config); string(after) != string(before) {
		t.Errorf("the file has become\n%s", after)
	}
}

// fussy is a model server that wants a key and has one model.
func fussy(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	switch {
	case r.Method == http.MethodGet:
		http.Error(w, `{"error":{"message":"no list"}}`, http.StatusNotFound)
	case r.Header.Get("Authorization") != "Bearer k3y":
		http.Error(w, `{"error":{"message":"Incorrect API key provided"}}`, http.StatusUnauthorized)
	case !strings.Contains(string(body), `"large"`):
		http.Error(w, `{"error":{"message":"no such model"}}`, http.StatusNotFound)
	default:
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, `data: {"id":"1","object":"chat.completion.chunk","created":1,"model":"large","choices":[{"index":0,"delta":{"role":"assistant","content":"ready"},"finish_reason":null}]}`+"\n\n"+
			`data: {"id":"1","object":"chat.completion.chunk","created":1,"model":"large","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
	}
}
