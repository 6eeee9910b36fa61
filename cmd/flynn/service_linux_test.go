package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	w "github.com/flynnhost/flynn/host/policy/meter/wasmtest"
	"github.com/flynnhost/flynn/sdk/need"
)

// bootText is what the first process of a new machine does before it becomes systemd: it has a /run, /srv, /etc/systemd/system and control
// groups of its own, none of the machine's units, and a unit that runs the test.
const bootText = `set -e
mount -t tmpfs tmpfs /run
mount -t proc proc /proc
umount -l "$TOP"
umount -l /sys/fs/cgroup 2>/dev/null || true
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t tmpfs tmpfs /etc/systemd/system
mount -t tmpfs tmpfs /srv
ip link set lo up 2>/dev/null || true
mkdir -p /run/systemd/system /srv/bin /srv/home /srv/units /etc/systemd/system/flynn.service.d
cp "$1" /srv/bin/flynn
cp "$2/flynn.toml" "$2/guard.wasm" /srv/home
chown -R nobody /srv/home
for unit in basic sysinit shutdown multi-user network-online; do
	printf '[Unit]\nDefaultDependencies=no\n' >/srv/units/$unit.target
done
cat >/srv/units/check.service <<END
[Unit]
SuccessAction=exit-force
FailureAction=exit-force
[Service]
Type=oneshot
ExecStart=/bin/sh -ex $2/check.sh
StandardOutput=file:$2/out
StandardError=file:$2/out
END
printf '[Unit]\nDefaultDependencies=no\nWants=check.service\n' >/srv/units/default.target
printf '[Service]\nStandardOutput=file:/srv/log\nStandardError=file:/srv/log\n' >/etc/systemd/system/flynn.service.d/log.conf
container=flynn-test SYSTEMD_UNIT_PATH=/etc/systemd/system:/srv/units exec "$3" --system --unit=default.target --log-target=null
`

// checkText is what a person does there.
const checkText = `export PATH=/srv/bin:$PATH
cd /srv/home
fails() { if "$@"; then exit 9; fi; }
fails flynn service status
flynn service install
fails flynn service status
flynn service start
flynn service status
test "$(stat -c %U flynn-data)" = nobody
pid=$(systemctl show --property=MainPID --value flynn)
grep -E 'CapBnd:|NoNewPrivs:|Seccomp:' /proc/$pid/status
cat /proc/$pid/cgroup
grep ' r-xp 00000000 00:00 0 *$' /proc/$pid/maps
setpriv --reuid=nobody --clear-groups flynn status | tee status; grep '^policy' status; fails grep '!' status
flynn service install --start
test "$(systemctl show --property=MainPID --value flynn)" != $pid
flynn service stop
fails flynn service status
printf '[agent_configs' >flynn.toml
fails flynn service start
test "$(systemctl show --property=ExecMainStatus --value flynn)" = 3
fails flynn service install
flynn service uninstall
fails test -e /etc/systemd/system/flynn.service
echo all is well
`

// serviceToml is the configuration there. A policy is compiled to machine code; where a limit
// forbids that, it is interpreted, and everything else works.
const serviceToml = `[agent_configs.main]
[routing]
default_agent = "main"
[sandbox]
enabled = false
[store]
dir = "flynn-data"
[[policies]]
name = "guard"
path = "guard.wasm"
kinds = ["tool"]
`

// TestServiceUnderSystemd has a real systemd, the first process of a PID namespace, run flynn with all limits of its unit.
func TestServiceUnderSystemd(t *testing.T) {
	if os.Geteuid() != 0 {
		need.Part(t, "namespace", errors.New("a machine of its own needs root"))
	}
	init, err := exec.LookPath("/lib/systemd/systemd")
	need.Part(t, "systemd", err)
	top, group := ownGroup(t)
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{
		"boot.sh": bootText, "check.sh": checkText, "flynn.toml": serviceToml, "guard.wasm": string(w.Policy(1).Hook("flynn_tool", "", w.I64(0))),
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", `echo $$ >"$0/cgroup.procs" && exec "$@"`, group,
		"unshare", "--kill-child", "--pid", "--mount", "--uts", "--ipc", "--net", "--cgroup", "--fork", "sh", filepath.Join(dir, "boot.sh"), exe, dir, init)
	cmd.Env = append(os.Environ(), "TOP="+top)
	said, err := cmd.CombinedOutput()
	out, _ := os.ReadFile(filepath.Join(dir, "out"))
	if err != nil || !strings.Contains(string(out), "\nall is well\n") {
		t.Fatalf("%v\n%s\n%s", err, said, out)
	}
	for _, want := range []string{"CapBnd:\t0000000000000000\n", "NoNewPrivs:\t1\n", "Seccomp:\t2\n", "/flynn.service\n"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%q is missing:\n%s", want, out)
		}
	}
}

// ownGroup makes a control group, which a cgroup namespace takes for the root of all, and returns where the groups are mounted, too.
func ownGroup(t *testing.T) (top, group string) {
	t.Helper()
	for _, top = range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		var fs unix.Statfs_t
		if unix.Statfs(top, &fs) != nil || fs.Type != unix.CGROUP2_SUPER_MAGIC {
			continue
		}
		group, err := os.MkdirTemp(top, "flynn-service-test-")
		if err != nil {
			need.Part(t, "namespace", err)
		}
		t.Cleanup(func() { removeGroups(t, group) })
		return top, group
	}
	need.Part(t, "namespace", errors.New("no control groups of version 2 are mounted"))
	return "", ""
}

// removeGroups removes a control group and those inside it, whose processes have ended.
func removeGroups(t *testing.T, group string) {
	inside, err := os.ReadDir(group)
	if err != nil {
		t.Error(err)
	}
	for _, e := range inside {
		if e.IsDir() {
			removeGroups(t, filepath.Join(group, e.Name()))
		}
	}
	if err := os.Remove(group); err != nil {
		t.Error(err)
	}
}
