package livetest

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

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

// A process that an agent has started in the background outlasts the host, and the agent finds it again.
func TestBackgroundProcessOutlastsTheHost(t *testing.T) {
	engine := sandboxtest.Engine(t)
	for how, end := range map[string]func(*site){"killed": (*site).kill, "stopped": (*site).stop} {
		t.Run(how, func(t *testing.T) {
			s := newSite(t, sandboxed+"image = \""+sandboxtest.Image+"\"\nlease = \"5s\"\n")
			s.start()
			started := s.tool(1, "process.start", map[string]string{"command": "i=0; while :; do i=$((i+1)); echo $i; sleep 0.05; done"})
			pid := regexp.MustCompile(`started 1 with pid (\d+)`).FindStringSubmatch(started)
			if pid == nil {
				t.Fatalf("start: %s", started)
			}
			before := s.containers(engine)
			end(s)
			if how == "stopped" {
				s.logged("sandboxes with background processes stay for their lease", "count=1")
			}
			s.start()
			s.logged("a sandbox goes on with its background processes", "processes=1")
			if list := s.tool(2, "process.list", map[string]string{}); !strings.Contains(list, "1  pid "+pid[1]+"  running") {
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
