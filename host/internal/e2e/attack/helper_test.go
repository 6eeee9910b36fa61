package attack

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
	"github.com/flynnhost/flynn/sdk/channel"
)

// helperAgents are of kind code, each held by one control.
const helperAgents = `
[routing.senders]
"chat:able" = "able"
"chat:poor" = "poor"
"chat:judged" = "judged"
"chat:boxed" = "boxed"
"chat:broke" = "broke"
[agent_configs.able]
kind = "code"
tool_profile = "coding"
sandbox = false
[agent_configs.poor]
kind = "code"
tool_profile = "minimal"
sandbox = false
[agent_configs.judged]
kind = "code"
tool_profile = "coding"
sandbox = false
[agent_configs.boxed]
kind = "code"
tool_profile = "coding"
[agent_configs.broke]
kind = "code"
tool_profile = "minimal"
sandbox = false
tokens_per_day = 5_000
[agent_configs.broke.tool_overrides]
allow = ["think.hard"]
`

// newLab runs a host whose agents write programs, on a real engine.
func newLab(t *testing.T) *site {
	t.Helper()
	image := sandboxtest.Engine(t).Python(t)
	text := `
[store]
dir = "%DIR%/state"
[gateway]
listen = "127.0.0.1:0"
token_file = "%DIR%/gateway.token"
[models.default]
provider = "demo"
max_output_tokens = 200
[access]
members = ["chat:able", "chat:poor", "chat:judged", "chat:boxed", "chat:broke"]
[sessions]
private = "conversation"
[routing]
default_agent = "poor"
[channels.chat]
plugin = "chat"
[plugins.dev_paths]
chat = "%DIR%/plugin"
[sandbox]
enabled = true
image = "` + image + `"
engine = "` + os.Getenv("DOCKER_HOST") + `"
[[policies]]
name = "untrusted-content"
path = "%POLICIES%/untrusted-content.wasm"
limits = { wall = "10s" }
kinds = ["tool"]
agents = ["judged"]
[policies.data]
untrusted = "sender:member"
execute = "none"
write = "deny"
` + helperAgents
	for _, name := range []string{"able", "poor", "judged", "boxed", "broke"} {
		text += fmt.Sprintf("[agent_configs.%s.code]\nimage = %q\nwarm_pool = 0\ntimeout_seconds = 120\n", name, image)
	}
	return newSite(t, withPolicies(t, text))
}

// program is what a model writes that has a program make one call, and print what came of it.
func program(call string) string {
	return "!py import flynn\ntry:\n    print('answer:', flynn.call(" + call + "))\nexcept flynn.Error as e:\n    print('refused:', e)"
}

func writing(file string) string { return fmt.Sprintf(`"file.write", path=%q, content="x"`, file) }

// TestHelpers is the row of the attack table for the calls that a running program makes.
func TestHelpers(t *testing.T) {
	s := newLab(t)
	for _, c := range []struct {
		control, agent, call string
		want                 string // in what the program prints
		written              bool
	}{
		{"allowed", "able", writing("allowed"), "answer: ", true},
		{"profile", "poor", writing("profile"), `refused: refused: tool "file.write" is not offered`, false},
		{"schema", "able", writing("schema") + ", mode=511", "the arguments do not fit the tool's schema", false},
		{"policy", "judged", writing("policy"), "refused: a policy denies this call: untrusted-content: the session has touched sender:member", false},
		{"sandbox", "boxed", `"shell.exec", command="touch sandbox; test -e /.dockerenv && echo inside"`, "inside", true},
		{"budget", "broke", `"think.hard", question="1" * 64_000`, "budget", false},
	} {
		s.cell(t, c.control, func(t *testing.T) {
			turn, printed := s.program(c.agent, program(c.call))
			if !strings.Contains(printed, c.want) {
				t.Errorf("the program prints %q, want %q", printed, c.want)
			}
			if waiting := s.waiting(turn.ID); len(waiting) > 0 {
				t.Errorf("a person is asked: %+v", waiting)
			}
			if files := s.files(c.control); len(files) > 0 != c.written {
				t.Errorf("files are %q", files)
			}
		})
	}
	s.cell(t, "approval", s.helperUnapproved)
	s.cell(t, "kill switch", s.helperKilled)
}

// program has an agent's program run to its end.
func (s *site) program(agent, text string) (turn turnlog.Turn, printed string) {
	s.t.Helper()
	c := fresh("code")
	s.says(agent, c, text)
	turn = s.ended(place{"chat", c}, 1)
	calls := s.calls(turn.ID)
	if len(calls) != 1 || calls[0].Decision != "run_in_sandbox" {
		s.t.Fatalf("turn %+v has the calls %+v", turn, calls)
	}
	return turn, calls[0].Result.Text
}

// helperUnapproved has a person refuse what a program asks for.
func (s *site) helperUnapproved(t *testing.T) {
	c := fresh("code")
	s.says("able", c, program(`"shell.exec", command="touch approval"`))
	d, at := frontend{name: "channel"}, place{"chat", c}
	_, request := s.asked(t, d, at, 1)
	if files := s.files("approval"); len(files) > 0 {
		t.Errorf("it was done before anybody agreed: %q", files)
	}
	s.decides(t, request.ID, false)
	if calls := s.calls(s.ended(at, 1).ID); len(calls) != 1 || !strings.Contains(calls[0].Result.Text, "did not approve this call") {
		t.Errorf("calls are %+v", calls)
	}
	if files := s.files("approval"); len(files) > 0 {
		t.Errorf("it was done: %q", files)
	}
}

// helperKilled throws the kill switch while a program makes one call after the other. It ends, and so do they.
func (s *site) helperKilled(t *testing.T) {
	c := fresh("code")
	s.said(channel.Event{
		Conversation: channel.Conversation{ID: c, Kind: channel.DM}, Sender: channel.Sender{ID: "able"}, Addressed: true,
		Text: "!py import flynn, time\nflynn.call('file.write', path='killed', content='x')\ntime.sleep(100)\n" +
			"try:\n    flynn.call('file.write', path='killed-later', content='x')\nexcept flynn.Error:\n    pass",
	})
	s.eventually("the program runs", func() error {
		if len(s.files("killed")) == 0 {
			return fmt.Errorf("turns are %+v", s.turns(place{"chat", c}))
		}
		return nil
	})
	if code, answer := s.http(http.MethodPut, "/api/v1/halt", s.token, map[string]string{"reason": "an attack"}); code != http.StatusNoContent {
		t.Fatalf("halt: %d %s", code, answer)
	}
	if turn := s.ended(place{"chat", c}, 1); turn.State != turnlog.TurnStopped {
		t.Errorf("turn %+v", turn)
	}
	if files := s.files("killed-later"); len(files) > 0 {
		t.Errorf("it was done: %q", files)
	}
}
