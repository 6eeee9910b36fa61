package livetest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/model/modeltest"
)

const demoModels = "[models.default]\nprovider = \"demo\"\n[models.complex]\nprovider = \"demo\"\n"

// pluginPID is the process of the host's only plugin, once it is ready; the one before it is passed over.
func (s *site) pluginPID(before int) int {
	s.t.Helper()
	var pid int
	s.eventually("the plugin is ready", func() error {
		c := s.status().Channels
		if len(c) != 1 || !c[0].OK {
			return fmt.Errorf("channels: %+v", c)
		}
		pids := s.children()
		if len(pids) != 1 || pids[0] == before {
			return fmt.Errorf("children: %v", pids)
		}
		pid = pids[0]
		return nil
	})
	return pid
}

func TestKilledPluginComesBack(t *testing.T) {
	t.Parallel()
	addr := ircServer(t)
	tier, _, letGo := held(t, "default", modeltest.Reply{Text: "for what was asked before"}, modeltest.Reply{Text: "for what was asked after"})
	s := newSite(t, strings.Replace(ircConfig, "ADDRESS", addr, 1)+tier+"[models.complex]\nprovider = \"demo\"\n")
	s.start()
	ann := newPerson(t, addr, "ann")
	ann.meet()
	pid := s.pluginPID(0)
	ann.send("PRIVMSG #flynn :flynn: the first question")
	s.eventually("the message is in the inbox", func() error { return s.metric(`flynn_messages_total{channel="net",fate="new"} 1`) })
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	letGo()
	ann.await("for what was asked before", patience)
	s.pluginPID(pid)
	ann.meet()
	ann.send("PRIVMSG #flynn :flynn: the second question")
	ann.await("for what was asked after", patience)
	ann.quiet("asked before", 500*time.Millisecond)
	s.logged("level=WARN", "plugin failed; it will be started again", "instance=net", "signal: killed")
}

func TestTwoHostsOnOneMachine(t *testing.T) {
	t.Parallel()
	addr := ircServer(t)
	config := strings.Replace(ircConfig, "ADDRESS", addr, 1) + demoModels
	one, two := newSite(t, config), newSite(t, config)
	one.start()
	two.start()
	one.pluginPID(0)
	two.pluginPID(0)
}

// installedConfig runs the plugin irc from the plugins folder.
func installedConfig(addr string) string {
	return strings.NewReplacer("ADDRESS", addr, "[plugins.dev_paths]\nirc = \"%BIN%/irc\"", "[plugins]\ndir = \"%DIR%/plugins\"").Replace(ircConfig) + demoModels
}

func TestInstalledPluginRunsUntilItIsTamperedWith(t *testing.T) {
	t.Parallel()
	addr := ircServer(t)
	s := newSite(t, installedConfig(addr))
	s.mustFlynn("plugin", "install", filepath.Join(bin(t), "irc"))
	s.start()
	ann := newPerson(t, addr, "ann")
	ann.meet()
	ann.send("PRIVMSG #flynn :flynn: hello")
	ann.await("You said: hello", patience)
	program, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", s.pluginPID(0)))
	if err != nil || !strings.HasPrefix(program, filepath.Join(s.dir, "plugins")) {
		t.Fatalf("the plugin runs from %s, %v", program, err)
	}
	if info, errs, err := s.flynn("", "plugin", "info", "irc"); err != nil || !strings.Contains(info, "privileges   on ") {
		t.Errorf("what holds it in: %v\n%s%s", err, info, errs)
	} else {
		t.Log(info)
	}
	if logs, errs, err := s.flynn("", "plugin", "logs", "net"); err != nil || !strings.Contains(logs, "plugin is ready") {
		t.Errorf("its log: %v\n%s%s", err, logs, errs)
	}
	if strings.Contains(s.log.String(), "it is not verified") {
		t.Error("the plugin was not verified")
	}
	s.stop()

	content, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	content[len(content)-1] ^= 1
	for _, step := range []error{os.Chmod(program, 0o755), os.WriteFile(program, content, 0o755)} {
		if step != nil {
			t.Fatal(step)
		}
	}
	s.start()
	s.eventually("the plugin is refused", func() error {
		c := s.status().Channels
		if len(c) != 1 || c[0].State != "quarantined" || !strings.Contains(c[0].Detail, "bin/irc is not the file that was installed") {
			return fmt.Errorf("channels: %+v", c)
		}
		return nil
	})
	if pids := s.children(); len(pids) > 0 {
		t.Errorf("it runs: %v", pids)
	}
	s.logged("level=ERROR", "bin/irc is not the file that was installed", "run flynn plugin remove --force irc, then flynn plugin install DIR")
	if got := s.says("web", "hello"); got.Text != "You said: hello" {
		t.Errorf("the rest of the host: %+v", got)
	}
	if _, errs, err := s.flynn("", "plugin", "verify", "--dir", filepath.Join(s.dir, "plugins")); err == nil || !strings.Contains(errs, "bin/irc") {
		t.Errorf("flynn plugin verify: %v, %s", err, errs)
	}

	if _, errs, err := s.flynn("", "plugin", "remove", "irc"); err == nil || !strings.Contains(errs, "[channels.net] uses it") {
		t.Errorf("flynn plugin remove of one that is in use: %v, %s", err, errs)
	}
	s.mustFlynn("plugin", "remove", "--force", "irc")
	s.mustFlynn("plugin", "install", filepath.Join(bin(t), "irc"))
	ann.meet()
	ann.send("PRIVMSG #flynn :flynn: mended?")
	ann.await("You said: mended?", patience)
}
