package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"go.uber.org/goleak"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/compose"
	"github.com/flynnhost/flynn/host/sandbox/docker"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
	"github.com/flynnhost/flynn/host/sandbox/spec"
)

// composed is a specification with the project of a compose file, in which IMAGE is the test image.
func composed(t *testing.T, config sandbox.Config, file string) spec.Spec {
	t.Helper()
	path := filepath.Join(t.TempDir(), "compose.yaml")
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(file, "IMAGE", sandboxtest.Image)), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := compose.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	spec := config.Spec
	spec.Compose, spec.Service = p, "app"
	return spec
}

// web serves what is in a volume that app can write to, under a name of its own.
const web = `
services:
  app:
    image: IMAGE
    environment: { WEB: "http://web:8080" }
    depends_on: { web: { condition: service_healthy } }
    volumes: ["pages:/pages"]
  web:
    image: IMAGE
    command: ["sh", "-c", "echo started $$GREETING; mkdir -p /own; exec httpd -f -p 8080 -h /pages"]
    environment: { GREETING: "${NOBODY:-hello}" }
    healthcheck: { test: "nc 127.0.0.1 8080 < /dev/null", interval: 100ms, timeout: 30s, retries: 500 }
    volumes: ["pages:/pages", "own:/own"]
    tmpfs: /run
    mem_limit: 32m
    pids_limit: 48 # a check of its health has threads of its own
  idle:
    image: IMAGE
    command: sleep 1000
    read_only: true
    init: true
    user: "65534:65534"
volumes: { pages: , own: }
`

func TestProject(t *testing.T) {
	t.Parallel()
	h := sandboxtest.Engine(t)
	m, config := h.Manager(t, func(c *sandbox.Config) { sweepVolumes(t, c.Instance) })
	spec := composed(t, config, web)
	for _, session := range []message.WorkspaceKey{"a", "b"} {
		if got := said(t, m, session, spec, "echo page of "+string(session)+" > /pages/index.html; wget -qO- $WEB/; hostname; ls /sys/class/net"); got != "page of "+string(session)+"\nsandbox\nlo" {
			t.Errorf("%s: got %q", session, got)
		}
	}
	if got := said(t, m, "a", spec, "wget -qO- http://web:8080/; id -u > /pages/me; stat -c %u /pages"); !strings.HasPrefix(got, "page of a\n") || strings.HasSuffix(got, "\n0") {
		t.Errorf("got %q", got)
	}
	all := containers(t, h, config.Instance)
	if len(all) != 6 {
		t.Errorf("containers: %+v", all)
	}
	for _, c := range all {
		checkService(t, h, c)
	}
	if err := m.Destroy(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if left := containers(t, h, config.Instance); len(left) != 3 || slices.ContainsFunc(left, func(o driver.Owned) bool { return o.Labels[driver.LabelSession] == "a" }) {
		t.Errorf("after one session's end: %+v", left)
	}
	if got := said(t, m, "a", spec, "wget -qO- http://web:8080/"); got != "page of a" {
		t.Errorf("in its next container a session finds %q", got)
	}
	if err := m.Forget(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	volumes, err := h.Driver.ListVolumes(t.Context(), config.Instance)
	if err != nil || len(volumes) != 2 {
		t.Errorf("after it was forgotten: %+v, %v", volumes, err)
	}
}

// checkService looks at a container of a project from outside.
func checkService(t *testing.T, h sandboxtest.Host, o driver.Owned) {
	t.Helper()
	name := o.Labels[driver.LabelService]
	if name == "" {
		return
	}
	c, err := h.API.ContainerInspect(t.Context(), o.ID)
	if err != nil {
		t.Fatal(err)
	}
	host := c.HostConfig
	slices.Sort(host.CapAdd)
	added := strings.ReplaceAll(fmt.Sprint(host.CapAdd), "CAP_", "")
	if got := fmt.Sprint(host.CapDrop, added, host.SecurityOpt, host.Privileged, host.PidMode == "", host.LogConfig.Config); got !=
		"[ALL][CHOWN DAC_OVERRIDE FOWNER KILL NET_BIND_SERVICE SETGID SETUID][no-new-privileges] false true map[max-file:1 max-size:256k]" {
		t.Errorf("%s: confined as %s", name, got)
	}
	if !host.NetworkMode.IsContainer() || host.Memory != host.MemorySwap || host.PidsLimit == nil || o.Labels[driver.LabelSession] == "" {
		t.Errorf("%s: network %s, memory %d of %d", name, host.NetworkMode, host.Memory, host.MemorySwap)
	}
	switch name {
	case "web":
		if host.Memory != 32<<20 || *host.PidsLimit != 48 || host.ReadonlyRootfs {
			t.Errorf("web: memory %d, pids %d", host.Memory, *host.PidsLimit)
		}
	case "idle":
		if host.Memory != 128<<20 || *host.PidsLimit != 64 || !host.ReadonlyRootfs || !*host.Init || c.Config.User != "65534:65534" {
			t.Errorf("idle: memory %d, pids %d, %+v", host.Memory, *host.PidsLimit, c.Config)
		}
	}
}

func TestProjectFails(t *testing.T) {
	t.Parallel()
	h := sandboxtest.Engine(t)
	for name, c := range map[string]struct {
		rest string
		want []string
	}{
		"unhealthy": {
			"bad: { image: IMAGE, command: ['sh', '-c', 'echo no database; sleep 1000'], healthcheck: { test: 'echo not yet; false', interval: 50ms, retries: 2 } }",
			[]string{"service bad is unhealthy", "not yet", "no database"},
		},
		"ends": {
			"bad: { image: IMAGE, command: ['sh', '-c', 'echo cannot; exit 3'], healthcheck: { test: 'true', interval: 10s } }",
			[]string{"service bad has ended with exit code 3", "cannot"},
		},
		"one port": {
			"bad: { image: IMAGE, command: httpd -f -p 8080, depends_on: { web: { condition: service_healthy } }, healthcheck: { test: 'true', interval: 10s } }",
			[]string{"service bad has ended", "share one network"},
		},
		"does not end well": {
			"bad: { image: IMAGE, command: ['sh', '-c', 'echo no schema; exit 4'] }\n  late: { image: IMAGE, command: sleep 9, depends_on: { bad: { condition: service_completed_successfully } } }",
			[]string{"service bad has ended with exit code 4", "no schema"},
		},
		"no such image": {"bad: { image: 'flynn-test/none:1' }", []string{"service bad does not start", "flynn-test/none:1"}},
		"no program":    {"bad: { image: IMAGE, command: nginx }", []string{"service bad does not start", "nginx"}},
		"no folder":     {"bad: { image: IMAGE, command: sleep 9, volumes: ['./data:/data'] }", []string{"service bad does not start", "mount_roots"}},
	} {
		t.Run(name, func(t *testing.T) {
			m, config := h.Manager(t, func(c *sandbox.Config) { sweepVolumes(t, c.Instance) })
			spec := composed(t, config, strings.Replace(web, "volumes: { pages", "  "+c.rest+"\nvolumes: { pages", 1))
			_, err := m.Get(t.Context(), "a", "default", spec)
			if !errors.Is(err, machine.ErrUnavailable) {
				t.Fatalf("got %v", err)
			}
			for _, part := range c.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("got %v, without %q", err, part)
				}
			}
			if left := containers(t, h, config.Instance); len(left) != 0 {
				t.Errorf("left: %+v", left)
			}
		})
	}
}

// dying is the engine as a host sees it that is killed before it removes anything: what it has made stays.
type dying struct {
	*docker.Driver
	starts atomic.Int32
}

// Start fails for the fourth container: one prepares a volume, then come those of the commands and of web.
func (d *dying) Start(ctx context.Context, id string) error {
	if d.starts.Add(1) == 4 {
		return errors.New("killed")
	}
	return d.Driver.Start(ctx, id)
}

func (d *dying) Remove(context.Context, string) error { return nil }

func TestProjectOfADeadHostIsRemoved(t *testing.T) {
	t.Parallel()
	h := sandboxtest.Engine(t)
	config := h.Config(t)
	sweepVolumes(t, config.Instance)
	spec := composed(t, config, web)
	first := config
	first.Driver = &dying{Driver: h.Driver}
	m, err := sandbox.New(first)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Get(t.Context(), "a", "default", spec); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("got %v", err)
	}
	if err := m.DestroyAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	left := containers(t, h, config.Instance)
	if !slices.ContainsFunc(left, func(o driver.Owned) bool { return o.Labels[driver.LabelService] == "web" }) {
		t.Fatalf("nothing is left to remove: %+v", left)
	}
	second, err := sandbox.New(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := containers(t, h, config.Instance); len(left) != 0 {
		t.Errorf("left: %+v", left)
	}
	if err := second.DestroyAll(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestServiceThatDiesIsTold(t *testing.T) {
	h := sandboxtest.Engine(t)
	current := goleak.IgnoreCurrent()
	defer func() { // without those of connections that wait for the next request
		h.Driver.Close()
		h.API.Close()
		sandboxtest.GoroutinesEnd(t, current)
	}()
	m, config := h.Manager(t)
	defer func() {
		if err := m.DestroyAll(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	spec := composed(t, config, "services: { app: { image: IMAGE }, frail: { image: IMAGE, command: ['sh', '-c', 'nc -l -p 9000 >/dev/null; echo goodbye'] } }")
	s, err := m.Get(t.Context(), "a", "default", spec)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Exec(t.Context(), machine.Command{Script: "until echo | nc frail 9000; do :; done 2>/dev/null"}); err != nil {
		t.Fatal(err)
	}
	var told []string
	eventually(t, "the end is told", func() bool {
		ctx := machine.WithNotice(t.Context(), func(line string) { told = append(told, line) })
		if _, err := s.Exec(ctx, machine.Command{Script: "true"}); err != nil {
			t.Fatal(err)
		}
		return len(told) > 0
	})
	if len(told) != 1 || told[0] != "service frail has ended with exit code 0" {
		t.Errorf("told %q", told)
	}
	list, err := s.Processes(t.Context())
	if err != nil || len(list) != 1 || list[0].ID != "service:frail" || list[0].Running || list[0].Result == nil || list[0].Result.ExitCode != 0 {
		t.Errorf("listed %+v, %v", list, err)
	}
	out, err := s.Output(t.Context(), "service:frail", 1, 4) // of "goodbye\n"
	if err != nil || string(out.Data) != "oodb" || out.Next != 5 || out.Running {
		t.Errorf("its output from 1 on: %+v, %v", out, err)
	}
	if _, err := s.Kill(t.Context(), "service:frail"); !errors.Is(err, machine.ErrNotFound) || !strings.Contains(err.Error(), "ends with the sandbox") {
		t.Errorf("killed: %v", err)
	}
}

// A service that is killed, or removed, is back before the next command runs, which says so to its caller and to who waits; one that fails
// each time is not started for ever.
func TestServiceIsStartedAgain(t *testing.T) {
	h := sandboxtest.Engine(t)
	m, config := h.Manager(t)
	spec := composed(t, config, `
services:
  app: { image: IMAGE }
  db:
    image: IMAGE
    command: ["sh", "-c", "echo x >> /tmp/starts; exec nc -ll -p 9000 -e wc -l /tmp/starts"]
    healthcheck: { test: "test -s /tmp/starts", interval: 50ms, retries: 1000 }
`)
	s, err := m.Get(t.Context(), "a", "default", spec)
	if err != nil {
		t.Fatal(err)
	}
	const ask = "until nc db 9000 < /dev/null 2>/dev/null; do sleep 0.05; done"
	run := func() (string, []string, []string) {
		t.Helper()
		var told []string
		ctx := machine.WithNotice(t.Context(), func(line string) { told = append(told, line) })
		r, err := s.Exec(ctx, machine.Command{Script: ask, Timeout: 20 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		return strings.Fields(string(r.Stdout) + " -")[0], r.News, told
	}
	if starts, _, _ := run(); starts != "1" {
		t.Fatalf("started %s times", starts)
	}
	service := func() (id string) {
		for _, c := range containers(t, h, config.Instance) {
			if c.Labels[driver.LabelService] == "db" {
				id = c.ID
			}
		}
		return id
	}
	ended := func() bool {
		list, err := s.Processes(t.Context())
		return err == nil && !list[0].Running
	}
	for _, c := range []struct {
		name, starts, news string
		end                func(id string) error
	}{
		{"killed", "2", "service db has ended with exit code 137 and was started again", func(id string) error {
			return h.API.ContainerKill(t.Context(), id, "KILL")
		}},
		{"killed again", "3", "service db has ended with exit code 137 and was started again", func(id string) error {
			return h.API.ContainerKill(t.Context(), id, "KILL")
		}},
		{"removed", "1", "service db was removed from the engine and was started again", func(id string) error {
			return h.API.ContainerRemove(t.Context(), id, container.RemoveOptions{Force: true})
		}},
	} {
		if err := c.end(service()); err != nil {
			t.Fatal(err)
		}
		eventually(t, "its end is seen", ended)
		starts, news, told := run()
		if c.name == "removed" && len(news) == 1 && strings.HasPrefix(news[0], "service db has ended") { // it was seen before the removal
			c.news = "service db has ended with exit code 137 and was started again"
		}
		if starts != c.starts || len(news) != 1 || news[0] != c.news || !slices.Contains(told, c.news) {
			t.Errorf("%s: started %s times, news %q, told %q", c.name, starts, news, told)
		}
		if _, news, told := run(); len(news)+len(told) != 0 || ended() {
			t.Errorf("%s: afterwards %q, %q", c.name, news, told)
		}
	}
	if err := h.API.ContainerKill(t.Context(), service(), "KILL"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its end is seen", ended)
	r, err := s.Exec(t.Context(), machine.Command{Script: "nc db 9000 < /dev/null; true"})
	if err != nil || len(r.News) != 1 || !strings.HasPrefix(r.News[0], "service db has ended with exit code 137; after 3 restarts it is not restarted again") {
		t.Errorf("result %+v, %v", r, err)
	}
	if err := m.Destroy(t.Context(), "a"); err != nil {
		t.Error(err)
	}
	if left := containers(t, h, config.Instance); len(left) != 0 {
		t.Errorf("left: %+v", left)
	}
}

// A service is not started again on a folder that was swapped meanwhile.
func TestServiceIsNotStartedAgainElsewhere(t *testing.T) {
	h := sandboxtest.Engine(t)
	root := t.TempDir()
	data, other := folder(t, root, "data"), folder(t, root, "other")
	way := filepath.Join(root, "way")
	if err := os.Symlink(data, way); err != nil {
		t.Fatal(err)
	}
	m, config := h.Manager(t, allow(root))
	spec := composed(t, config, "services: { app: { image: IMAGE }, db: { image: IMAGE, command: sleep 1000, volumes: ['"+way+":/data:ro'] } }")
	s, err := m.Get(t.Context(), "a", "default", spec)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(way), os.Symlink(other, way)); err != nil {
		t.Fatal(err)
	}
	for _, c := range containers(t, h, config.Instance) {
		if c.Labels[driver.LabelService] == "db" {
			if err := h.API.ContainerKill(t.Context(), c.ID, "KILL"); err != nil {
				t.Fatal(err)
			}
		}
	}
	eventually(t, "its end is told", func() bool {
		r, err := s.Exec(t.Context(), machine.Command{Script: "true"})
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(r.News, func(line string) bool {
			return line == "service db has ended with exit code 137 and cannot be restarted: a folder that it mounts was replaced"
		})
	})
	if list, err := s.Processes(t.Context()); err != nil || list[0].Running {
		t.Errorf("listed %+v, %v", list, err)
	}
}

// A service that prepares a project has ended well before anything that waits for it begins, and its end is not reported.
func TestServiceThatPrepares(t *testing.T) {
	t.Parallel()
	h := sandboxtest.Engine(t)
	m, config := h.Manager(t, func(c *sandbox.Config) { sweepVolumes(t, c.Instance) })
	spec := composed(t, config, `
services:
  web:
    image: IMAGE
    command: ["sh", "-c", "test -s /data/schema || exit 7; exec sleep 1000"]
    depends_on: { init: { condition: service_completed_successfully } }
    volumes: ["data:/data"]
  app:
    image: IMAGE
    depends_on: { web: { condition: service_started } }
  init:
    image: IMAGE
    command: ["sh", "-c", "usleep 300000; echo made > /data/schema"]
    volumes: ["data:/data"]
volumes: { data: }
`)
	for _, session := range []message.WorkspaceKey{"a", "b"} {
		var told []string
		ctx := machine.WithNotice(t.Context(), func(line string) { told = append(told, line) })
		s, err := m.Get(ctx, session, "default", spec)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if r, err := s.Exec(ctx, machine.Command{Script: "true"}); err != nil || r.ExitCode != 0 {
				t.Fatalf("result %+v, %v", r, err)
			}
		}
		if all := strings.Join(told, "\n"); strings.Contains(all, "has ended") || !strings.Contains(all, "waiting for service init to end") {
			t.Errorf("told %q", told)
		}
	}
}

func TestProjectIsRefused(t *testing.T) {
	h := sandboxtest.Engine(t)
	m, config := h.Manager(t)
	for name, c := range map[string]struct {
		file   string
		adjust func(*spec.Spec)
		want   string
	}{
		"no such service":     {web, func(s *spec.Spec) { s.Service = "db" }, `has no service "db": set service in [sandbox] to one of web, app, idle`},
		"the host's network":  {web, func(s *spec.Spec) { s.Network = "host" }, "services need a network of their own"},
		"another runtime":     {web, func(s *spec.Spec) { s.Runtime = "runsc" }, "which runtime runsc does not"},
		"more memory":         {strings.Replace(web, "32m", "1g", 1), nil, ":8: services.web.mem_limit is above memory_limit"},
		"more processes":      {strings.Replace(web, "pids_limit: 48", "pids_limit: 80", 1), nil, "pids_limit is above"},
		"over the workspace":  {strings.Replace(web, "pages:/pages\"]\n  web", "pages:/workspace/x\"]\n  web", 1), nil, "lies in the workspace"},
		"over proc":           {strings.Replace(web, "own:/own", "own:/proc/x", 1), nil, "services.web.volumes: target"},
		"waits for their end": {"services: { app: { image: IMAGE }, b: { image: IMAGE, depends_on: { app: { condition: service_completed_successfully } } } }", nil, "does not end"},
		"another user":        {"services: { app: { image: IMAGE, user: '0' } }", nil, "services.app.user is ignored"},
		"waits for commands":  {"services: { app: { image: IMAGE }, b: { image: IMAGE, depends_on: { app: { condition: service_healthy } } } }", nil, "is ignored for the service"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := composed(t, config, c.file)
			if c.adjust != nil {
				c.adjust(&spec)
			}
			if _, err := m.Get(t.Context(), "a", "default", spec); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// The main service's own command, environment and limits are those of the file.
func TestProjectStartsItsMainCommand(t *testing.T) {
	t.Parallel()
	h := sandboxtest.Engine(t)
	m, config := h.Manager(t)
	spec := composed(t, config, `
services:
  app:
    image: IMAGE
    entrypoint: ["sh", "-c"]
    command: ["echo $$GREETING $$PWD > /workspace/f; sleep 1000"]
    working_dir: /etc
    environment: ["GREETING=hello"]
    mem_limit: 64m
`)
	spec.Start = []string{}
	spec.Network, spec.Allowlist = "allowlist", []string{"example.com"}
	if got := said(t, m, "b", spec, "echo $NO_PROXY $no_proxy; test -n \"$HTTP_PROXY\""); got != "localhost,127.0.0.1,app localhost,127.0.0.1,app" {
		t.Errorf("the proxy is asked for services, too: %q", got)
	}
	if err := m.Destroy(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	spec.Network = "none"
	if got := said(t, m, "a", spec, "until test -s f; do :; done; cat f; echo $GREETING"); got != "hello /etc\nhello" {
		t.Errorf("got %q", got)
	}
	own := containers(t, h, config.Instance)
	if len(own) != 1 {
		t.Fatalf("containers: %+v", own)
	}
	c, err := h.API.ContainerInspect(t.Context(), own[0].ID)
	if err != nil || c.HostConfig.Memory != 64<<20 {
		t.Errorf("memory %d, %v", c.HostConfig.Memory, err)
	}
}

// A volume that a service has given to its own user stays that user's, and keeps nobody from starting again.
func TestServiceTakesAVolume(t *testing.T) {
	t.Parallel()
	h := sandboxtest.Engine(t)
	config := h.Config(t)
	sweepVolumes(t, config.Instance)
	spec := composed(t, config, `
services:
  app: { image: IMAGE, volumes: ["data:/data"] }
  taker: { image: IMAGE, command: ["sh", "-c", "chown 4321 /data; echo taken > /data/f; sleep 1000"], volumes: ["data:/data"], healthcheck: { test: "test -s /data/f", interval: 50ms, retries: 1000 } }
volumes: { data: }
`)
	for range 2 { // the second host has not handed the volume over itself
		m, err := sandbox.New(config)
		if err != nil {
			t.Fatal(err)
		}
		if got := said(t, m, "a", spec, "stat -c %u /data; cat /data/f"); got != "4321\ntaken" {
			t.Errorf("got %q", got)
		}
		if err := m.DestroyAll(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// The mounts of a service are checked again once it runs.
func TestServiceMountSwapped(t *testing.T) {
	t.Parallel()
	h := sandboxtest.Engine(t)
	root := t.TempDir()
	allowed := filepath.Join(root, "allowed")
	data, secret := folder(t, allowed, "data"), folder(t, root, "secret")
	starts := 0
	m, config := h.Manager(t, allow(allowed), func(c *sandbox.Config) {
		c.Driver = swapper{h.Driver, func() {
			if starts++; starts == 2 {
				swap(t, data, secret)
			}
		}}
	})
	file := "services: { app: { image: IMAGE }, db: { image: IMAGE, command: sleep 1000, volumes: ['DATA:/data:ro'] } }"
	spec := composed(t, config, strings.ReplaceAll(file, "DATA", data))
	if _, err := m.Get(t.Context(), "a", "default", spec); err == nil || !strings.Contains(err.Error(), "service db does not start") {
		t.Errorf("got %v", err)
	}
	if left := containers(t, h, config.Instance); len(left) != 0 {
		t.Errorf("left: %+v", left)
	}
}
