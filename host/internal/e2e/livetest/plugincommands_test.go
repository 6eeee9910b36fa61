package livetest

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/internal/hosttest"
)

// following is `flynn plugin logs --follow` at work.
type following struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines chan string // closed at its end
}

func (s *site) follow(t *testing.T, instance string) *following {
	t.Helper()
	f := &following{t: t, lines: make(chan string, 1000)}
	f.cmd = exec.Command(filepath.Join(bin(t), "flynn"), "--config", filepath.Join(s.dir, "flynn.toml"), "plugin", "logs", "--follow", instance)
	out, err := f.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := f.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { // ends with the process
		for in := bufio.NewScanner(out); in.Scan(); {
			f.lines <- in.Text()
		}
		close(f.lines)
	}()
	t.Cleanup(func() { _ = f.cmd.Process.Kill() })
	return f
}

// await waits for a line that holds a text.
func (f *following) await(text string) string {
	f.t.Helper()
	late := time.After(patience)
	for {
		select {
		case line, ok := <-f.lines:
			if !ok {
				f.t.Fatalf("it ended before it said %q", text)
			}
			if strings.Contains(line, text) {
				return line
			}
		case <-late:
			f.t.Fatalf("it never said %q", text)
		}
	}
}

const commandsConfig = `
[agent_configs.helper]
[routing]
default_agent = "helper"
[models.default]
provider = "demo"
[access]
mode = "open"
[gateway]
listen = "127.0.0.1:%PORT%"
[store]
dir = "%DIR%/store"
[plugins]
dir = "%DIR%/plugins"
[channels.lines]
plugin = "lines-channel"
address = "ADDRESS"
[channels.wrong]
plugin = "lines-channel"
address = "nowhere"
`

// line is where a text stands in the site's configuration.
func (s *site) line(text string) string {
	s.t.Helper()
	before, _, ok := strings.Cut(s.read("flynn.toml"), text)
	if !ok {
		s.t.Fatalf("flynn.toml has no %q", text)
	}
	return fmt.Sprintf("%s:%d: ", filepath.Join(s.dir, "flynn.toml"), strings.Count(before, "\n")+1)
}

// TestPluginCommandsOnARunningHost has one instance that runs, and one whose settings its plugin refuses.
func TestPluginCommandsOnARunningHost(t *testing.T) {
	t.Parallel()
	platform, err := hosttest.NewPlatform(hosttest.PlatformConfig{})
	if err != nil {
		t.Fatal(err)
	}
	// Nothing is held in, which is the same on every machine.
	s := newSite(t, strings.NewReplacer("ADDRESS", platform.Address(), "[plugins]\n", "[plugins]\ncontainment = \"off\"\n").Replace(commandsConfig))
	const pkg = "examples/lines-channel"
	buildChanged(t, filepath.Join(s.dir, "built"), pkg, append(versionByArgument("main.go"), change{
		// From 0.3.0 on, an address is not enough.
		"main.go", `	if _, _, err := net.SplitHostPort(`,
		"\tif started.Args[len(started.Args)-1] == \"0.3.0\" {\n\t\treturn channel.FieldErrors{{Path: \"address\", Message: \"want a URL from this version on\"}}\n\t}\n" +
			`	if _, _, err := net.SplitHostPort(`,
	}))
	s.mustFlynn("plugin", "install", s.release(pkg, "0.1.0"))
	s.start()
	instances := func() map[string]gateway.PluginStatus {
		out := map[string]gateway.PluginStatus{}
		for _, p := range run[[]struct{ Instances []gateway.PluginStatus }](s, "plugin", "list") {
			for _, i := range p.Instances {
				out[i.Name] = i
			}
		}
		return out
	}
	s.eventually("one is ready and one in quarantine", func() error {
		if all := instances(); all["lines"].State != "degraded" && all["lines"].State != "ready" || all["wrong"].State != "quarantined" {
			return fmt.Errorf("%+v", all)
		}
		return nil
	})

	t.Run("list", func(t *testing.T) {
		out, _, err := s.flynn("", "plugin", "list")
		if err != nil {
			t.Fatal(err)
		}
		wrong := "must be host:port"
		for _, want := range []string{`(?m)^lines +lines-channel +0\.1\.0 +(ready|degraded) +[0-9]+ +0 +.*files`, `(?m)^wrong +lines-channel +0\.1\.0 +quarantined +- +0 .*` + wrong} {
			if !regexp.MustCompile(want).MatchString(out) {
				t.Errorf("the list does not match %s:\n%s", want, out)
			}
		}
		if where := s.line(`address = "nowhere"`); !strings.Contains(out, where+"channels.wrong.address: "+wrong) {
			t.Errorf("the list does not say %s:\n%s", where, out)
		}
	})
	t.Run("info", func(t *testing.T) {
		out, _, err := s.flynn("", "plugin", "info", "lines-channel")
		if err != nil || !regexp.MustCompile(`(?m)^  files +OFF +.`).MatchString(out) {
			t.Errorf("%v:\n%s", err, out)
		}
	})
	t.Run("follow a log to its end", func(t *testing.T) {
		f := s.follow(t, "lines")
		first := f.await("plugin is ready")
		s.mustFlynn("plugin", "restart", "lines")
		second := f.await("plugin is ready")
		if first == second {
			t.Errorf("the same line twice: %s", first)
		}
		if err := f.cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		for line := range f.lines {
			if strings.Contains(line, "plugin is ready") {
				t.Errorf("said once more: %s", line)
			}
		}
		if err := f.cmd.Wait(); err != nil {
			t.Errorf("interrupted, it ends with %v", err)
		}
	})
	t.Run("a version that refuses a setting", func(t *testing.T) {
		s.eventually("it is back", func() error {
			if i := instances()["lines"]; i.PID == 0 {
				return fmt.Errorf("%+v", i)
			}
			return nil
		})
		before := instances()["lines"].PID
		_, errs, err := s.flynn("", "plugin", "upgrade", "lines-channel", s.release(pkg, "0.3.0"))
		want := s.line(fmt.Sprintf("address = %q", platform.Address())) + "channels.lines.address: want a URL from this version on"
		if err == nil || !strings.Contains(errs, want) || !strings.Contains(errs, "stays at 0.1.0, which keeps running") || !strings.Contains(errs, "correct that, then do the same again") {
			t.Errorf("%v: %s\nwant %s", err, errs, want)
		}
		if i := instances()["lines"]; i.PID != before || i.Version != "0.1.0" {
			t.Errorf("the version before: %+v", i)
		}
	})
	t.Run("the host is gone", func(t *testing.T) {
		f := s.follow(t, "lines")
		f.await("plugin is ready")
		s.stop()
		for range f.lines {
		}
		if err := f.cmd.Wait(); err == nil {
			t.Error("it ends as if it had been told to")
		}
	})
}

// TestSignInByCode has the plugin whatsapp as a device that nobody has linked. Of the library only the way to WhatsApp is replaced.
func TestSignInByCode(t *testing.T) {
	t.Parallel()
	const code = "2@secret-code,key,identity,adv"
	s := newSite(t, commandsConfig[:strings.Index(commandsConfig, "[channels.lines]")]+"[channels.wa]\nplugin = \"whatsapp\"\nmode = \"linked\"\n")
	const pkg = "plugins/whatsapp"
	buildChanged(t, filepath.Join(s.dir, "built"), pkg, []change{
		{"account.go", "return d.client.ConnectContext(life)", "_ = life\n\tgo d.client.DangerousInternals().DispatchEvent(&events.QR{Codes: []string{\"" + code + "\"}})\n\treturn nil"},
	})
	s.mustFlynn("plugin", "install", s.release(pkg, "0.1.0"))
	s.start()
	var login gateway.PluginLogin
	s.eventually("there is a code", func() error {
		login = run[gateway.PluginLogin](s, "plugin", "login", "wa")
		if len(login.Rows) == 0 {
			return errors.New("none")
		}
		return nil
	})
	out, _, err := s.flynn("", "plugin", "login", "wa")
	// Two rows to a line, and a margin of two on each side.
	if lines := strings.Split(strings.TrimRight(out, "\n"), "\n"); err != nil || len(lines) != (len(login.Rows)+5)/2 || !strings.HasPrefix(lines[0], "██") {
		t.Errorf("%v:\n%s", err, out)
	}
	if out, _, err := s.flynn("", "plugin", "list"); err != nil || !strings.Contains(out, "run flynn plugin login wa") {
		t.Errorf("the list does not say what to do: %v\n%s", err, out)
	}
	if log := s.log.String(); strings.Contains(log, "secret-code") {
		t.Error("the code is in the log")
	}
	p := browse(t, s)
	p.until(`document.querySelector("svg.qr[aria-label='Scan this with your device to sign wa in']")`)
	if got, want := p.eval(`document.querySelector("svg.qr").getAttribute("viewBox")`), fmt.Sprintf("0 0 %d %[1]d", len(login.Rows)+8); got != want {
		t.Errorf("the page's code has the box %s, the terminal's %s", got, want)
	}
}
