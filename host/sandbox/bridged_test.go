package sandbox_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/bridge"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
	"github.com/flynnhost/flynn/host/sandbox/spec"
	"github.com/flynnhost/flynn/host/sandbox/workspace"
)

const bridgeSecret = "bridge-secret-5d1c9e"

// calls collects what a Manager reports of bridges.
type calls struct {
	sandbox.NoEgress
	mu    sync.Mutex
	seen  []bridge.Decision
	ended []bridge.Decision
}

func (c *calls) Bridged(_ message.WorkspaceKey, d bridge.Decision) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = append(c.seen, d)
}

func (c *calls) BridgeEnded(_ message.WorkspaceKey, d bridge.Decision) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = append(c.ended, d)
}

// last is the latest decision.
func (c *calls) last() bridge.Decision {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.seen) == 0 {
		return bridge.Decision{}
	}
	return c.seen[len(c.seen)-1]
}

// over is whether every call that was allowed has ended.
func (c *calls) over() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	open := len(c.ended)
	for _, d := range c.seen {
		if d.Allowed {
			open--
		}
	}
	return open == 0
}

// bridged returns a manager whose sandboxes have a few bridges.
func bridged(t *testing.T) (*sandbox.Manager, sandbox.Config, sandboxtest.Host, *calls) {
	t.Helper()
	var noted calls
	h := sandboxtest.Engine(t)
	m, config := h.Manager(t, func(c *sandbox.Config) {
		second := c.Spec
		second.WorkspaceDir = "/elsewhere"
		any := []bridge.Form{{Args: []bridge.Arg{{Rest: true}}}}
		sh := func(script string) []bridge.Form {
			return []bridge.Form{{Args: []bridge.Arg{{Pattern: script}}, Flags: map[string]string{"-c": ""}}}
		}
		c.Spec.Bridges = []spec.Bridge{
			{Name: "show", Program: "/bin/cat", In: &second, Workspace: "ro", Forms: []bridge.Form{
				{Args: []bridge.Arg{{Path: true}, {Path: true, Rest: true}}, Flags: map[string]string{"-n": ""}},
			}},
			{Name: "where", Program: "/bin/pwd", In: &second, Workspace: "rw", Forms: []bridge.Form{{}}},
			{Name: "write", Program: "/bin/touch", In: &second, Workspace: "rw", Forms: []bridge.Form{{Args: []bridge.Arg{{Path: true}}}}},
			{Name: "vary", Program: "/bin/touch", In: &second, Workspace: "ro", Forms: []bridge.Form{{Args: []bridge.Arg{{Path: true}}}}},
			{Name: "sum", Program: "/bin/md5sum", In: &second, Stdin: true, Forms: []bridge.Form{{}}},
			{Name: "echoed", Program: "/bin/cat", In: &second, Stdin: true, MaxOutput: 4 << 20, Forms: []bridge.Form{{}}},
			{Name: "secretive", Program: "/bin/env", In: &second, Env: map[string]string{"PLAIN": "yes"},
				Secrets: map[string]string{"TOKEN": "file token"}, Forms: []bridge.Form{{}}},
			{Name: "said", Program: "/bin/echo", In: &second, Forms: any},
			{Name: "slow", Program: "/bin/sleep", In: &second, Forms: []bridge.Form{{Args: []bridge.Arg{{Pattern: "[0-9]+"}}}}},
			{Name: "short", Program: "/bin/sleep", In: &second, Timeout: time.Second, Forms: []bridge.Form{{Args: []bridge.Arg{{Pattern: "[0-9]+"}}}}},
			{Name: "fails", Program: "/bin/sh", In: &second, Forms: sh("exit [0-9]+|kill -9 .+")},
			{Name: "floods", Program: "/bin/sh", In: &second, Timeout: 5 * time.Minute, Forms: sh("yes \\| head -c 50000000")},
			{Name: "list", Program: "/bin/ps", In: &second, Forms: []bridge.Form{{}}},
			{Name: "halved", Program: "/bin/sh", In: &second, Secrets: map[string]string{"TOKEN": "file token"}, MaxOutput: 10, Forms: sh("printf \\$TOKEN")},
			{Name: "home", Program: "/bin/sh", In: &second, Workspace: "ro", Forms: sh("echo \\$HOME")},
			{Name: "own-home", Program: "/bin/sh", In: &second, Forms: sh("echo \\$HOME")},
			{Name: "given-home", Program: "/bin/sh", In: &second, Workspace: "rw", Env: map[string]string{"HOME": "/elsewhere/x"}, Forms: sh("echo \\$HOME")},
		}
		c.Secret = func(name string) string { return map[string]string{"file token": bridgeSecret}[name] }
		c.Egress = &noted
	})
	return m, config, h, &noted
}

func TestBridges(t *testing.T) {
	t.Parallel()
	m, config, h, noted := bridged(t)
	s := get(t, m, "s", config.Spec)
	setup := `mkdir -p sub/.git; echo file >sub/a; ln -s /etc/passwd link; ln -s /proc/self/environ env; ln -s sub inner; ln -s ../.. sub/up
printf '[core]\n\tfsmonitor = touch /workspace/owned\n\tpager = touch /workspace/owned\n' >sub/.git/config`
	run(t, s, machine.Command{Script: setup})
	for _, c := range []struct {
		name, script, stdout, stderr string
		code                         int
	}{
		{"allowed", "show sub/a", "file\n", "", 0},
		{"absolute path", "show /workspace/sub/a", "file\n", "", 0},
		{"working directory", "cd sub; show a; where", "file\n/elsewhere/sub\n", "", 0},
		{"link within", "show inner/a", "file\n", "", 0},
		{"flag", "show -n sub/a", "     1\tfile\n", "", 0},
		{"writes", "write sub/new && ls sub", "a\nnew\nup\n", "", 0},
		{"must not write", "vary sub/other", "", "Read-only file system", 1},
		{"exit code", "fails -c 'exit 7'", "", "", 7},
		{"signal", "fails -c 'kill -9 $$'", "", "ended by SIGKILL", 137},
		{"time-out", "short 60", "", "ended after 1s", 124},
		{"arguments are no script", `said '$(id)' '; id' '*' "a'b"`, "$(id) ; id * a'b\n", "", 0},
		{"clean environment", `SOME=thing LD_PRELOAD=/workspace/x secretive | grep -c 'SOME\|PRELOAD'`, "0\n", "", 1},
		{"plain variable", "secretive | grep PLAIN", "PLAIN=yes\n", "", 0},
		{"secret is there, and does not come back", "secretive | grep TOKEN", "TOKEN=********************\n", "", 0},

		{"configuration is not the caller's", "home -c 'echo $HOME'; own-home -c 'echo $HOME'; given-home -c 'echo $HOME'", "/tmp\n/elsewhere\n/elsewhere/x\n", "", 0},
		{"secret that is cut in the middle", "halved -c 'printf $TOKEN'", "**********", "10 bytes of output were dropped", 0},

		{"file by a URL", "said url=file:///etc/passwd", "", `may name a file by "file:"`, 1},
		{"flag not listed", "show -c sub/a", "", `flynn: show: refused for security: argument 1 ("-c"): is a flag that is not listed`, 1},
		{"flag with value", "show --upload-pack=id sub/a", "", `argument 1 ("--upload-pack=id"): is a flag that is not listed`, 1},
		{"file by at sign", "said @/etc/passwd", "", `may name a file by "@"`, 1},
		{"another line", "said \"$(printf 'a\\nb')\"", "", "has a line break", 1},
		{"path outside", "show ../etc/passwd", "", "is not a path in the workspace", 1},
		{"absolute path outside", "show /etc/passwd", "", "is not a path in the workspace", 1},
		{"path there", "show /elsewhere/sub/a", "", "is not a path in the workspace", 1},
		{"link out", "show link", "", "leads out of the workspace", 1},
		{"link to the environment", "show env", "", "leads out of the workspace", 1},
		{"link upwards", "show sub/up/etc/passwd", "", "leads out of the workspace", 1},
		{"working directory outside", "cd /tmp; show /workspace/sub/a", "", "the working directory", 1},
		{"no such command", "ln -s /.flynn-sandboxd nothing; ./nothing", "", "there is no such command", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := run(t, s, machine.Command{Script: c.script, Timeout: 30 * time.Second})
			if string(r.Stdout) != c.stdout || !strings.Contains(string(r.Stderr), c.stderr) || r.ExitCode != c.code {
				t.Errorf("exit code %d, stdout %q, stderr %q, want %d, %q, %q", r.ExitCode, r.Stdout, r.Stderr, c.code, c.stdout, c.stderr)
			}
			if refused := strings.Contains(string(r.Stderr), "refused for security"); refused == noted.last().Allowed {
				t.Errorf("%s; what is noted: %+v", r.Stderr, noted.last())
			}
		})
	}
	t.Run("bytes as they are", func(t *testing.T) {
		all := make([]byte, 1<<20)
		for i := range all {
			all[i] = byte(i * 7 >> 3)
		}
		sum := sha256.Sum256(all)
		r := run(t, s, machine.Command{Script: "echoed | sha256sum; head -c 0 /dev/null | sum", Stdin: all})
		if !strings.HasPrefix(string(r.Stdout), hex.EncodeToString(sum[:])) {
			t.Errorf("got %q %q", r.Stdout, r.Stderr)
		}
	})
	t.Run("programs of the workspace do not stand before", func(t *testing.T) {
		r := run(t, s, machine.Command{Script: `mkdir -p bin; printf '#!/bin/sh\necho mine\n' >bin/cat; chmod +x bin/cat; PATH=/workspace/bin:$PATH /.flynn/bin/show sub/a; echo x 2>/dev/null >/.flynn/bin/show || echo kept`})
		if string(r.Stdout) != "file\nkept\n" {
			t.Errorf("got %q %q", r.Stdout, r.Stderr)
		}
	})
	t.Run("nothing ran on the host or by the workspace's word", func(t *testing.T) {
		if _, err := os.Stat(filepath.Join(workspace.Path(config.WorkspaceRoot, "s"), "owned")); err == nil {
			t.Error("a program obeyed the workspace")
		}
	})
	t.Run("the secret is nowhere in the first container", func(t *testing.T) {
		run(t, s, machine.Command{Script: "secretive >seen"})
		r := run(t, s, machine.Command{Timeout: time.Minute, Script: `env | grep -c bridge-secret-[5]; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | grep -c bridge-secret-[5]
grep -rl bridge-secret-[5] /workspace /tmp /etc /.flynn /dev/shm 2>/dev/null | wc -l`})
		if got := strings.Join(strings.Fields(string(r.Stdout)), ""); got != "000" {
			t.Errorf("found: %q", r.Stdout)
		}
		owned, err := h.Driver.List(t.Context(), config.Instance)
		if err != nil || len(owned) < 2 {
			t.Fatalf("%d containers (%v)", len(owned), err)
		}
		for _, o := range owned {
			inspected, err := h.API.ContainerInspect(t.Context(), o.ID)
			if told := fmt.Sprintf("%+v %+v", inspected.Config, inspected.HostConfig); err != nil || strings.Contains(told, bridgeSecret) {
				t.Errorf("the engine knows it: %s (%v)", told, err)
			}
		}
	})
	eventually(t, "each call that was allowed is told to be over", noted.over)
	noted.mu.Lock()
	defer noted.mu.Unlock()
	allowed := 0
	for _, d := range noted.seen {
		if d.Allowed {
			allowed++
		} else if d.Reason == "" || d.Name == "" {
			t.Errorf("decision %+v", d)
		}
	}
	if allowed == 0 || allowed == len(noted.seen) {
		t.Errorf("%d decisions, %d allowed", len(noted.seen), allowed)
	}
}

// When the program inside goes, so does the command, with everything that it has started.
func TestBridgeEndsWithItsCaller(t *testing.T) {
	m, config, _, _ := bridged(t)
	s := get(t, m, "s", config.Spec)
	run(t, s, machine.Command{Script: "slow 0"}) // the second container is there
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan machine.Result, 1)
	go func() {
		r, _ := s.Exec(ctx, machine.Command{Script: "slow 1234", Timeout: 5 * time.Minute})
		done <- r
	}()
	sleeping(t, m, config, 1)
	cancel()
	if r := <-done; !r.Canceled {
		t.Errorf("got %+v", r)
	}
	sleeping(t, m, config, 0)
}

// A flood is cut at the source, and two calls go side by side.
func TestBridgeFloodsAndCompany(t *testing.T) {
	t.Parallel()
	m, config, _, _ := bridged(t)
	s := get(t, m, "s", config.Spec)
	r := run(t, s, machine.Command{Script: "floods -c 'yes | head -c 50000000' | wc -c", Timeout: 5 * time.Minute})
	if strings.TrimSpace(string(r.Stdout)) != fmt.Sprint(machine.DefaultMaxOutput) || !strings.Contains(string(r.Stderr), "bytes of output were dropped") {
		t.Errorf("got %q %q", r.Stdout, r.Stderr)
	}
	r = run(t, s, machine.Command{Script: "slow 1 & slow 1 & slow 1 & wait; echo done", Timeout: 60 * time.Second})
	if string(r.Stdout) != "done\n" {
		t.Errorf("three at once: %q %q", r.Stdout, r.Stderr)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = s.Exec(ctx, machine.Command{Script: "slow 1234 & slow 1234 & wait", Timeout: 5 * time.Minute})
	}()
	sleeping(t, m, config, 2)
	cancel()
	<-done
}

// sleeping waits until so many processes sleep in the second container.
func sleeping(t *testing.T, m *sandbox.Manager, config sandbox.Config, want int) {
	t.Helper()
	other, err := m.Bridged(t.Context(), "s", config.Spec.Bridges[8])
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; {
		r := run(t, other, machine.Command{Script: `grep -l '^sleep' /proc/[0-9]*/comm 2>/dev/null | wc -l`})
		if strings.TrimSpace(string(r.Stdout)) == fmt.Sprint(want) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%q processes, want %d", r.Stdout, want)
		}
	}
}

func TestBridgeSpec(t *testing.T) {
	m, config := sandboxtest.Engine(t).Manager(t)
	good := spec.Bridge{Name: "a", Program: "/bin/true", In: &config.Spec, Forms: []bridge.Form{{}}}
	for _, c := range []struct {
		name   string
		adjust func(*spec.Bridge, *spec.Spec)
		want   string
	}{
		{"name with a slash", func(b *spec.Bridge, _ *spec.Spec) { b.Name = "../x" }, "not a command name"},
		{"relative program", func(b *spec.Bridge, _ *spec.Spec) { b.Program = "true" }, "absolute"},
		{"no sandbox", func(b *spec.Bridge, _ *spec.Spec) { b.In = nil }, "no sandbox"},
		{"pattern", func(b *spec.Bridge, _ *spec.Spec) {
			b.Forms = []bridge.Form{{Args: []bridge.Arg{{Pattern: "("}}}}
		}, "pattern"},
		{"secrets beside the workspace", func(b *spec.Bridge, _ *spec.Spec) {
			b.Workspace, b.Secrets = "ro", map[string]string{"A": "env A"}
		}, "must not see the workspace"},
		{"paths without a workspace", func(b *spec.Bridge, _ *spec.Spec) { b.Forms = []bridge.Form{{Args: []bridge.Arg{{Path: true}}}} }, "need a workspace"},
		{"host network", func(_ *spec.Bridge, s *spec.Spec) { s.Network = "host" }, "network namespace"},
	} {
		b, wanted := good, config.Spec
		c.adjust(&b, &wanted)
		wanted.Bridges = []spec.Bridge{b}
		if _, err := m.Get(t.Context(), "s", "", wanted); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
