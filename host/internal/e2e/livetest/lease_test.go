package livetest

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"

	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
)

// tool is what a tool answers in the conversation "main", whose n-th call this is.
func (s *site) tool(n int, name string, args any) string {
	s.t.Helper()
	text, err := json.Marshal(args)
	if err != nil {
		s.t.Fatal(err)
	}
	s.send("main", strconv.Itoa(n), "!tool "+name+" "+string(text))
	return s.reply("main", n).Text
}

// ends are the ways in which a host ends.
var ends = map[string]func(*site){"killed": (*site).kill, "stopped": (*site).stop}

// counting is a host with a process in the background that counts, whose number is pid.
func counting(t *testing.T, lease string) (s *site, pid string) {
	t.Helper()
	s = newSite(t, sandboxed+"image = \""+sandboxtest.Image+"\"\nlease = \""+lease+"\"\n")
	s.start()
	started := s.tool(1, "process.start", map[string]string{"command": "i=0; while :; do i=$((i+1)); echo $i; sleep 0.05; done"})
	found := regexp.MustCompile(`started 1 with pid (\d+)`).FindStringSubmatch(started)
	if found == nil {
		t.Fatalf("start: %s", started)
	}
	return s, found[1]
}

// A process that an agent has started in the background outlasts the host, and the agent finds it again.
func TestBackgroundProcessOutlastsTheHost(t *testing.T) {
	t.Parallel()
	engine := sandboxtest.Engine(t)
	for how, end := range ends {
		t.Run(how, func(t *testing.T) {
			s, pid := counting(t, "10m") // however long the next host takes
			before := s.containers(engine)
			end(s)
			if how == "stopped" {
				s.logged("sandboxes with background processes stay for their lease", "count=1")
			}
			s.start()
			s.logged("adopted a sandbox with background processes", "processes=1")
			if list := s.tool(2, "process.list", map[string]string{}); !strings.Contains(list, "1  pid "+pid+"  running") {
				t.Errorf("processes: %s", list)
			}
			call := 3
			s.eventually("the count goes on", func() error {
				out := s.tool(call, "process.output", map[string]string{"id": "1"})
				call++
				if !strings.HasPrefix(out, count(20)) {
					return fmt.Errorf("output %q", out)
				}
				return nil
			})
			if now := s.containers(engine); fmt.Sprint(now) != fmt.Sprint(before) || len(now) != 1 {
				t.Errorf("containers were %v and are %v", before, now)
			}
			s.kill()
			for _, id := range s.containers(engine) {
				if err := engine.API.ContainerRemove(t.Context(), id, container.RemoveOptions{Force: true}); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestBackgroundProcessEndsWhenNoHostComesBack(t *testing.T) {
	t.Parallel()
	engine := sandboxtest.Engine(t)
	for how, end := range ends {
		t.Run(how, func(t *testing.T) {
			s, _ := counting(t, "2s")
			end(s)
			s.eventually("the container ends by itself", func() error {
				if left := s.containers(engine); len(left) > 0 {
					return fmt.Errorf("containers: %v", left)
				}
				return nil
			})
		})
	}
}

// count is what the counter writes up to n.
func count(n int) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintln(&text, i+1)
	}
	return text.String()
}
