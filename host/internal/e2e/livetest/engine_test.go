package livetest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"

	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
)

// containers are the ids of those that the engine has of this site's host.
func (s *site) containers(engine sandboxtest.Host) []string {
	s.t.Helper()
	instance, err := os.ReadFile(filepath.Join(s.dir, "state/instance"))
	if err != nil {
		s.t.Fatal(err)
	}
	found, err := engine.API.ContainerList(s.t.Context(), container.ListOptions{
		All: true, Filters: filters.NewArgs(filters.Arg("label", driver.LabelInstance+"="+strings.TrimSpace(string(instance)))),
	})
	if err != nil {
		s.t.Fatal(err)
	}
	var ids []string
	for _, c := range found {
		ids = append(ids, c.ID)
	}
	return ids
}

// sandboxed is an agent whose tools belong in a sandbox at every frontend.
const sandboxed = `
[agent_configs.main]
tool_profile = "coding"
sandbox = true
[routing]
default_agent = "main"
[gateway]
listen = "127.0.0.1:%PORT%"
[store]
dir = "%DIR%/state"
[models.default]
provider = "demo"
[sandbox]
enabled = true
local_frontends = true
`

func TestEngineMissingIsARefusal(t *testing.T) {
	t.Parallel()
	s := newSite(t, sandboxed+"engine = \"unix://%DIR%/no.sock\"\n")
	s.start()
	want := "refused: the sandbox is unavailable: no engine answers at unix://" + s.dir + "/no.sock: start Docker, or set engine in [sandbox]"
	if got := s.says("shell", "!sh touch ran"); got.Text != want {
		t.Errorf("the answer is\n %q\nwant\n %q", got.Text, want)
	}
	if files := s.workspaceFiles(); len(files) > 0 {
		t.Errorf("it ran on the host: %v", files)
	}
	if got := s.says("talk", "hello"); got.Text != "You said: hello" {
		t.Errorf("without tools: %+v", got)
	}
	if got := s.status(); got.Sandbox.Available || len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], "are refused") {
		t.Errorf("status: %+v", got)
	}
}

func TestImageMissingNamesItAndWhatToRun(t *testing.T) {
	t.Parallel()
	sandboxtest.Engine(t)
	const image = "127.0.0.1:9/flynn/nosuch:1"
	s := newSite(t, sandboxed+"image = \""+image+"\"\n")
	s.start()
	got := s.says("shell", "!sh true").Text
	for _, want := range []string{"sandbox is unavailable: ", "run: docker pull " + image} {
		if !strings.Contains(got, want) {
			t.Errorf("the answer does not say %q: %s", want, got)
		}
	}
	if strings.Count(got, "/docker.sock") > 1 {
		t.Errorf("the answer repeats itself: %s", got)
	}
	if got := s.says("talk", "hello"); got.Text != "You said: hello" {
		t.Errorf("without tools: %+v", got)
	}
}

func TestContainerRemovedInMidCommand(t *testing.T) {
	t.Parallel()
	engine := sandboxtest.Engine(t)
	s := newSite(t, sandboxed+"image = \""+sandboxtest.Image+"\"\n")
	s.start()
	s.send("main", "1", "!sh touch begun; sleep 100")
	s.eventually("the command runs", func() error {
		if files := s.workspaceFiles(); len(files) != 1 {
			return fmt.Errorf("files: %v", files)
		}
		return nil
	})
	mine := s.containers(engine)
	if len(mine) != 1 {
		t.Fatalf("containers: %v", mine)
	}
	if err := engine.API.ContainerRemove(t.Context(), mine[0], container.RemoveOptions{Force: true}); err != nil {
		t.Fatal(err)
	}
	const want = "sandbox is unavailable: connection to the sandbox is lost: its container ended"
	if got := s.reply("main", 1).Text; !strings.Contains(got, want) {
		t.Errorf("the answer is %q, want %q", got, want)
	}
	s.send("main", "2", "!sh ls")
	if got := s.reply("main", 2).Text; !strings.Contains(got, "begun") {
		t.Errorf("the next command says %q, want the file of the last one", got)
	}
}

// The engine goes away under a running turn, which is told so, and comes back without the host being restarted.
func TestEngineGoesAwayAndComesBack(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name       string
		away, back func(e *sandboxtest.Private)
		running    string // what the running turn is told
		refused    string // and the next one
	}{
		{"stopped", (*sandboxtest.Private).Stop, (*sandboxtest.Private).Start, "connection to the sandbox is lost", "start Docker"},
		{"crashed", (*sandboxtest.Private).Crash, (*sandboxtest.Private).Start, "no engine answers", "start Docker"},
		{"hung", (*sandboxtest.Private).Freeze, (*sandboxtest.Private).Thaw, "begun", "too slow to answer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := sandboxtest.Own(t)
			s := newSite(t, sandboxed+"image = \""+sandboxtest.Image+"\"\nengine = \""+e.Address()+"\"\n")
			s.start()
			s.send("main", "1", "!sh touch begun; until [ -e over ]; do sleep 0.1; done; ls")
			s.eventually("the command runs", func() error {
				if files := s.workspaceFiles(); len(files) != 1 {
					return fmt.Errorf("files: %v", files)
				}
				return nil
			})
			c.away(e)
			s.eventually("the host has noticed", func() error {
				if got := s.status().Sandbox; got.Available || !strings.Contains(got.Detail, c.refused) {
					return fmt.Errorf("status %+v", got)
				}
				return nil
			})
			if got := s.says("other", "!sh true"); !strings.Contains(got.Text, c.refused) || !strings.Contains(got.Text, e.Socket()) {
				t.Errorf("meanwhile: %q", got.Text)
			}
			s.finish()
			if got := s.reply("main", 1).Text; !strings.Contains(got, c.running) {
				t.Errorf("the running turn was told %q", got)
			}
			c.back(e)
			s.eventually("the sandbox is back", func() error {
				if got := s.status().Sandbox; !got.Available {
					return fmt.Errorf("status %+v", got)
				}
				return nil
			})
			if got := s.says("third", "!sh echo works").Text; !strings.Contains(got, "works") {
				t.Errorf("another session afterwards: %q", got)
			}
			s.send("main", "2", "!sh ls")
			if got := s.reply("main", 2).Text; !strings.Contains(got, "begun") {
				t.Errorf("the session afterwards: %q", got)
			}
			s.eventually("two sessions have two containers", func() error {
				if n := len(s.containers(e.Host)); n != 2 {
					return fmt.Errorf("%d containers", n)
				}
				return nil
			})
		})
	}
}

// finish lets the command in the first workspace end, from outside.
func (s *site) finish() {
	s.t.Helper()
	begun, err := filepath.Glob(filepath.Join(s.dir, "state/workspaces/*/begun"))
	if err != nil || len(begun) != 1 {
		s.t.Fatalf("workspaces: %v (%v)", begun, err)
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(begun[0]), "over"), nil, 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// A runtime that the engine does not have is named with what it has, and nothing runs elsewhere instead.
func TestRuntimeMissingIsARefusal(t *testing.T) {
	t.Parallel()
	e := sandboxtest.Own(t)
	s := newSite(t, sandboxed+"runtime = \"runsc\"\nimage = \""+sandboxtest.Image+"\"\nengine = \""+e.Address()+"\"\n")
	s.start()
	want := "refused: the sandbox is unavailable: the engine at " + e.Address() + ` has no runtime "runsc", only `
	if got := s.says("shell", "!sh touch ran").Text; !strings.HasPrefix(got, want) || !strings.Contains(got, "change runtime in [sandbox]") {
		t.Errorf("the answer is\n %q\nwant\n %q", got, want)
	}
	if files := s.workspaceFiles(); len(files) > 0 {
		t.Errorf("it ran: %v", files)
	}
	if got := s.status(); got.Sandbox.Available || !strings.Contains(got.Sandbox.Detail, `no runtime "runsc"`) {
		t.Errorf("status: %+v", got.Sandbox)
	}
}

func TestGVisorFromTheChat(t *testing.T) {
	t.Parallel()
	e := sandboxtest.GVisor(t)
	s := newSite(t, sandboxed+"runtime = \"runsc\"\nimage = \""+sandboxtest.Image+"\"\nengine = \""+e.Address()+"\"\n")
	s.start()
	if got := s.says("shell", "!sh uname -r; pwd").Text; !strings.Contains(got, "4.4.0") || !strings.Contains(got, "/workspace") {
		t.Errorf("the answer is %q", got)
	}
}
