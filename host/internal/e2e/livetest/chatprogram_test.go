//go:build linux

package livetest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/internal/terminal/terminaltest"
)

// TestChatOnATerminal runs flynn chat as people do: as a program on a terminal that can show one, and as lines elsewhere.
func TestChatOnATerminal(t *testing.T) {
	s := newSite(t, `
gateway = { listen = "127.0.0.1:%PORT%", token_file = "token" }
store.dir = "store"
routing.default_agent = "main"
agent_configs = { main = {} }
models.default = { provider = "demo" }
`)
	s.start()
	chat := func(t *testing.T, env string, args ...string) (*terminaltest.Terminal, func() error) {
		x := terminaltest.Open(t, 80, 24)
		cmd := exec.Command(filepath.Join(bin(t), "flynn"), append([]string{"--config", filepath.Join(s.dir, "flynn.toml"), "chat"}, args...)...)
		cmd.Env = append([]string{"HOME=" + s.dir, "PATH=" + os.Getenv("PATH"), "TERM=xterm-256color"}, strings.Fields(env)...)
		return x, x.Run(cmd)
	}
	t.Run("program", func(t *testing.T) {
		x, wait := chat(t, "", "-c", "program")
		x.Await("ready · program")
		x.Type("hello **there**" + terminaltest.Enter)
		x.Await("You said: hello there")
		x.Resize(20, 10) // the kernel tells the program
		x.AwaitThat("the status is cut", func() bool { return strings.HasSuffix(x.Screen(), "\nready · program ·") })
		x.Resize(80, 24)
		x.Await("ready · program · main")
		x.Type(terminaltest.CtrlD)
		if err := wait(); err != nil {
			t.Error(err)
		}
	})
	for _, c := range []struct{ name, env, arg string }{
		{"plain", "", "--plain"}, {"accessible", "ACCESSIBLE=1", ""}, {"dumb", "TERM=dumb", ""}, {"no terminal type", "TERM=", ""}, {"approvals", "", "--approvals=ask"},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := []string{"-c", strings.ReplaceAll(c.name, " ", "-")}
			if c.arg != "" {
				args = append(args, c.arg)
			}
			x, wait := chat(t, c.env, args...)
			x.Await(">")
			x.Type("hello **there**\r")
			x.Await("You said: hello **there**")
			x.Type(terminaltest.CtrlC)
			if err := wait(); err != nil {
				t.Error(err)
			}
			if c.arg != "--approvals=ask" && strings.Contains(x.Raw(), "\x1b") {
				t.Errorf("it wrote an escape sequence: %q", x.Raw())
			}
		})
	}
	t.Run("pipe", func(t *testing.T) {
		out, stderr, err := s.flynn("one\ntwo\n", "chat", "-c", "pipe")
		if err != nil || out != "You said: one\nYou said: two\n" {
			t.Errorf("%v: %q, %q", err, out, stderr)
		}
	})
}
