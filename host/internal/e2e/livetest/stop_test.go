package livetest

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
)

// owedStop is how soon who stops an answer is told that it has stopped.
const owedStop = time.Second

// unguarded is an agent whose commands run on the host without a question.
const unguarded = `
[agent_configs.main]
tool_profile = "coding"
approve = "none"
[routing]
default_agent = "main"
[gateway]
listen = "127.0.0.1:%PORT%"
[store]
dir = "%DIR%/state"
`

const demoModel = "[models.default]\nprovider = \"demo\"\n"

// stops says something that takes for ever, waits until it has begun, stops it, and looks that nothing of it is left. It does so three
// times at least, and the quickest counts: the machine may have other work, and then there are more.
func (s *site) stops(text string, begun, gone func(n int) error) {
	s.t.Helper()
	best := time.Hour
	for n := 0; n < 3 || best > owedStop && n < 12; n++ {
		conversation := "c" + strconv.Itoa(n)
		s.send(conversation, "long-"+conversation, strings.ReplaceAll(text, "MARK", conversation))
		s.eventually("it has begun", func() error { return begun(n) })
		at := time.Now()
		s.send(conversation, "stop-"+conversation, "/stop")
		s.eventually("it is stopped", func() error {
			for _, e := range s.history(conversation) {
				if e.From == gateway.FromAgent && e.Text == "Stopped." && e.IsError {
					return nil
				}
			}
			return errors.New("no word of it yet")
		})
		best = min(best, time.Since(at))
		s.eventually("nothing is left", func() error { return gone(n) })
	}
	s.t.Logf("told after %s", best.Round(time.Millisecond))
	if best > owedStop {
		s.t.Errorf("who stopped it was told after %s, owed are %s", best, owedStop)
	}
}

// pidsIn reads the numbers that a command has written to files of the workspace.
func (s *site) pidsIn(names ...string) (pids []int, err error) {
	for _, name := range names {
		var pid int
		for _, file := range s.workspaceFiles() {
			if strings.HasSuffix(file, "/"+name) {
				text, err := os.ReadFile(file)
				if err != nil {
					return nil, err
				}
				pid, _ = strconv.Atoi(strings.TrimSpace(string(text)))
			}
		}
		if pid == 0 {
			return nil, fmt.Errorf("no process is written to %s", name)
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

func TestStopEndsACommandOnTheHost(t *testing.T) {
	t.Parallel()
	s := newSite(t, unguarded+demoModel)
	s.start()
	var mine []int
	s.stops("!sh (setsid sleep 1000 & echo $! > child-MARK); echo $$ > parent-MARK; exec sleep 1000", func(n int) (err error) {
		mine, err = s.pidsIn(fmt.Sprint("child-c", n), fmt.Sprint("parent-c", n))
		return err
	}, func(int) error {
		for _, pid := range mine {
			if alive(pid) {
				return fmt.Errorf("process %d of %v lives", pid, mine)
			}
		}
		return nil
	})
}

func TestStopEndsACommandInASandbox(t *testing.T) {
	t.Parallel()
	engine := sandboxtest.Engine(t)
	s := newSite(t, sandboxed+"image = \""+sandboxtest.Image+"\"\n")
	s.start()
	sleeping := func() (n int, err error) {
		for _, id := range s.containers(engine) {
			top, err := engine.API.ContainerTop(t.Context(), id, nil)
			if err != nil {
				return 0, err
			}
			for _, p := range top.Processes {
				if strings.Contains(strings.Join(p, " "), "sleep 1000") {
					n++
				}
			}
		}
		return n, nil
	}
	s.stops("!sh sleep 1000 & sleep 1000", func(int) error {
		if n, err := sleeping(); n < 2 {
			return fmt.Errorf("%d sleep, %w", n, err)
		}
		return nil
	}, func(int) error {
		if n, err := sleeping(); n > 0 || err != nil {
			return fmt.Errorf("%d still sleep, %w", n, err)
		}
		return nil
	})
	for _, id := range s.containers(engine) {
		if err := engine.API.ContainerRemove(t.Context(), id, container.RemoveOptions{Force: true}); err != nil {
			t.Error(err)
		}
	}
}

func TestStopEndsAModelCallThatHangs(t *testing.T) {
	asked, left := make(chan struct{}, 100), make(chan struct{}, 100)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) // a server sees only then that a client leaves
		asked <- struct{}{}
		<-r.Context().Done()
		left <- struct{}{}
	}))
	defer server.Close()
	defer server.CloseClientConnections()
	s := newSite(t, unguarded+fmt.Sprintf("[models.default]\nprovider = \"openai\"\nmodel = \"m\"\nbase_url = %q\napi_key_env = \"FLYNN_LIVETEST_KEY\"\n", server.URL))
	s.start()
	one := func(what string, of <-chan struct{}) error {
		select {
		case <-of:
			return nil
		default:
			return errors.New("nobody has " + what)
		}
	}
	s.stops("hello", func(int) error { return one("asked", asked) }, func(int) error { return one("left", left) })
}

// TestTheKillSwitch stops a command, keeps what is said meanwhile over a restart, and answers it afterwards.
func TestTheKillSwitch(t *testing.T) {
	t.Parallel()
	s := newSite(t, unguarded+demoModel)
	s.start()
	s.send("a", "a1", "!sh echo $$ > pid; exec sleep 1000")
	var mine []int
	s.eventually("the command runs", func() (err error) { mine, err = s.pidsIn("pid"); return err })
	s.mustFlynn("stop", "--reason", "it sleeps")
	if got := s.reply("a", 1); got.Text != "Stopped: everything is halted until an owner resumes it." {
		t.Errorf("the answer is %+v", got)
	}
	s.eventually("the command is gone", func() error {
		if alive(mine[0]) {
			return errors.New("it lives")
		}
		return nil
	})
	s.send("b", "b1", "hello")
	s.kill()
	s.start()
	if h := s.status().Halt; h == nil || h.Reason != "it sleeps" {
		t.Errorf("the status is %+v", h)
	}
	for _, e := range s.history("b") {
		if strings.Contains(e.Text, "You said: hello") {
			t.Error("a message was answered while everything was halted")
		}
	}
	s.mustFlynn("resume")
	s.eventually("what waited is answered", func() error {
		for _, e := range s.history("b") {
			if e.Text == "You said: hello" {
				return nil
			}
		}
		return fmt.Errorf("history is %+v", s.history("b"))
	})
}
