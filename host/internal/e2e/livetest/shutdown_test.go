package livetest

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
)

func TestOrderlyShutdown(t *testing.T) {
	t.Parallel()
	engine := sandboxtest.Engine(t)
	addr := ircServer(t)
	config := strings.Replace(ircConfig, "[agent_configs.helper]", "[agent_configs.helper]\ntool_profile = \"coding\"\nsandbox = true", 1)
	config = strings.NewReplacer("ADDRESS", addr, "\"net:bob\" = \"coder\"\n", "").Replace(config)
	s := newSite(t, config+demoModels+"[sandbox]\nenabled = true\nimage = \""+sandboxtest.Image+"\"\n")
	s.start()
	plugin := s.pluginPID(0)
	ann, bob := newPerson(t, addr, "ann"), newPerson(t, addr, "bob")
	ann.meet()
	ann.send("PRIVMSG flynn :!slow 4000 the answer")
	bob.send("PRIVMSG flynn :!sh touch begun; sleep 100")
	s.eventually("both turns are at work", func() error {
		if files := s.workspaceFiles(); len(files) != 1 {
			return fmt.Errorf("files: %v", files)
		}
		return s.metric(`flynn_messages_total{channel="net",fate="new"} 2`)
	})
	if mine := s.containers(engine); len(mine) != 1 {
		t.Fatalf("containers: %v", mine)
	}

	// It does not wait for the command, which takes longer than it has.
	begin := time.Now()
	s.cmd.Process.Signal(syscall.SIGTERM)
	stuck := time.AfterFunc(patience, func() { s.cmd.Process.Kill() })
	defer stuck.Stop()
	err := s.cmd.Wait()
	t.Logf("the host ended within %v", time.Since(begin))
	if err != nil {
		t.Errorf("the host ended with %v", err)
	}
	if mine := s.containers(engine); len(mine) > 0 {
		t.Errorf("containers are left: %v", mine)
	}
	if alive(plugin) {
		t.Error("the plugin is left")
	}
	if log := s.log.String(); strings.Contains(log, "level=ERROR") {
		t.Error("an orderly end logs errors")
	}

	s.start()
	ann.await("PRIVMSG ann :You said: the answer", patience)
	bob.await("PRIVMSG bob :The host was restarted while this call ran.", patience)
	ann.quiet("PRIVMSG ann", 300*time.Millisecond)
	bob.quiet("PRIVMSG bob", 300*time.Millisecond)
}
