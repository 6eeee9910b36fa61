package livetest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/model/modeltest"
)

const twoAgents = `
[agent_configs.helper]
[agent_configs.coder]
model_tier = "complex"
[routing]
default_agent = "helper"
[gateway]
listen = "127.0.0.1:%PORT%"
[store]
dir = "%DIR%/state"
`

// generation waits until the configuration in force is the n-th.
func (s *site) generation(n uint64) {
	s.t.Helper()
	s.eventually(fmt.Sprintf("generation %d is in force", n), func() error {
		if g := s.status().Generation; g != n {
			return fmt.Errorf("it is generation %d", g)
		}
		return nil
	})
}

// says is what the host answers at the web page.
func (s *site) says(id, text string) gateway.Entry {
	s.t.Helper()
	s.send(id, id, text)
	return s.reply(id, 1)
}

func TestConfigurationIsReloaded(t *testing.T) {
	t.Parallel()
	models := model(t, "default", "helper speaking") + model(t, "complex", "coder speaking")
	s := newSite(t, twoAgents+models)
	s.start()
	if got := s.says("before", "hello"); got.Text != "helper speaking" || got.Agent != "helper" {
		t.Errorf("before: %+v", got)
	}

	other := strings.Replace(twoAgents, "[gateway]", "[routing.senders]\n\"web:owner\" = \"coder\"\n[gateway]", 1) + models
	s.write("flynn.toml", other)
	s.generation(2)
	if got := s.says("after", "hello"); got.Text != "coder speaking" || got.Agent != "coder" {
		t.Errorf("after: %+v", got)
	}

	s.write("flynn.toml", strings.Replace(other, `"web:owner" = "coder"`, `"web:owner" = "codre"`, 1))
	line := s.logged("level=ERROR", "configuration refused", "generation 2 stays in force")
	for _, want := range []string{"flynn.toml:", `codre`, `did you mean \"coder\"`} {
		if !strings.Contains(line, want) {
			t.Errorf("the log does not say %s: %s", want, line)
		}
	}
	if got := s.says("broken", "hello"); got.Text != "coder speaking" {
		t.Errorf("with a broken file: %+v", got)
	}

	s.write("flynn.toml", strings.Replace(other, "%DIR%/state", "%DIR%/elsewhere", 1))
	s.logged("level=ERROR", "store.dir changed", "restart flynn to change it")
	s.write("flynn.toml", other)
	s.logged("level=INFO", "again what is in force", "generation=2")
	s.generation(2)
	s.write("flynn.toml", twoAgents+models)
	s.generation(3)
	if got := s.says("again", "hello"); got.Text != "helper speaking" {
		t.Errorf("after all: %+v", got)
	}
}

func TestHangupReadsSecretsAgain(t *testing.T) {
	t.Parallel()
	server := modeltest.New(t)
	server.Script(modeltest.Reply{Text: "with the right key"})
	c := server.Config("openai")
	s := newSite(t, twoAgents+fmt.Sprintf(
		"[models.default]\nprovider = \"openai\"\nmodel = \"test\"\nbase_url = %q\napi_key_file = \"key\"\n[models.complex]\nprovider = \"demo\"\n", c.BaseURL))
	key := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(s.dir, "key"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	key("wrong")
	s.start()
	if got := s.says("wrong", "hello"); !got.IsError {
		t.Errorf("with a wrong key: %+v", got)
	}
	key(c.APIKey.Reveal())
	s.cmd.Process.Signal(syscall.SIGHUP)
	s.generation(2)
	if got := s.says("right", "hello"); got.Text != "with the right key" || got.IsError {
		t.Errorf("after the hangup: %+v", got)
	}
}

func TestChannelsComeAndGo(t *testing.T) {
	t.Parallel()
	addr := ircServer(t)
	const demo = "[models.default]\nprovider = \"demo\"\n[models.complex]\nprovider = \"demo\"\n"
	with := strings.Replace(ircConfig, "ADDRESS", addr, 1) + demo
	without, _, _ := strings.Cut(with, "[channels.net]")
	without = strings.Replace(without, "\"net:bob\" = \"coder\"\n", "", 1) + demo

	s := newSite(t, without)
	s.start()
	ann := newPerson(t, addr, "ann")
	s.write("flynn.toml", with)
	s.generation(2)
	ann.meet()
	ann.send("PRIVMSG #flynn :flynn: hello")
	ann.await("You said: hello", patience)

	s.write("flynn.toml", strings.Replace(with, `channels = ["#flynn"]`, `channels = ["#flynn", "#other"]`, 1))
	s.generation(3)
	ann.await(" QUIT ", patience)
	ann.meet()
	ann.send("PRIVMSG #flynn :flynn: hello again")
	ann.await("You said: hello again", patience)

	s.write("flynn.toml", without)
	s.generation(4)
	ann.await(" QUIT ", patience)
	s.eventually("nothing of the channel is left", func() error {
		if pids, left := s.children(), s.status().Channels; len(pids)+len(left) > 0 {
			return fmt.Errorf("processes %v, channels %+v", pids, left)
		}
		return nil
	})
}
