package native_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/selftest"
	"github.com/flynnhost/flynn/host/sandbox/spec"
	"github.com/flynnhost/flynn/sdk/need"
)

// compared are the rows of the threat table whose attacks are commands that need nothing of Flynn's supervisor. The others are about limits,
// the kill ladder, the file API, the proxy and sessions, which a launcher of single commands does not have; bombs could harm the machine.
var compared = []string{"/proc, /sys", "engine socket", "namespaces", "setuid", "kernel keyring", "env leak"}

// comparedProbes are attacks of other rows.
var comparedProbes = []string{"network/raw-socket", "network/packet-socket"}

// launcher is another sandbox, which starts one command.
type launcher struct {
	name, program string
	// args precede the shell's; files are written first, by their names below the home folder. WORK and HOME stand for folders.
	args             []string
	files            map[string]string
	listed           []string // args that let programs reach *.flynn.example; nil if it has no such list
	work, home, temp string
}

// launchers are the others, with the strictest settings that their manuals recommend for a command without a network.
var launchers = []launcher{
	{name: "bubblewrap", program: "bwrap", args: []string{
		"--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv", "--setenv", "PATH", "/usr/bin:/bin",
		"--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64",
		"--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--bind", "WORK", "/workspace", "--chdir", "/workspace", "--",
	}},
	{name: "sandbox-runtime", program: "srt", args: []string{"--settings", "HOME/srt.json", "-c"}, listed: []string{"--settings", "HOME/listed.json", "-c"},
		files: map[string]string{"srt.json": fmt.Sprintf(srtSettings, ""), "listed.json": fmt.Sprintf(srtSettings, `"*.flynn.example"`)}},
	{name: "Codex", program: "codex", args: []string{"sandbox", "-c", `sandbox_mode="workspace-write"`, "--"},
		listed: []string{
			"sandbox", "-c", `sandbox_mode="workspace-write"`, "-c", "sandbox_workspace_write.network_access=true", "-c", "features.network_proxy.enabled=true",
			"-c", `features.network_proxy.domains={ "*.flynn.example" = "allow" }`, "--",
		},
		files: map[string]string{".codex/config.toml": ""}},
}

const srtSettings = `{"network":{"allowedDomains":[%s],"deniedDomains":[]},"filesystem":{"denyRead":["HOME"],"allowWrite":["WORK"],"denyWrite":[]}}`

// Exec implements selftest.Target.
func (l launcher) Exec(ctx context.Context, c machine.Command) (machine.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, max(c.Timeout, 20*time.Second))
	defer cancel()
	args := []string{}
	for _, a := range l.args {
		args = append(args, l.fill(a))
	}
	if l.program == "srt" { // it takes a line of a shell
		args = append(args, c.Script)
	} else {
		args = append(args, "/bin/bash", "-c", c.Script)
	}
	cmd := exec.CommandContext(ctx, l.program, args...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = l.work, append(os.Environ(), "HOME="+l.home, "TMPDIR="+l.temp), time.Second
	var out, err bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &err
	failed := cmd.Run()
	if exit := (*exec.ExitError)(nil); failed != nil && !errors.As(failed, &exit) {
		return machine.Result{}, failed
	}
	return machine.Result{Stdout: out.Bytes(), Stderr: err.Bytes(), ExitCode: cmd.ProcessState.ExitCode()}, nil
}

// withList is the launcher with its list; nil if it has none.
func (l launcher) withList() selftest.Target {
	if l.listed == nil {
		return nil
	}
	l.args = l.listed
	return l
}

func (l launcher) fill(text string) string {
	return strings.NewReplacer("WORK", l.work, "HOME", l.home).Replace(text)
}

// ReadFile implements selftest.Target.
func (l launcher) ReadFile(_ context.Context, path string, _, _ int64) ([]byte, int64, error) {
	data, err := os.ReadFile(filepath.Join(l.work, path))
	return data, int64(len(data)), err
}

// WriteFile implements selftest.Target.
func (l launcher) WriteFile(_ context.Context, path string, data []byte, perm fs.FileMode) error {
	return os.WriteFile(filepath.Join(l.work, path), data, perm)
}

// TestComparison tries the same attacks in this driver's sandboxes and in those of others that are installed, as a user without rights, and
// prints a table for docs/how-to/sandbox-without-an-engine.md. It fails only for this driver.
func TestComparison(t *testing.T) {
	if !need.Required("compare") {
		t.Skip("FLYNN_TEST_REQUIRE=compare compares with other sandboxes")
	}
	if !asUser(t, hostNetwork...) {
		return
	}
	t.Setenv("FLYNN_COMPARED_TOKEN", "a secret of the environment")
	outside := t.TempDir()
	for name, text := range map[string]string{"secret": "flynn self-test secret", "decoy": ""} {
		if err := os.WriteFile(filepath.Join(outside, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	host := openHost(t, filepath.Join(outside, "engine"))
	var c selftest.Config
	if err := selftest.FindPrograms(&c, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	probe, err := os.ReadFile(c.Program)
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "sandbox\theld\tweak\tfailed\tbehind an allowlist: held\tfailed\tfirst command\tfurther command")
	row := func(name string, target, listed selftest.Target, first, again time.Duration) (failed []string) {
		try := func(target selftest.Target, probes []selftest.Probe) (held, weak int) {
			if err := target.WriteFile(t.Context(), "flynn-probe", probe, 0o755); err != nil {
				t.Fatal(err)
			}
			for _, p := range probes {
				f, err := p.Run(t.Context(), &selftest.Subject{Target: target, Outside: outside, Spec: small})
				switch {
				case err != nil || f.Status == selftest.Fail:
					failed = append(failed, strings.TrimSuffix(fmt.Sprintf("%s: %s %v", p.Name, f.Detail, err), " <nil>"))
				case f.Status == selftest.Weak:
					weak++
				default:
					held++
				}
			}
			return held, weak
		}
		held, weak := try(target, attacks(outside, host))
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t", name, held, weak, len(failed))
		if works(t, name, listed) {
			before := len(failed)
			held, _ := try(listed, listAttacks(host))
			fmt.Fprintf(w, "%d\t%d\t", held, len(failed)-before)
		} else {
			fmt.Fprint(w, "-\t-\t")
		}
		fmt.Fprintf(w, "%.1f ms\t%.1f ms\n", ms(first), ms(again))
		return failed
	}
	host.mustBeOpen(t)
	m := manager(t)
	first, again := timed(t, func(i int) (selftest.Target, error) {
		return m.Get(t.Context(), message.WorkspaceKey(fmt.Sprintf("web:compared-%d", i)), "default", small)
	})
	get := func(key message.WorkspaceKey, of spec.Spec) *sandbox.Session {
		s, err := m.Get(t.Context(), key, "default", of)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	listed := small
	listed.Network, listed.Allowlist = "allowlist", []string{"*.flynn.example"}
	if failed := row("Flynn, native", get("web:compared", small), get("web:listed", listed), first, again); len(failed) > 0 {
		t.Errorf("attacks succeeded: %q", failed)
	}
	for _, l := range launchers {
		if _, err := exec.LookPath(l.program); err != nil {
			t.Logf("%s is not installed: %v", l.name, err)
			continue
		}
		l.work, l.home, l.temp = t.TempDir(), t.TempDir(), t.TempDir()
		for name, text := range l.files {
			path := filepath.Join(l.home, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(l.fill(text)), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		if r, err := l.Exec(t.Context(), machine.Command{Script: "echo works"}); err != nil || !strings.Contains(string(r.Stdout), "works") {
			t.Logf("%s does not work here: %q, %v, %.500s", l.name, r.Stdout, err, r.Stderr)
			continue
		}
		first, again := timed(t, func(int) (selftest.Target, error) { return l, nil })
		t.Logf("%s: %q", l.name, row(l.name, l, l.withList(), first, again))
	}
	w.Flush()
	t.Logf("%s, %s\n%s", time.Now().UTC().Format(time.DateOnly), versions(), table.String())
}

// attacks are those that are compared, and two whose like in the suite need a session of Flynn.
func attacks(outside string, h host) []selftest.Probe {
	all := slices.DeleteFunc(selftest.Probes(), func(p selftest.Probe) bool {
		return !slices.Contains(compared, p.Row) && !slices.Contains(comparedProbes, p.Name) || p.Name == "leak/environment" || p.Name == "leak/next-command"
	})
	network, _ := os.Readlink("/proc/self/ns/net")
	all = append(all,
		own("leak/environment", "env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'", "a secret of the environment"),
		own("files/another-folder", "cat "+outside+"/secret", "flynn self-test secret"),
		own("network/of-the-host", "readlink /proc/self/ns/net", network),
		own("network/netlink", "/usr/sbin/ip link add flynn0 type dummy && echo an interface was added; /usr/sbin/ip address add 10.9.9.9/32 dev lo && echo an interface was added",
			"an interface was added"),
	)
	return append(all, hostAttacks(h)...)
}

// own is an attack by a script, which fails if it prints breach.
func own(name, script, breach string) selftest.Probe {
	return selftest.Probe{Name: name, Run: func(ctx context.Context, s *selftest.Subject) (selftest.Finding, error) {
		r, err := s.Target.Exec(ctx, machine.Command{Script: script})
		if err == nil && strings.Contains(string(r.Stdout), breach) {
			return selftest.Finding{Status: selftest.Fail, Detail: "it shows " + breach}, nil
		}
		return selftest.Finding{Status: selftest.Pass}, err
	}}
}

// timed returns the medians of a first command and of a further one.
func timed(t *testing.T, open func(i int) (selftest.Target, error)) (first, again time.Duration) {
	t.Helper()
	const rounds = 15
	var all [2][]float64
	for i := range rounds {
		began := time.Now()
		target, err := open(i)
		for n := range all {
			if err == nil {
				_, err = target.Exec(t.Context(), machine.Command{Script: "true"})
			}
			if err != nil {
				t.Fatal(err)
			}
			all[n] = append(all[n], float64(time.Since(began)))
			began = time.Now()
		}
	}
	return time.Duration(median(all[0])), time.Duration(median(all[1]))
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// versions are those of the programs that are compared.
func versions() string {
	var all []string
	for _, l := range launchers {
		if out, err := exec.Command(l.program, "--version").Output(); err == nil {
			all = append(all, strings.TrimSpace(l.name+" "+string(out)))
		}
	}
	return strings.Join(all, ", ")
}
