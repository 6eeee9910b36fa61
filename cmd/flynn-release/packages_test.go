package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/sdk/need"
)

// packaged are files of which a package without them would be useless.
var packaged = []string{
	"/usr/bin/flynn", "/usr/lib/flynn/manifest.json", "/usr/lib/flynn/flynn-sandboxd-linux-" + runtime.GOARCH, "/usr/lib/flynn/plugins/telegram/bin/telegram",
	"/usr/lib/flynn/policies/owner-only-shell/policy.wasm", "/usr/lib/systemd/system/flynn.service", "/usr/lib/sysusers.d/flynn.conf",
	"/etc/flynn/flynn.toml", "/usr/share/doc/flynn/copyright", "/usr/share/flynn/apparmor/flynn-sandboxd", "/usr/share/doc/flynn/docs/help/doctor/README.md", "/usr/share/bash-completion/completions/flynn",
}

// debFiles are the files of the .deb, without folders.
func debFiles(t *testing.T, deb string) (names []string) {
	for line := range strings.Lines(must(t, ".", os.Environ(), "", "dpkg-deb", "--contents", deb)) {
		if fields := strings.Fields(line); !strings.HasPrefix(line, "d") {
			names = append(names, strings.TrimPrefix(fields[5], "."))
		}
		if !strings.Contains(line, " root/root ") {
			t.Errorf("a file of the package is not root's: %s", line)
		}
	}
	slices.Sort(names)
	return names
}

// Both packages have the same files, and only the configuration is one that belongs to the operator.
func TestPackages(t *testing.T) {
	dir := made(t)
	for _, tool := range []string{"dpkg-deb", "rpm"} {
		_, err := exec.LookPath(tool)
		need.Part(t, tool, err)
	}
	deb, rpm := file(t, dir, ".deb"), file(t, dir, ".rpm")
	inDeb := debFiles(t, deb)
	for _, name := range packaged {
		if !slices.Contains(inDeb, name) {
			t.Errorf("the .deb has no %s", name)
		}
	}
	query := func(args ...string) []string {
		return strings.Fields(must(t, ".", append(os.Environ(), "HOME="+t.TempDir()), "", "rpm", append(args, "--package", rpm)...))
	}
	inRPM := slices.DeleteFunc(query("--query", "--queryformat", "[%{FILEMODES:perms}%{FILENAMES}\n]"), func(line string) bool { return line[0] == 'd' })
	for i, line := range inRPM {
		inRPM[i] = line[strings.Index(line, "/"):]
	}
	if slices.Sort(inRPM); !slices.Equal(inDeb, inRPM) {
		t.Errorf("the .deb has\n%s\nand the .rpm\n%s", strings.Join(inDeb, "\n"), strings.Join(inRPM, "\n"))
	}
	if own := query("--query", "--configfiles"); !slices.Equal(own, []string{"/etc/flynn/flynn.toml"}) {
		t.Errorf("configuration files of the .rpm: %q", own)
	}
	if version := must(t, ".", os.Environ(), "", "dpkg-deb", "--field", deb, "Version"); strings.TrimSpace(version) != "1.2.3" {
		t.Errorf("the .deb has version %s", version)
	}
}

// mostExposed is the exposure that systemd-analyze may give the unit at most, in tenths; the least is 0, and a unit without limits has 96.
const mostExposed = 31

func TestUnitIsHard(t *testing.T) {
	_, err := exec.LookPath("systemd-analyze")
	need.Part(t, "systemd", err)
	text, err := unit()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "flynn.service")
	write(t, path, text)
	out := must(t, ".", os.Environ(), "", "systemd-analyze", "security", "--offline=yes", "--no-pager", path)
	found := regexp.MustCompile(`Overall exposure level for flynn.service: (\d+)\.(\d)`).FindStringSubmatch(out)
	if found == nil {
		t.Fatalf("systemd-analyze printed\n%s", out)
	}
	t.Logf("exposure %s.%s of 10", found[1], found[2])
	if level, err := strconv.Atoi(found[1] + found[2]); err != nil || level > mostExposed {
		t.Errorf("the unit is weaker than before:\n%s", out)
	}
}

// proof runs as root beside the unit of the package.
const proof = `
set -eu
flynn() { runuser -u flynn -- /usr/bin/flynn --config /etc/flynn/flynn.toml "$@"; }
systemctl start flynn.service || { journalctl --no-pager -u flynn.service; exit 1; }
until flynn status 2>/dev/null | grep -q "^channel  hook .* ready"; do
	systemctl is-active --quiet flynn.service || { journalctl --no-pager -u flynn.service; exit 1; }
	sleep 0.1
done
echo hello | flynn chat
flynn plugin list
flynn policy list
flynn status
echo "!sh id -un; cat /etc/hostname; ls /var/lib /home 2>&1; echo over" | flynn chat
echo "user $(systemctl show --value -p User flynn.service)"
grep -e NoNewPrivs -e CapBnd -e Seccomp: "/proc/$(systemctl show --value -p MainPID flynn.service)/status"
systemctl stop flynn.service
echo "stopped: $(systemctl show --value -p Result flynn.service)"
`

// The unit of the .deb starts under a real systemd with all its limits, and answers with a plugin and a policy.
func TestUnitRuns(t *testing.T) {
	deb := file(t, made(t), ".deb")
	need.Part(t, "systemd", bootable())
	dir := t.TempDir()
	for _, name := range []string{"memory", "etc/systemd/system"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Chmod(dir, 0o755), copyFile(deb, filepath.Join(dir, "flynn.deb"), 0o644)); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "proof.sh"), proof)
	write(t, filepath.Join(dir, "etc", "flynn", "secrets.env"), hookSecret+"\n")
	write(t, filepath.Join(dir, "config"), withParts+withHooks)
	write(t, filepath.Join(dir, "etc", "systemd", "system", "proof.service"), `
[Unit]
DefaultDependencies=no
SuccessAction=exit
FailureAction=exit
[Service]
Type=oneshot
ExecStartPre=/bin/sh -c 'cat /proof/config >>/etc/flynn/flynn.toml'
ExecStartPre=/bin/sed -i 's/^on_unavailable.*/limits = "best-effort"/' /etc/flynn/flynn.toml
ExecStart=/bin/sh /proof/proof.sh
StandardOutput=file:/proof/said
StandardError=inherit
TimeoutStartSec=90s
`)
	out, err := command(t, ".", os.Environ(), "", "sh", "testdata/boot.sh", dir)
	said, _ := os.ReadFile(filepath.Join(dir, "said"))
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, said)
	}
	t.Logf("%s", said)
	answers(t, string(said))
	partsRun(t, func(...string) string { return string(said) })
	for _, want := range []string{"user flynn\n", "NoNewPrivs:\t1\n", "CapBnd:\t0000000000000000\n", "Seccomp:\t2\n", "stopped: success\n",
		"available  native, with one user\n", "\nsandbox\nsandbox\nls: cannot access '/var/lib': No such file or directory\n/home:\nover\n"} {
		if !strings.Contains(string(said), want) {
			t.Errorf("%q is missing in\n%s", want, said)
		}
	}
}

// bootable returns why boot.sh cannot work here.
func bootable() error {
	if os.Geteuid() != 0 {
		return errors.New("only root may boot a systemd")
	}
	for _, name := range []string{"/lib/systemd/systemd", "/usr/bin/dpkg"} {
		if _, err := os.Stat(name); err != nil {
			return err
		}
	}
	return nil
}
