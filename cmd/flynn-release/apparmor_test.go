package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/sdk/need"
)

// TestProfileFollowsThePackage runs the scripts of the package with an AppArmor that knows the profile, one that does not, and none.
func TestProfileFollowsThePackage(t *testing.T) {
	const loads, removes = "--replace", "--remove"
	for _, c := range []struct {
		name, parser string
		installed    bool
		asked        []string
	}{
		{"it knows the profile", "exit 0", true, []string{loads, removes}},
		{"it is older", `[ "$1" != --skip-kernel-load ]`, false, nil},
		{"the kernel has none", `[ "$1" = --skip-kernel-load ]`, true, []string{loads, removes}},
		{"there is none", "", false, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			bin, profile, log := filepath.Join(root, "bin"), filepath.Join(root, "etc/apparmor.d/flynn-sandboxd"), filepath.Join(root, "log")
			text, err := files.ReadFile("files/apparmor")
			if err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(root, "usr/share/flynn/apparmor/flynn-sandboxd"), string(text))
			for _, harmless := range []string{"systemd-sysusers", "chown", "chmod", "systemctl"} {
				program(t, filepath.Join(bin, harmless), "exit 0")
			}
			if c.parser != "" {
				program(t, filepath.Join(bin, "apparmor_parser"), `echo "$1" >>"`+log+`"`+"\n"+c.parser)
			}
			run := func(script string, args ...string) {
				t.Helper()
				text, err := files.ReadFile("files/" + script)
				if err != nil {
					t.Fatal(err)
				}
				here := strings.NewReplacer("/etc/", root+"/etc/", "/usr/share/", root+"/usr/share/", "/run/systemd", root+"/run/systemd").Replace(string(text))
				cmd := exec.Command("/bin/sh", append([]string{"-c", here, script}, args...)...)
				cmd.Env = []string{"PATH=" + bin + ":/usr/bin:/bin"}
				if said, err := cmd.CombinedOutput(); err != nil {
					t.Fatalf("%s %s: %v\n%s", script, args, err, said)
				}
			}
			run("postinstall.sh", "configure")
			if _, err := os.Stat(profile); (err == nil) != c.installed {
				t.Errorf("the profile is installed: %v", err)
			}
			if c.installed {
				write(t, profile, "the operator's")
				run("postremove.sh", "upgrade", "1.2.4")
				run("postinstall.sh", "configure", "1.2.3")
				if text, err := os.ReadFile(profile); err != nil || string(text) != "the operator's" {
					t.Errorf("an operator's profile became %q, %v", text, err)
				}
			}
			run("postremove.sh", "remove")
			if _, err := os.Stat(profile); err == nil {
				t.Error("the profile is left behind")
			}
			asked, _ := os.ReadFile(log)
			for _, what := range c.asked {
				if !strings.Contains(string(asked), what+"\n") {
					t.Errorf("AppArmor was asked for\n%s, not %s", asked, what)
				}
			}
		})
	}
}

// program writes a script that can be executed.
func program(t *testing.T, path, script string) {
	t.Helper()
	write(t, path, "#!/bin/sh\n"+script+"\n")
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
}

// TestProfileParses needs AppArmor of version 4 or newer, as Ubuntu 24.04 and Debian 13 have it.
func TestProfileParses(t *testing.T) {
	said, err := exec.Command("apparmor_parser", "--version").Output()
	need.Part(t, "apparmor", err)
	major := 0
	if _, err := fmt.Sscanf(string(said), "AppArmor parser version %d.", &major); err != nil || major < 4 {
		need.Part(t, "apparmor", fmt.Errorf("it is not version 4: %.60s", said))
	}
	parse := func(profile string) ([]byte, error) {
		return exec.Command("apparmor_parser", "--skip-kernel-load", "--skip-cache", "--quiet", profile).CombinedOutput()
	}
	if said, err := parse("files/apparmor"); err != nil {
		t.Errorf("%v: %s", err, said)
	}
	text, err := files.ReadFile("files/apparmor")
	if err != nil {
		t.Fatal(err)
	}
	wrong := filepath.Join(t.TempDir(), "profile")
	write(t, wrong, strings.Replace(string(text), "userns,", "usrns,", 1))
	if said, err := parse(wrong); err == nil {
		t.Errorf("a profile with an unknown rule was taken: %s", said)
	}
}
