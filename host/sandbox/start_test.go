package sandbox_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"

	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
)

// imageWith commits the test image with other settings under a name of the test's own.
func imageWith(t *testing.T, h sandboxtest.Host, name string, settings container.Config) string {
	t.Helper()
	made, err := h.API.ContainerCreate(t.Context(), &container.Config{Image: sandboxtest.Image, Cmd: []string{"true"}}, nil, nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	defer h.Driver.Remove(context.WithoutCancel(t.Context()), made.ID)
	reference := "flynn-test/" + name + ":" + time.Now().Format("150405.000000")
	if _, err := h.API.ContainerCommit(t.Context(), made.ID, container.CommitOptions{Reference: reference, Config: &settings}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = h.API.ImageRemove(context.Background(), reference, image.RemoveOptions{Force: true})
	})
	return reference
}

func TestStartCommand(t *testing.T) {
	t.Parallel()
	h := sandboxtest.Engine(t)
	served := imageWith(t, h, "served", container.Config{
		Entrypoint: []string{"httpd", "-f"}, Cmd: []string{"-p", "127.0.0.1:8080"}, WorkingDir: "/etc", Env: []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "GREETING=hello"},
	})
	for name, c := range map[string]struct {
		image  string
		start  []string
		script string
		want   string // of the script
		err    string // of Get
		pool   int
	}{
		"left out":        {image: served, script: "sleep 0.2; wget -qO- http://127.0.0.1:8080/passwd 2>&1", want: "wget: can't connect to remote host (127.0.0.1): Connection refused"},
		"the image's own": {image: served, start: []string{}, script: "until wget -qO- http://127.0.0.1:8080/passwd 2>/dev/null; do :; done", want: "root:x:0:0:root:/root:/bin/sh"},
		"from the pool":   {image: served, start: []string{}, pool: 1, script: "until wget -qO- http://127.0.0.1:8080/passwd 2>/dev/null; do :; done", want: "root:x:0:0:root:/root:/bin/sh"},
		"replaced":        {image: served, start: []string{"sh", "-c", "echo $GREETING $0 $HOME >/workspace/f; pwd >> /workspace/f; id -u >> /workspace/f; exec sleep 1000", "a b"}, script: "until grep -q '^[0-9]' f; do :; done 2>/dev/null; sed s/$(id -u)/me/ f", want: "hello a b /workspace\n/etc\nme"},
		"a path":          {image: sandboxtest.Image, start: []string{"/bin/sleep", "1000"}, script: "pidof sleep >/dev/null && echo runs", want: "runs"},
		"no such program": {image: sandboxtest.Image, start: []string{"nginx"}, err: `no program \"nginx\"`},
		"none of its own": {image: sandboxtest.Image, start: []string{}, err: "no command of its own"},
	} {
		t.Run(name, func(t *testing.T) {
			m, config := h.Manager(t, func(config *sandbox.Config) {
				config.Spec.Image, config.Spec.Start = c.image, c.start
				keepWarm(c.pool)(config)
			})
			if c.pool > 0 {
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- m.Run(ctx) }()
				t.Cleanup(func() { cancel(); <-ended })
				eventually(t, "a warm container", func() bool { return m.Stats().Pool.Ready == 1 })
			}
			s, err := m.Get(t.Context(), "a", "default", config.Spec)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("got %v", err)
				}
				if left := containers(t, h, config.Instance); len(left) != 0 {
					t.Errorf("left %v", left)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			r, err := s.Exec(t.Context(), machine.Command{Script: c.script})
			if got := strings.TrimSpace(string(r.Stdout) + string(r.Stderr)); err != nil || got != c.want {
				t.Errorf("got %q, %v", got, err)
			}
			processes, err := s.Processes(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if wanted := c.start != nil; wanted != (len(processes) == 1 && processes[0].ID == sandbox.ImageProcess && processes[0].Running) {
				t.Errorf("processes %+v", processes)
			}
		})
	}
}

// The end of the image's process is there to be seen, with its output, and it keeps no container from being idle.
func TestStartCommandEnds(t *testing.T) {
	h := sandboxtest.Engine(t)
	m, config := h.Manager(t, func(c *sandbox.Config) {
		c.Spec.Start = []string{"sh", "-c", "echo started; exit 3"}
	})
	s, err := m.Get(t.Context(), "a", "default", config.Spec)
	if err != nil {
		t.Fatal(err)
	}
	p, err := s.Wait(t.Context(), sandbox.ImageProcess)
	if err != nil || p.Running || p.Result == nil || p.Result.ExitCode != 3 {
		t.Fatalf("got %+v, %v", p, err)
	}
	out, err := s.Output(t.Context(), sandbox.ImageProcess, 0, 1000)
	if err != nil || string(out.Data) != "started\n" {
		t.Errorf("got %q, %v", out.Data, err)
	}
	if started, err := s.Start(t.Context(), machine.Command{Script: "sleep 1000"}); err != nil || started.ID != "1" {
		t.Errorf("the next process is %+v, %v", started, err)
	}
	if killed, err := s.Kill(t.Context(), sandbox.ImageProcess); err != nil || killed.Running {
		t.Errorf("killing what has ended: %+v, %v", killed, err)
	}
}

func TestStartCommandIsNoActivity(t *testing.T) {
	h := sandboxtest.Engine(t)
	m, config := h.Manager(t, func(c *sandbox.Config) { c.Spec.Start = []string{"sleep", "1000"}; c.IdleAfter = 1 })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	if _, err := m.Get(t.Context(), "a", "default", config.Spec); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the idle container goes", func() bool { return len(containers(t, h, config.Instance)) == 0 })
}
