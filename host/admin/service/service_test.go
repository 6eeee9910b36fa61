package service

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/sdk/need"
)

// odd is a spec with paths that both syntaxes must escape.
func odd(t *testing.T) Spec {
	t.Helper()
	dir := filepath.Join(t.TempDir(), `a "b" <c> & $HOME %h 'd'; #e`)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), `a <c> & $HOME %h; #e`)
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return Spec{
		Name: "flynn", User: "daemon", Program: program, Config: filepath.Join(dir, "flynn.toml"), Secrets: filepath.Join(dir, "secrets.env"),
		Folder: dir, Environment: []string{"PATH=/usr/bin:/bin", `ODD=a "b" %c`}, Writable: []string{dir, "/var/lib/flynn"}, Log: "/tmp/a & b.log",
	}
}

func analyze(t *testing.T, args ...string) (string, error) {
	t.Helper()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		need.Part(t, "systemd", err)
	}
	cmd := exec.Command("systemd-analyze", args...)
	cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+t.TempDir())
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// exposure is the most that systemd-analyze security may count against a unit, in tenths: 0 is closed, 100 is open. The comments in
// the units say which limits are left out.
var exposure = map[bool]int{true: 31, false: 73}

func TestSystemdTakesTheUnits(t *testing.T) {
	for _, system := range []bool{true, false} {
		t.Run(fmt.Sprintf("system=%t", system), func(t *testing.T) {
			s := odd(t)
			s.System = system
			text, err := s.Unit()
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(t.TempDir(), "flynn.service")
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			scope := "--system"
			if !system {
				scope = "--user"
			}
			if out, err := analyze(t, "verify", "--man=no", scope, file); err != nil || strings.Contains(out, file) {
				t.Errorf("verify: %v\n%s\n%s", err, out, text)
			}
			if out, err := analyze(t, "security", "--offline=yes", "--no-pager", fmt.Sprintf("--threshold=%d", exposure[system]), file); err != nil {
				t.Errorf("security: %v\n%s", err, out)
			}
		})
	}
}

// What Flynn cannot bear must not come back, however good it looks.
func TestUnitsLeaveOutWhatBreaksFlynn(t *testing.T) {
	for _, system := range []bool{true, false} {
		s := odd(t)
		s.System = system
		text, err := s.Unit()
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(text) {
			key, _, _ := strings.Cut(line, "=")
			if slices.Contains([]string{
				"MemoryDenyWriteExecute", "ProtectControlGroups", "ProcSubset", "PrivateUsers",
			}, key) {
				t.Errorf("system=%t: %s", system, line)
			}
		}
		if strings.Contains(text, "@PROGRAM@") || strings.Contains(text, "@USER@") {
			t.Errorf("a placeholder is left:\n%s", text)
		}
		if has := strings.Contains(text, "\nUser="); has != system {
			t.Errorf("system=%t has a user: %t", system, has)
		}
	}
}

// A package's unit comes from the same template.
func TestUnitOfAPackage(t *testing.T) {
	text, err := Spec{
		Name: "flynn", System: true, User: "flynn", Group: "flynn", Program: "/usr/bin/flynn", Config: "/etc/flynn/flynn.toml",
		Secrets: "/etc/flynn/secrets.env", Environment: []string{"HOME=/var/lib/flynn"}, Folder: "/var/lib/flynn", State: "flynn", IfConfigured: true,
	}.Unit()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"ConditionPathExists=/etc/flynn/flynn.toml", "User=flynn", "Group=flynn", "StateDirectory=flynn", "Environment=HOME=/var/lib/flynn",
		"WorkingDirectory=/var/lib/flynn", "EnvironmentFile=-/etc/flynn/secrets.env", "ProtectHome=yes",
		"ExecStart=/usr/bin/flynn --config /etc/flynn/flynn.toml serve",
	} {
		if !strings.Contains(text, "\n"+want+"\n") {
			t.Errorf("lacks %s:\n%s", want, text)
		}
	}
	if strings.Contains(text, "ReadWritePaths=") || strings.Contains(text, "service install") {
		t.Errorf("an empty setting is written:\n%s", text)
	}
}

func TestUnitRefusesWhatItCannotSay(t *testing.T) {
	for _, path := range []string{"/a\nExecStart=/bin/sh", "/a/*", "/a[b]", `/a\`, "/a "} {
		s := odd(t)
		s.Config = path
		if text, err := s.Unit(); err == nil {
			t.Errorf("%q became a unit:\n%s", path, text)
		}
	}
}

// dict reads the outermost dictionary of a property list: texts of strings, "" of all else.
func dict(t *testing.T, text string) map[string]string {
	t.Helper()
	found, key, depth := map[string]string{}, "", 0
	for d := xml.NewDecoder(strings.NewReader(text)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatalf("%v in:\n%s", err, text)
		}
		switch e := token.(type) {
		case xml.StartElement:
			if depth == 2 && (e.Name.Local == "key" || e.Name.Local == "string") {
				var value string
				if err := d.DecodeElement(&value, &e); err != nil {
					t.Fatal(err)
				}
				if e.Name.Local == "key" {
					key = value
					found[key] = ""
				} else {
					found[key] = value
				}
				continue
			}
			depth++
		case xml.EndElement:
			depth--
		}
	}
}

func TestPlist(t *testing.T) {
	s := odd(t)
	text, err := s.Plist()
	if err != nil {
		t.Fatal(err)
	}
	got := dict(t, text)
	for key, want := range map[string]string{
		"Label": "com.github.flynnhost.flynn", "UserName": s.User, "WorkingDirectory": s.Folder, "StandardErrorPath": s.Log, "StandardOutPath": s.Log,
	} {
		if got[key] != want {
			t.Errorf("%s is %q, want %q", key, got[key], want)
		}
	}
	for _, key := range []string{"ProgramArguments", "EnvironmentVariables", "KeepAlive", "RunAtLoad", "Umask", "ExitTimeOut"} {
		if _, ok := got[key]; !ok {
			t.Errorf("lacks %s", key)
		}
	}
	s.User = ""
	if text, err = s.Plist(); err != nil {
		t.Fatal(err)
	}
	if _, ok := dict(t, text)["UserName"]; ok {
		t.Errorf("a user's own service names a user:\n%s", text)
	}
}

// fake puts a program on the search path that writes its arguments to a file, and then does what body says.
func fake(t *testing.T, dir, name, body string) {
	t.Helper()
	text := "#!/bin/sh\necho \"" + name + " $*\" >>" + dir + "/calls\n" + body + "\n"
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":/usr/bin:/bin")
}

func calls(t *testing.T, dir string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "calls"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "calls")); err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func open(t *testing.T, c Config) *Service {
	t.Helper()
	c.Name, c.Getenv = "flynn", func(name string) string {
		return map[string]string{"PATH": "/usr/bin:/bin", "API_KEY": "sk-typed"}[name]
	}
	s, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSystemd(t *testing.T) {
	dir := t.TempDir()
	fake(t, dir, "systemctl", `case "$*" in
*" start "*) test ! -e `+dir+`/broken || { echo "Job for flynn.service failed." >&2; exit 1; };;
*"show flynn"*) printf 'ActiveState=%s\nResult=exit-code\nUnitFileState=enabled\nMainPID=42\nActiveEnterTimestamp=@1700000000\nStateChangeTimestamp=@1700000001\n' "$(cat `+dir+`/state)";;
esac`)
	fake(t, dir, "journalctl", `echo "flynn.toml:3: no such agent"`)
	s := open(t, Config{OS: "linux", Home: dir})
	if want := filepath.Join(dir, ".config/systemd/user/flynn.service"); s.File() != want {
		t.Fatalf("the file is %s, want %s", s.File(), want)
	}
	if err := s.Start(t.Context()); !errors.Is(err, ErrNotInstalled) {
		t.Errorf("start of what is not installed: %v", err)
	}
	if st, err := s.State(t.Context()); err != nil || st.Installed || st.State != Stopped {
		t.Errorf("%+v, %v", st, err)
	}
	if err := s.Install(t.Context(), "[Unit]\n"); err != nil {
		t.Fatal(err)
	}
	for state, want := range map[string]State{
		"active":     {State: Running, PID: 42, Since: time.Unix(1700000000, 0)},
		"failed":     {State: Failed, Detail: "exit-code", Since: time.Unix(1700000001, 0)},
		"activating": {State: Busy, Detail: "activating", Since: time.Unix(1700000001, 0)},
		"inactive":   {State: Stopped, Since: time.Unix(1700000001, 0)},
	} {
		if err := os.WriteFile(dir+"/state", []byte(state), 0o600); err != nil {
			t.Fatal(err)
		}
		want.Name, want.Installed, want.File, want.AtBoot, want.Log = "flynn", true, s.File(), true, "journalctl --user --unit=flynn --follow"
		if got, err := s.State(t.Context()); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", state, got, err, want)
		}
	}
	calls(t, dir)
	for _, do := range []func(context.Context) error{s.Start, s.Restart, s.Stop} {
		if err := do(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if err := os.WriteFile(dir+"/broken", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "flynn.toml:3: no such agent") {
		t.Errorf("a start that fails: %v", err)
	}
	if err := s.Uninstall(t.Context()); err != nil {
		t.Error(err)
	}
	if text, err := s.Current(); err != nil || text != nil {
		t.Errorf("left behind: %q, %v", text, err)
	}
	want := `systemctl --user start flynn.service
systemctl --user restart flynn.service
systemctl --user stop flynn.service
systemctl --user start flynn.service
journalctl --user --unit=flynn.service --lines=3 --no-pager --output=cat
systemctl --user disable --now flynn.service
systemctl --user daemon-reload
`
	if got := calls(t, dir); got != want {
		t.Errorf("called:\n%s\nwant:\n%s", got, want)
	}
}

func TestLaunchd(t *testing.T) {
	dir := t.TempDir()
	fake(t, dir, "launchctl", `cd `+dir+`
case "$1 $2" in
"print gui/501") ;;
"print "*) test -e loaded || { echo "Could not find service" >&2; exit 113; }
	n=$(cat loaded); test "$n" = 1 && rm loaded; test "$n" = 2 && echo 1 >loaded
	printf 'com.github.flynnhost.flynn = {\n\tstate = running\n\n\tpid = 42\n\tlast exit code = 3\n\tproperties = {\n\t\tstate = odd\n\t}\n}\n';;
"bootstrap "*) echo up >loaded;;
"bootout "*) echo 2 >loaded;; # gone after two more looks
esac`)
	s := open(t, Config{OS: "darwin", Home: dir, UID: 501})
	if want := filepath.Join(dir, "Library/LaunchAgents/com.github.flynnhost.flynn.plist"); s.File() != want {
		t.Fatalf("the file is %s, want %s", s.File(), want)
	}
	if err := s.Install(t.Context(), "<plist/>"); err != nil {
		t.Fatal(err)
	}
	if st, err := s.State(t.Context()); err != nil || st.State != Stopped || !st.Installed {
		t.Errorf("%+v, %v", st, err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st, err := s.State(t.Context()); err != nil || st.State != Running || st.PID != 42 || st.Detail != "" {
		t.Errorf("%+v, %v", st, err)
	}
	calls(t, dir)
	if err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	target := "gui/501/com.github.flynnhost.flynn"
	want := strings.Join([]string{
		"launchctl print " + target, "launchctl bootout " + target, "launchctl print " + target, "launchctl print " + target, "launchctl print " + target,
		"launchctl bootstrap gui/501 " + s.File(), "",
	}, "\n")
	if got := calls(t, dir); got != want {
		t.Errorf("called:\n%s\nwant:\n%s", got, want)
	}
	if err := s.Uninstall(t.Context()); err != nil {
		t.Error(err)
	}
	if st, err := s.State(t.Context()); err != nil || st.Installed {
		t.Errorf("%+v, %v", st, err)
	}
}

func TestNothingRunsServices(t *testing.T) {
	dir := t.TempDir()
	fake(t, dir, "systemctl", `echo "System has not been booted with systemd" >&2; exit 1`)
	for _, system := range []string{"linux", "plan9"} {
		if _, err := Open(t.Context(), Config{OS: system, Name: "flynn", Getenv: os.Getenv}); !errors.Is(err, ErrNoManager) {
			t.Errorf("%s: %v", system, err)
		}
	}
	for _, name := range []string{"", "-", "a/b", "A", "a b", "a.service", strings.Repeat("a", 61)} {
		if ValidName(name) == nil {
			t.Errorf("%q names a service", name)
		}
	}
}

// configured writes a configuration whose model needs a key from the environment.
func configured(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "flynn.toml")
	text := `[agent_configs.main]
[routing]
default_agent = "main"
[sandbox]
enabled = false
mounts = []
[store]
dir = "data"
[models.default]
provider = "anthropic"
model = "m"
api_key_env = "API_KEY"
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPlanSeesWhatTheServiceWillSee(t *testing.T) {
	dir := t.TempDir()
	fake(t, dir, "systemctl", "")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(exe, filepath.Join(dir, "flynn")); err != nil {
		t.Fatal(err)
	}
	path := configured(t)
	s := open(t, Config{OS: "linux", Home: dir})
	_, err = s.Plan(path, "")
	var bad config.Errors
	if !errors.As(err, &bad) || !strings.Contains(err.Error(), "secrets.env") || bad[0].Line != 12 {
		t.Fatalf("the variable of the shell counts for the service: %v", err)
	}
	secrets := filepath.Join(filepath.Dir(path), "secrets.env")
	for _, c := range []struct {
		text string
		mode os.FileMode
		want string
	}{
		{"API_KEY=sk-secret\n", 0o644, "chmod 600"},
		{"# keys\nsk-secret\n", 0o600, "line 2: must have the form NAME=VALUE"},
	} {
		if err := errors.Join(os.WriteFile(secrets, []byte(c.text), c.mode), os.Chmod(secrets, c.mode)); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Plan(path, ""); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "sk-secret") {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
	if err := os.WriteFile(secrets, []byte("\n# keys\nAPI_KEY=\"sk-secret\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	spec, err := s.Plan(path, "")
	if err != nil {
		t.Fatal(err)
	}
	if spec.Program != filepath.Join(dir, "flynn") {
		t.Errorf("the program is %s, not the one of that name on the search path", spec.Program)
	}
	text, err := s.Render(spec)
	if err != nil || strings.Contains(text, "sk-") || !strings.Contains(text, "EnvironmentFile=-"+secrets) {
		t.Errorf("%v, the unit is:\n%s", err, text)
	}
	if want := []string{filepath.Dir(path), filepath.Join(dir, ".cache/flynn"), filepath.Join(filepath.Dir(path), "data")}; !slices.Contains(spec.Writable, want[2]) ||
		!slices.Contains(spec.Writable, want[0]) || !slices.Contains(spec.Writable, want[1]) {
		t.Errorf("it may write to %q, want %q", spec.Writable, want)
	}
}

func TestServiceOfTheMachineIsNotRoot(t *testing.T) {
	dir := t.TempDir()
	fake(t, dir, "systemctl", "")
	s := open(t, Config{OS: "linux", Home: dir, System: true, Folder: dir})
	for as, want := range map[string]string{"root": "does not run as root", "no-such-user": "useradd --system"} {
		if _, err := accountFor("/etc", as); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("as %s: %v", as, err)
		}
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		t.Fatal(err)
	}
	if err := reachable("/tmp/flynn.toml", nobody); err == nil || !strings.Contains(err.Error(), "a /tmp of its own") {
		t.Errorf("in /tmp: %v", err)
	}
	closed := filepath.Join(dir, "closed")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := reachable("/usr/bin/env", nobody); err != nil {
		t.Error(err)
	}
	if s.LogCommand() != "journalctl --unit=flynn --follow" {
		t.Error(s.LogCommand())
	}
}

func TestReadyTellsSystemd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenPacket("unixgram", path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := Ready(func(string) string { return "" }); err != nil {
		t.Error(err)
	}
	if err := Ready(func(string) string { return path }); err != nil {
		t.Fatal(err)
	}
	text := make([]byte, 100)
	n, _, err := conn.ReadFrom(text)
	if err != nil || string(text[:n]) != "READY=1" {
		t.Errorf("got %q, %v", text[:n], err)
	}
	if err := Ready(func(string) string { return path + ".gone" }); err == nil {
		t.Error("a socket that is gone is no error")
	}
}
