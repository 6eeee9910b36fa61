package sandbox_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"

	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
	"github.com/flynnhost/flynn/host/sandbox/spec"
)

// imageAfter commits the test image as a script leaves it, with other settings, under a name of the test's own.
func imageAfter(t *testing.T, h sandboxtest.Host, name, script string, settings container.Config) string {
	t.Helper()
	made, err := h.API.ContainerCreate(t.Context(), &container.Config{Image: sandboxtest.Image, Cmd: []string{"sh", "-ec", script}},
		&container.HostConfig{NetworkMode: "none"}, nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	defer h.Driver.Remove(context.WithoutCancel(t.Context()), made.ID)
	if err := h.API.ContainerStart(t.Context(), made.ID, container.StartOptions{}); err != nil {
		t.Fatal(err)
	}
	ended, failed := h.API.ContainerWait(t.Context(), made.ID, container.WaitConditionNotRunning)
	select {
	case end := <-ended:
		if end.StatusCode != 0 {
			t.Fatalf("%q: exit code %d", script, end.StatusCode)
		}
	case err := <-failed:
		t.Fatal(err)
	}
	reference := "flynn-test/" + name + ":" + time.Now().Format("150405.000000")
	settings.Cmd = []string{"true"}
	if _, err := h.API.ContainerCommit(t.Context(), made.ID, container.CommitOptions{Reference: reference, Config: &settings}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = h.API.ImageRemove(context.Background(), reference, image.RemoveOptions{Force: true})
	})
	return reference
}

// in returns a session of an image.
func in(t *testing.T, h sandboxtest.Host, ref string, adjust ...func(*sandbox.Config)) *sandbox.Session {
	t.Helper()
	adjust = append([]func(*sandbox.Config){func(c *sandbox.Config) { c.Spec.Image = ref }}, adjust...)
	m, config := h.Manager(t, adjust...)
	return get(t, m, "s", config.Spec)
}

// Commands can use /tmp and folders in memory whatever the image has there. Some runtimes give what they mount the image's mode.
func TestFoldersInMemoryCanBeWritten(t *testing.T) {
	t.Parallel()
	h := sandboxtest.Engine(t)
	for name, script := range map[string]string{
		"not everybody's": "chmod 755 /tmp; mkdir /data; chmod 700 /data",
		"closed":          "chmod 0 /tmp; mkdir /data; chmod 0 /data",
		"none":            "rmdir /tmp",
	} {
		t.Run(name, func(t *testing.T) {
			ref := imageAfter(t, h, "tmp", script, container.Config{})
			s := in(t, h, ref, func(c *sandbox.Config) { c.Spec.Tmpfs = []spec.MemoryMount{{Target: "/data", Bytes: 1 << 20}} })
			if got := shell(t, s, "for d in /tmp /data; do echo x >$d/f && stat -c %a $d; done"); got != "1777\n1777\n" {
				t.Errorf("got %q", got)
			}
		})
	}
}

// Commands get the ENV of their image, except for the variables that Flynn sets. None of them changes the supervisor.
func TestEnvironmentOfTheImage(t *testing.T) {
	h := sandboxtest.Engine(t)
	ref := imageWith(t, h, "env", container.Config{Env: []string{
		"PATH=/opt/x:/usr/sbin:/usr/bin:/sbin:/bin", "JAVA_HOME=/opt/java", "LANG=de_DE.UTF-8", "HOME=/root", "SPACED=a  b=c\"'$x", "EMPTY=",
		"LD_PRELOAD=/nosuch.so", "GODEBUG=schedtrace=1", "GOMEMLIMIT=1", "GOMAXPROCS=1", "HTTP_PROXY=http://evil.example:1", "no_proxy=*", "TOKEN=image",
	}})
	s := in(t, h, ref)
	const script = `for n in PATH JAVA_HOME LANG HOME SPACED EMPTY LD_PRELOAD HTTP_PROXY TOKEN GODEBUG; do eval "echo \"$n=\${$n-unset}\""; done`
	want := []string{
		"PATH=/opt/x:/usr/sbin:/usr/bin:/sbin:/bin", "JAVA_HOME=/opt/java", "LANG=de_DE.UTF-8", "HOME=/workspace", "SPACED=a  b=c\"'$x", "EMPTY=",
		"LD_PRELOAD=/nosuch.so", "HTTP_PROXY=http://evil.example:1", "TOKEN=image", "GODEBUG=unset",
	}
	if got := shell(t, s, script); got != strings.Join(want, "\n")+"\n" {
		t.Errorf("got %q", got)
	}
	r := run(t, s, machine.Command{Script: "echo $TOKEN $JAVA_HOME", Env: map[string]string{"TOKEN": "the call's"}})
	if string(r.Stdout) != "the call's /opt/java\n" {
		t.Errorf("a variable of the call: %q", r.Stdout)
	}
	p := start(t, s, machine.Command{Script: "echo $JAVA_HOME"})
	if _, err := s.Wait(t.Context(), p.ID); err != nil {
		t.Fatal(err)
	}
	if got := output(t, s, p.ID, 0, 100); string(got.Data) != "/opt/java\n" {
		t.Errorf("a background process: %q", got.Data)
	}

	proxied := in(t, h, ref, func(c *sandbox.Config) { c.Spec.Network, c.Spec.Allowlist = "allowlist", []string{"a.example"} })
	if got := shell(t, proxied, "echo $HTTP_PROXY $http_proxy [$no_proxy]"); got != "http://127.0.0.1:3128 http://127.0.0.1:3128 []\n" {
		t.Errorf("behind the proxy: %q", got)
	}
}

// "commands run under bash -c": with bash where the image has it, with sh elsewhere.
func TestShellOfTheImage(t *testing.T) {
	t.Parallel()
	h := sandboxtest.Engine(t)
	const script = `case "$0" in */bash) echo bash;; *) echo sh;; esac`
	for _, c := range []struct{ at, want string }{
		{"/bin/bash", "bash"}, {"/usr/local/bin/bash", "bash"}, {"/usr/bin/bash", "bash"},
		{"/opt/bash", "sh"}, // not where images have it
	} {
		t.Run(c.at, func(t *testing.T) {
			// A script stands in for bash: the test image has none.
			ref := imageAfter(t, h, "bash", "mkdir -p "+c.at+" && rmdir "+c.at+" && printf '#!/bin/sh\\nshift\\nexec /bin/sh -c \"$1\" "+c.at+"\\n' > "+c.at+" && chmod 755 "+c.at, container.Config{})
			s := in(t, h, ref)
			if got := shell(t, s, script); got != c.want+"\n" {
				t.Errorf("got %q", got)
			}
			p := start(t, s, machine.Command{Script: script})
			if _, err := s.Wait(t.Context(), p.ID); err != nil {
				t.Fatal(err)
			}
			if got := output(t, s, p.ID, 0, 10); string(got.Data) != c.want+"\n" {
				t.Errorf("in the background %q", got.Data)
			}
		})
	}
	s := in(t, h, sandboxtest.Image)
	if got := shell(t, s, "printf '#!/bin/sh\\necho planted\\n' > bash; chmod 755 bash; export PATH=$PWD:$PATH; "+script); got != "sh\n" {
		t.Errorf("without bash: %q", got)
	}
	if got := shell(t, s, script); got != "sh\n" {
		t.Errorf("with one in the workspace: %q", got)
	}
}

// "commands run under bash -c: use bash where the image has it, sh elsewhere, and tell the model which": the first result in a container
// tells it, whether that was made for the session or came from a pool, and whether a command or a process came first.
func TestShellIsTold(t *testing.T) {
	h := sandboxtest.Engine(t)
	const sh, bash = "commands are run by /bin/sh, as the image has no bash", "commands are run by /bin/bash"
	// A script stands in for bash: the test image has none.
	with := imageAfter(t, h, "toldbash", "printf '#!/bin/sh\nshift\nexec /bin/sh -c \"$1\" /bin/bash\n' > /bin/bash && chmod 755 /bin/bash", container.Config{})
	for name, c := range map[string]struct {
		warm        int
		image, want string
	}{
		"sh": {0, sandboxtest.Image, sh}, "bash": {0, with, bash}, "warm": {1, sandboxtest.Image, sh},
	} {
		t.Run(name, func(t *testing.T) {
			m, config := h.Manager(t, func(k *sandbox.Config) {
				k.Spec.Image = c.image
				if c.warm > 0 {
					keepWarm(c.warm)(k)
				}
			})
			if c.warm > 0 {
				runManager(t, m)
				awaitReady(t, m, c.warm)
			}
			s := get(t, m, "s", config.Spec)
			for i, want := range []string{c.want, ""} {
				r, err := s.Exec(t.Context(), machine.Command{Script: "true"})
				if err != nil || strings.Join(r.News, "; ") != want {
					t.Errorf("command %d: %q, %v", i, r.News, err)
				}
			}
			if err := m.Destroy(t.Context(), "s"); err != nil {
				t.Fatal(err)
			}
			s = get(t, m, "s", config.Spec)
			if p := start(t, s, machine.Command{Script: "true"}); strings.Join(p.News, "; ") != c.want {
				t.Errorf("a process in the next container: %q", p.News)
			}
		})
	}
}

// The real bash, where this machine can make an image that has it.
func TestRealBash(t *testing.T) {
	h := sandboxtest.Engine(t)
	s := in(t, h, h.Debian(t))
	if got := shell(t, s, `a=(1 2 3); [[ x == x ]] && echo "${#a[@]} ${BASH_VERSION:+bash}"; diff <(echo a) <(echo a) && echo same`); got != "3 bash\nsame\n" {
		t.Errorf("got %q", got)
	}
}

func TestWorkspaceElsewhere(t *testing.T) {
	t.Parallel()
	h := sandboxtest.Engine(t)
	for _, dir := range []string{"/my ws", "/a\\b", "/deep/er/ws", "/работа", "/\u202ex", `/"q'$x`} {
		s := in(t, h, sandboxtest.Image, func(c *sandbox.Config) { c.Spec.WorkspaceDir = dir })
		if got := shell(t, s, "pwd; echo x > f; cat f; echo $HOME"); got != dir+"\nx\n"+dir+"\n" {
			t.Errorf("%q: got %q", dir, got)
		}
	}
	for _, dir := range []string{"/workspace/", "/proc", "/dev", "/etc", "/", "", "ws"} {
		spec := sandboxtest.Spec()
		spec.WorkspaceDir = dir
		if err := spec.Check(); dir != "" && err == nil {
			t.Errorf("%q is accepted", dir)
		}
	}
}

// A process that the memory limit kills is in the result, also where the exit code is that of another part of the command.
func TestMemoryOfAPipelineIsInTheResult(t *testing.T) {
	h := sandboxtest.Engine(t)
	s := in(t, h, sandboxtest.Image, func(c *sandbox.Config) { c.Spec.MemoryBytes = 64 << 20 })
	eat := "tail /dev/zero"
	r := run(t, s, machine.Command{Script: eat + " | cat"})
	if r.ExitCode != 0 || !r.OOM {
		t.Errorf("got %+v", r)
	}
	if r := run(t, s, machine.Command{Script: "true"}); r.OOM {
		t.Error("the next command has it as well")
	}
	// Beside another command it is not known whose it was.
	p := start(t, s, machine.Command{Script: "while [ ! -e go ]; do sleep 0.01; done; " + eat + " | cat"})
	if r := run(t, s, machine.Command{Script: "touch go; while [ -n \"$(pidof tail)\" ] || [ ! -e seen ]; do [ -n \"$(pidof tail)\" ] && : > seen; done; true"}); r.ExitCode != 0 || r.OOM {
		t.Errorf("a command beside it: %+v", r)
	}
	if _, err := s.Wait(t.Context(), p.ID); err != nil {
		t.Error(err)
	}
}

// A folder that its own user may not read hides what is in it and nothing else.
func TestChangesBesideAClosedFolder(t *testing.T) {
	h := sandboxtest.Engine(t)
	s := in(t, h, sandboxtest.Image)
	changes := func(script string) string {
		t.Helper()
		r := run(t, s, machine.Command{Script: script, Changes: true})
		if r.Changes == nil {
			t.Fatalf("%q: no changes", script)
		}
		c := *r.Changes
		return strings.Join([]string{"+" + strings.Join(c.Added, " "), "*" + strings.Join(c.Modified, " "), "-" + strings.Join(c.Deleted, " "), "?" + strings.Join(c.Unread, " "),
			map[bool]string{true: "partial"}[c.Partial]}, ",")
	}
	for _, c := range []struct{ script, want string }{
		{"mkdir locked; chmod 0 locked", "+,*,-,?locked,"},
		{"echo x > f", "+f,*,-,?,"},
		{"echo y >> f; mkdir -p d/e; echo x > d/e/g", "+d/e/g,*f,-,?,"},
		{"chmod 0 d/e; rm f", "+,*,-f,?d/e,"},
		{"chmod 700 d/e locked; echo x > new", "+new,*,-,?,"},
		{"echo x > locked/h; chmod 0 locked", "+,*,-,?locked,"},
	} {
		if got := changes(c.script); got != c.want {
			t.Errorf("%q: %s, want %s", c.script, got, c.want)
		}
	}
	shell(t, s, "chmod 700 locked")
}

// "file changes are observed for spawned processes too, before their exit is reported"
func TestChangesOfSpawnedProcesses(t *testing.T) {
	h := sandboxtest.Engine(t)
	s := in(t, h, sandboxtest.Image)
	shell(t, s, "echo x > old; echo x > gone")
	const script = "echo y >> old; rm gone; mkdir d; echo z > d/new"
	check := func(t *testing.T, r machine.Result) {
		t.Helper()
		c := r.Changes
		if c == nil || c.Partial || strings.Join(c.Added, " ") != "d/new" || strings.Join(c.Modified, " ") != "old" || strings.Join(c.Deleted, " ") != "gone" {
			t.Errorf("changes %+v", c)
		}
	}
	p := start(t, s, machine.Command{Script: script, Changes: true})
	ended, err := s.Wait(t.Context(), p.ID)
	if err != nil {
		t.Fatal(err)
	}
	check(t, *ended.Result)

	shell(t, s, "rm -r d; echo x > gone")
	live, err := s.Spawn(t.Context(), machine.Command{Script: script, Changes: true})
	if err != nil {
		t.Fatal(err)
	}
	live.Stdin.Close()
	r, err := live.Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	check(t, r)
	if err := live.Close(); err != nil {
		t.Error(err)
	}

	// One that is killed, and more of them than fingerprints have room: none of it costs the next.
	shell(t, s, "rm -r d; echo x > gone")
	p = start(t, s, machine.Command{Script: script + "; sleep 1000", Changes: true})
	eventually(t, "it has written", func() bool { _, _, err := s.ReadFile(t.Context(), "d/new", 0, 1); return err == nil })
	killed, err := s.Kill(t.Context(), p.ID)
	if err != nil {
		t.Fatal(err)
	}
	check(t, *killed.Result)
	if _, err := s.Start(t.Context(), machine.Command{Script: "true", Dir: "nosuch", Changes: true}); errors.Is(err, machine.ErrUnavailable) || err == nil {
		t.Errorf("a process without a working directory: %v", err)
	}
}

// A container that somebody pauses on the engine holds a command up; the error says why.
func TestContainerPausedByOthers(t *testing.T) {
	t.Parallel()
	h := sandboxtest.Engine(t)
	m, config := h.Manager(t)
	s := get(t, m, "s", config.Spec)
	shell(t, s, "true")
	id := containers(t, h, config.Instance)[0].ID
	if err := h.API.ContainerPause(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	_, err := s.Exec(t.Context(), machine.Command{Script: "true", Timeout: 100 * time.Millisecond})
	if !errors.Is(err, machine.ErrUnavailable) || !strings.Contains(err.Error(), "somebody has paused its container") {
		t.Errorf("got %v", err)
	}
	if got := shell(t, s, "echo again"); got != "again\n" {
		t.Errorf("afterwards %q", got)
	}
}

// The error has the output of a command whose container was lost.
func TestOutputOfALostContainer(t *testing.T) {
	h := sandboxtest.Engine(t)
	m, config := h.Manager(t)
	s := get(t, m, "s", config.Spec)
	shell(t, s, "true")
	id := containers(t, h, config.Instance)[0].ID
	seen := make(chan struct{})
	go func() {
		<-seen
		_ = h.API.ContainerKill(context.WithoutCancel(t.Context()), id, "KILL")
	}()
	told := false
	r, err := s.Exec(t.Context(), machine.Command{Script: "echo step 1; sleep 1000", Progress: func(machine.Stream, []byte) {
		if !told {
			told = true
			close(seen)
		}
	}})
	if !errors.Is(err, machine.ErrUnavailable) || string(r.Stdout) != "step 1\n" {
		t.Errorf("got %q, %v", r.Stdout, err)
	}
}
