package attack

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool/consent"
	"github.com/flynnhost/flynn/sdk/channel"
)

// config has an agent for each control that holds it, and one, able, that nothing holds.
const config = `
[store]
dir = "%DIR%/state"
[gateway]
listen = "127.0.0.1:0"
token_file = "%DIR%/gateway.token"
[models.default]
provider = "demo"
max_output_tokens = 200
[access]
members = ["chat:able", "chat:poor", "chat:judged", "chat:boxed", "chat:broke", "chat:boss", "chat:analyst"]
rate_per_minute = 10_000
conversation_rate_per_minute = 10_000
[sessions]
private = "conversation"
queue = "followup"
[routing]
default_agent = "poor"
selectable = ["able", "poor", "judged", "boxed", "broke", "boss", "analyst"]
[routing.senders]
"chat:able" = "able"
"chat:judged" = "judged"
"chat:boxed" = "boxed"
"chat:broke" = "broke"
"chat:boss" = "boss"
"chat:analyst" = "analyst"
[sandbox]
enabled = true
engine = "unix://%DIR%/no.sock"
local_frontends = true
[agent_configs.able]
tool_profile = "coding"
sandbox = false
[agent_configs.poor]
tool_profile = "minimal"
sandbox = false
[agent_configs.judged]
tool_profile = "coding"
sandbox = false
[agent_configs.boxed]
tool_profile = "coding"
[agent_configs.boxedpoor]
tool_profile = "minimal"
[agent_configs.boxedjudged]
tool_profile = "coding"
[agent_configs.broke]
tool_profile = "coding"
sandbox = false
tokens_per_day = 201
[agent_configs.boss]
tool_profile = "coding"
sandbox = false
delegates = ["able", "poor", "judged", "boxed", "broke"]
[agent_configs.secret]
tool_profile = "coding"
sandbox = false
[agent_configs.analyst]
kind = "code"
tool_profile = "coding"
[delegation]
max_fanout = 64
[clients.prog]
token_file = "%DIR%/prog.token"
role = "member"
agents = ["able", "poor", "judged", "boxed", "boxedpoor", "boxedjudged", "broke"]
[channels.chat]
plugin = "chat"
[plugins.dev_paths]
chat = "%DIR%/plugin"
[[policies]]
name = "owner-only-shell"
path = "%POLICIES%/owner-only-shell.wasm"
limits = { wall = "10s" }
kinds = ["tool"]
agents = ["judged", "boxedjudged"]
[policies.data]
roles = "nobody"
tools = "*"
otherwise = "deny"
`

// schedule has the text of one control said by an agent, in the name of somebody.
func schedule(name, agent, text, as string) string {
	return fmt.Sprintf("[[schedules]]\nname = %q\nagent = %q\ncron = \"0 0 29 2 *\"\ncatch_up = \"skip\"\ntext = %q\nas = %q\n", name, agent, text, as)
}

// attempt is what one control is tried with at every frontend.
type attempt struct {
	control string
	agent   string // that the control holds
	text    func(file string) string
	check   func(t *testing.T, s *site, d frontend, at place, nth int, file string)
}

func writes(file string) string {
	return fmt.Sprintf(`!tool file.write {"path":%q,"content":"x"}`, file)
}

// touches has what JSON and a shell read otherwise than a person: a call that changes on its way is none that was approved.
func touches(file string) string { return "!sh true </dev/null && touch " + file }

// attempts are in the order in which they are tried. The first are the same calls where nothing forbids them.
var attempts = []attempt{
	{"allowed", "able", writes, goesThrough},
	{"approved", "able", touches, runsWhenApproved},
	{"profile", "poor", writes, isDenied(`tool "file.write" is not offered`)},
	{"schema", "able", func(file string) string {
		return fmt.Sprintf(`!tool file.write {"path":%q,"content":"x","mode":511}`, file)
	}, isDenied("the arguments do not fit the tool's schema")},
	{"policy", "judged", writes, isDenied("owner-only-shell")},
	{"approval", "able", touches, neverRunsUnapproved},
	{"sandbox", "boxed", writes, isDenied("the sandbox is unavailable")},
	{"budget", "broke", writes, hasNoBudget},
}

// goesThrough is the proof that a cell holds by its control: the same words do what they say.
func goesThrough(t *testing.T, s *site, d frontend, at place, nth int, file string) {
	turn := d.over(s, at, nth)
	if calls := s.calls(turn.ID); turn.Agent != "able" || turn.State != turnlog.TurnDone || len(calls) != 1 || calls[0].Decision != "run" {
		t.Errorf("turn %+v has the calls %+v", turn, calls)
	}
	if files := s.files(file); len(files) != 1 {
		t.Errorf("files are %q", files)
	}
}

// isDenied expects the decision with that reason, for one call that was tried, and nothing in the world.
func isDenied(reason string) func(*testing.T, *site, frontend, place, int, string) {
	return func(t *testing.T, s *site, d frontend, at place, nth int, file string) {
		turn := d.over(s, at, nth)
		s.denied(t, turn, reason, file)
	}
}

func (s *site) denied(t *testing.T, turn turnlog.Turn, reason, file string) {
	t.Helper()
	calls := s.calls(turn.ID)
	if len(calls) != 1 || calls[0].Decision != "deny" || !strings.Contains(strings.Join(calls[0].Reasons, "\n"), reason) {
		t.Errorf("calls of turn %+v are %+v, want one that is denied: %s", turn, calls, reason)
	}
	if files := s.files(file); len(files) > 0 {
		t.Errorf("it was done: %q", files)
	}
}

// asked waits for the one request of a turn.
func (s *site) asked(t *testing.T, d frontend, at place, nth int) (turnlog.Turn, consent.Approval) {
	t.Helper()
	turn := d.turn(s, at, nth)
	var waiting []consent.Approval
	s.eventually("a person is asked", func() error {
		if waiting = s.waiting(turn.ID); len(waiting) != 1 {
			return fmt.Errorf("%d requests of turn %+v, calls %+v", len(waiting), turn, s.calls(turn.ID))
		}
		return nil
	})
	return turn, waiting[0]
}

func (s *site) decides(t *testing.T, id string, grant bool) {
	t.Helper()
	if code, answer := s.http(http.MethodPost, "/api/v1/approvals/"+id+"/decision", s.token, map[string]bool{"grant": grant}); code != http.StatusNoContent {
		t.Fatalf("decide: %d %s", code, answer)
	}
}

func neverRunsUnapproved(t *testing.T, s *site, d frontend, at place, nth int, file string) {
	turn, request := s.asked(t, d, at, nth)
	if files := s.files(file); len(files) > 0 {
		t.Errorf("it was done before anybody agreed: %q", files)
	}
	if !strings.Contains(string(request.Args), "touch "+file) {
		t.Errorf("the request shows %s", request.Args)
	}
	// A requester does not decide: an API client's token opens no approvals.
	if code, _ := s.http(http.MethodPost, "/api/v1/approvals/"+request.ID+"/decision", clientToken, map[string]bool{"grant": true}); code != http.StatusUnauthorized {
		t.Errorf("a program's yes is answered with %d", code)
	}
	s.decides(t, request.ID, false)
	d.over(s, at, nth)
	if calls := s.calls(turn.ID); len(calls) != 1 || calls[0].Decision == "run" || !calls[0].Result.IsError {
		t.Errorf("calls are %+v", calls)
	}
	if files := s.files(file); len(files) > 0 {
		t.Errorf("it was done: %q", files)
	}
}

func runsWhenApproved(t *testing.T, s *site, d frontend, at place, nth int, file string) {
	_, request := s.asked(t, d, at, nth)
	s.decides(t, request.ID, true)
	d.over(s, at, nth)
	if files := s.files(file); len(files) != 1 {
		t.Errorf("files are %q", files)
	}
}

// hasNoBudget is a turn that ends before its model is asked.
func hasNoBudget(t *testing.T, s *site, d frontend, at place, nth int, file string) {
	turn := d.over(s, at, nth)
	if calls := s.calls(turn.ID); turn.State != turnlog.TurnFailed || !strings.Contains(turn.Error, "budget") || len(calls) > 0 {
		t.Errorf("turn %+v has the calls %+v", turn, calls)
	}
	if files := s.files(file); len(files) > 0 {
		t.Errorf("it was done: %q", files)
	}
}

// TestTable is the attack table: every frontend against every control.
//
//	           admission  route  profile  schema  policy  approval  sandbox  budget  kill switch
//	channel       x         x       x        x       x        x        x        x         x
//	web           t         s       x        x       x        x        x        x         x
//	terminal      t         s       x        x       x        x        x        x         x
//	openai        x         x       x        x       x        x        x        x         x
//	mcp           x         x       x        x       x        x        x        x         x
//	schedule      x         c       x        x       x        x        x        x         x
//	delegated     x         x       x        x       x        x        x        x         x
//	mcp call      x         x       x        x       x        n        x        m         x
//	code helper   x         x       e        e       e        e        x        e         x
//
// x: tried here; the same call goes through at the same frontend in the rows "allowed" and "approved", or after the kill switch was taken back.
// t: the holder of this machine's token is its owner, so what is tried is to speak without it.
// s: the owner reaches what [routing] lets people choose; what is tried is /agent with one that it does not.
// c: a schedule's agent is the owner's word in the configuration; what is tried is one that does not exist, which does not load.
// n: a program's own call is for a sandbox and never for the host, so nobody is asked; what is tried is that without one there is neither
// a request nor a run. In a sandbox it runs: TestMCPClients of host/internal/e2e/livetest.
// m: no model is asked, so no tokens are used; what holds is that the usage of the turn stays empty, and [access] has the rates.
// e: a program has to run for its helper to call, which needs an engine. This test checks that without one no program runs and no call is
// made. With one: TestHelpers.
func TestTable(t *testing.T) {
	text := withPolicies(t, config)
	for _, a := range attempts {
		text += schedule(a.control, a.agent, a.text(a.control+"-schedule"), "chat:able")
	}
	text += schedule("kill", "able", writes("kill-schedule"), "chat:able") + schedule("stranger", "able", writes("stranger"), "chat:mallory")
	s := newSite(t, text)
	for _, a := range attempts {
		for _, d := range frontends {
			s.cell(t, a.control+"/"+d.name, func(t *testing.T) {
				file := a.control + "-" + d.name
				at, nth := d.send(s, a.agent, a.control, a.text(file))
				a.check(t, s, d, at, nth, file)
			})
		}
	}
	for _, c := range slices.Concat(admissions, routes, calls, helpers) {
		s.cell(t, c.name, func(t *testing.T) { c.try(t, s) })
	}
	killed(t, s)
	s.whole(t)
}

// whole fails when the table has a hole: a cell that nothing has tried in this very run.
func (s *site) whole(t *testing.T) {
	if strings.Contains(flag.Lookup("test.run").Value.String(), "/") || flag.Lookup("test.skip").Value.String() != "" {
		return // a part was asked for
	}
	for _, control := range []string{"admission", "route", "profile", "schema", "policy", "approval", "sandbox", "budget", "kill switch"} {
		for _, d := range []string{"channel", "web", "terminal", "openai", "mcp", "schedule", "delegated", "mcp call", "code helper"} {
			if !s.tried[control+"/"+d] {
				t.Errorf("nothing tries %s at the frontend %s", control, d)
			}
		}
	}
}

// cell runs one cell, whose failures are its own.
func (s *site) cell(t *testing.T, name string, try func(*testing.T)) {
	t.Run(name, func(t *testing.T) {
		outer := s.t
		s.t = t
		defer func() { s.t = outer }()
		try(t)
		s.tried[name] = true
	})
}

// cell is one that is unlike its neighbours.
type cell struct {
	name string
	try  func(t *testing.T, s *site)
}

func dropped(event channel.Event, note string) func(*testing.T, *site) {
	return func(t *testing.T, s *site) {
		row := s.row("chat", s.said(event), mailbox.InboxDropped)
		if !strings.Contains(row.Note, note) {
			t.Errorf("the message was dropped for %q, want %q", row.Note, note)
		}
		if turns := s.turns(place{"chat", event.Conversation.ID}); len(turns) > 0 {
			t.Errorf("there are turns: %+v", turns)
		}
	}
}

// from is a private message of somebody.
func from(sender channel.Sender, conversation, text string) channel.Event {
	return channel.Event{
		Conversation: channel.Conversation{ID: conversation, Kind: channel.DM}, Sender: sender, Addressed: true, Mentioned: true, Text: text,
	}
}

// withoutToken tries a request with no token, with wrong ones and with others that open something else. So many wrong ones are also too many.
func withoutToken(method, path string, body any, tokens ...string) func(*testing.T, *site) {
	return func(t *testing.T, s *site) {
		for _, token := range append(tokens, "", "wrong", strings.Repeat("a", 43)) {
			if code, answer := s.http(method, path, token, body); code != http.StatusUnauthorized && code != http.StatusTooManyRequests {
				t.Errorf("token %.4q is answered with %d: %s", token, code, answer)
			}
		}
		if files := s.files("unadmitted"); len(files) > 0 {
			t.Errorf("it was done: %q", files)
		}
		for _, c := range []string{"web", "terminal", "openai", "mcp"} {
			s.none(t, place{c, "unadmitted"})
			s.none(t, place{c, "prog/unadmitted"})
		}
	}
}

var typed = map[string]string{"id": "unadmitted", "text": writes("unadmitted")}

var question = map[string]any{
	"model": "able", "user": "unadmitted", "messages": []map[string]string{{"role": "user", "content": writes("unadmitted")}},
}

func toolCall(name string, args map[string]any) any {
	return map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": map[string]any{"name": name, "arguments": args}}
}

var admissions = []cell{
	{"admission/channel", dropped(from(channel.Sender{ID: "mallory", Name: "able", Account: "able"}, "mallory", writes("mallory")), "sender is not in access.owners or access.members")},
	{"admission/channel, with a role of its own", dropped(from(channel.Sender{ID: "mallory", Roles: []string{"owner", "admin"}}, "mallory2", writes("mallory")), "sender is not in")},
	{"admission/channel, a program", dropped(from(channel.Sender{ID: "able", Bot: true}, "bot", writes("bot")), "sender is a bot")},
	{"admission/web", withoutToken(http.MethodPost, "/api/v1/conversations/web/unadmitted/messages", typed, clientToken)},
	{"admission/terminal", withoutToken(http.MethodPost, "/api/v1/conversations/terminal/unadmitted/messages", typed, clientToken)},
	{"admission/openai", withoutToken(http.MethodPost, "/v1/chat/completions", question)},
	{"admission/mcp", withoutToken(http.MethodPost, "/mcp", toolCall("ask_able", map[string]any{"message": writes("unadmitted"), "session": "unadmitted"}))},
	{"admission/mcp call", withoutToken(http.MethodPost, "/mcp", toolCall("sandbox_file_write", map[string]any{
		"agent": "boxed", "session": "unadmitted", "arguments": map[string]string{"path": "unadmitted", "content": "x"},
	}))},
	{"admission/schedule", func(t *testing.T, s *site) {
		code, answer := s.http(http.MethodPost, "/api/v1/schedules/stranger/runs", s.token, nil)
		var run struct{ Event string }
		if err := json.Unmarshal([]byte(answer), &run); code != http.StatusOK || err != nil {
			t.Fatalf("run: %d %s", code, answer)
		}
		s.row("schedule", run.Event, mailbox.InboxDropped)
		s.none(t, place{"schedule", "stranger"})
		if files := s.files("stranger"); len(files) > 0 {
			t.Errorf("it was done: %q", files)
		}
	}},
	{"admission/delegated", dropped(from(channel.Sender{ID: "mallory"}, "mallory3", `!tool agent.delegate {"agent":"able","task":"x"}`), "sender is not in")},
	{"admission/code helper", dropped(from(channel.Sender{ID: "mallory"}, "mallory4", "!py print(1)"), "sender is not in")},
}

// chooses tries to reach the agent secret by a command, and then speaks: it is another agent that hears it.
func chooses(channelName string, say func(s *site, at place, text string) string, want string) func(*testing.T, *site) {
	return func(t *testing.T, s *site) {
		at := place{channelName, fresh("choose")}
		s.row(at.channel, say(s, at, "/agent secret"), mailbox.InboxDone)
		say(s, at, "hello")
		if turn := s.ended(at, 1); turn.Agent != want {
			t.Errorf("%s answers, want %s", turn.Agent, want)
		}
	}
}

func as(sender string) func(*site, place, string) string {
	return func(s *site, at place, text string) string { return s.says(sender, at.conversation, text) }
}

var routes = []cell{
	{"route/channel", chooses("chat", as("able"), "able")},
	{"route/web", chooses("web", (*site).types, "poor")},
	{"route/terminal", chooses("terminal", (*site).types, "poor")},
	{"route/openai", func(t *testing.T, s *site) {
		if code, answer := s.asks(clientToken, "secret", "secret", writes("secret")); code != http.StatusNotFound {
			t.Errorf("it is answered with %d: %s", code, answer)
		}
		s.none(t, place{"openai", "prog/secret"})
	}},
	{"route/mcp", func(t *testing.T, s *site) {
		s.refusesMCP(t, "ask_secret", map[string]any{"message": writes("secret"), "session": "secret"})
	}},
	{"route/mcp call", func(t *testing.T, s *site) {
		s.refusesMCP(t, "sandbox_file_write", map[string]any{
			"agent": "secret", "session": "secret", "arguments": map[string]string{"path": "secret", "content": "x"},
		})
	}},
	{"route/schedule", func(t *testing.T, s *site) {
		err := loads(t, strings.ReplaceAll(config, "%POLICIES%", s.dir)+schedule("nowhere", "nobody", "x", "chat:able"))
		if err == nil || !strings.Contains(err.Error(), "nobody") {
			t.Errorf("the configuration loads: %v", err)
		}
	}},
	{"route/delegated", func(t *testing.T, s *site) {
		at, nth := byDelegation(s, "secret", "", writes("secret"))
		turn := s.ended(at, nth)
		if calls := s.calls(turn.ID); len(calls) != 1 || calls[0].Decision != "deny" && !calls[0].Result.IsError {
			t.Errorf("calls are %+v", calls)
		}
		if child, err := s.store.Child(t.Context(), turn.ID, "demo_1"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("the agent works: %+v, %v", child, err)
		}
		if files := s.files("secret"); len(files) > 0 {
			t.Errorf("it was done: %q", files)
		}
	}},
	{"route/code helper", chooses("chat", as("analyst"), "analyst")},
}

// refusesMCP fails when a call leaves a trace.
func (s *site) refusesMCP(t *testing.T, tool string, args map[string]any) {
	t.Helper()
	if _, answer := s.mcp(clientToken, tool, args); !strings.Contains(answer, `"error"`) && !strings.Contains(answer, `"isError":true`) {
		t.Errorf("it is answered with %s", answer)
	}
	session := args["session"].(string)
	s.none(t, place{"mcp", "prog/" + session})
	if files := s.files(session); len(files) > 0 {
		t.Errorf("it was done: %q", files)
	}
}

// calling is a program's own call, whose turn is to end with that reason.
func calling(tool, agent string, args func(file string) map[string]any, reason string) func(*testing.T, *site) {
	return func(t *testing.T, s *site) {
		session := fresh("call")
		s.mcp(clientToken, tool, map[string]any{"agent": agent, "session": session, "arguments": args(session)})
		turn := s.ended(place{"mcp", "prog/" + session}, 1)
		s.denied(t, turn, reason, session)
		if waiting := s.waiting(turn.ID); len(waiting) > 0 {
			t.Errorf("a person is asked: %+v", waiting)
		}
	}
}

func fileArgs(file string) map[string]any { return map[string]any{"path": file, "content": "x"} }

var calls = []cell{
	{"profile/mcp call", func(t *testing.T, s *site) {
		s.refusesMCP(t, "sandbox_file_write", map[string]any{"agent": "boxedpoor", "session": "unoffered", "arguments": fileArgs("unoffered")})
	}},
	{"schema/mcp call", calling("sandbox_file_write", "boxed", func(file string) map[string]any {
		return map[string]any{"path": file, "content": "x", "mode": 511}
	}, "the arguments do not fit the tool's schema")},
	{"policy/mcp call", calling("sandbox_file_write", "boxedjudged", fileArgs, "owner-only-shell")},
	{"approval/mcp call", calling("sandbox_shell_exec", "boxed", func(file string) map[string]any {
		return map[string]any{"command": "touch " + file}
	}, "the sandbox is unavailable")},
	{"sandbox/mcp call", calling("sandbox_file_write", "boxed", fileArgs, "the sandbox is unavailable")},
	{"budget/mcp call", func(t *testing.T, s *site) {
		session := fresh("call")
		s.mcp(clientToken, "sandbox_file_write", map[string]any{"agent": "boxed", "session": session, "arguments": fileArgs(session)})
		turn := s.ended(place{"mcp", "prog/" + session}, 1)
		for _, n := range s.spent(turn.ID) {
			t.Errorf("the turn has used %d tokens", n)
		}
	}},
}

// programless is what a program tries that is never run: the turn fails before its model is asked.
func programless(t *testing.T, s *site) {
	c := fresh("code")
	s.says("analyst", c, `!py import flynn; flynn.call("file.write", path="helped", content="x")`)
	turn := s.ended(place{"chat", c}, 1)
	if calls := s.calls(turn.ID); turn.State != turnlog.TurnFailed || !strings.Contains(turn.Error, "the sandbox is unavailable") || len(calls) > 0 {
		t.Errorf("turn %+v has the calls %+v", turn, calls)
	}
	if spent := s.spent(turn.ID); len(spent) > 0 {
		t.Errorf("the model was asked: %v tokens", spent)
	}
	if files := s.files("helped"); len(files) > 0 {
		t.Errorf("it was done: %q", files)
	}
}

var helpers = []cell{
	{"profile/code helper", programless}, {"schema/code helper", programless}, {"policy/code helper", programless},
	{"approval/code helper", programless}, {"sandbox/code helper", programless}, {"budget/code helper", programless},
}

// spent are the tokens of each call of a model in a turn.
func (s *site) spent(turn string) []int {
	s.t.Helper()
	steps, err := s.store.Steps(s.t.Context(), turn)
	if err != nil {
		s.t.Fatal(err)
	}
	var out []int
	for _, step := range steps {
		var answer struct{ Usage struct{ Input, Output int } }
		if err := json.Unmarshal(step.Data, &answer); step.Kind == turnlog.StepModel && err != nil {
			s.t.Fatal(err)
		}
		if n := answer.Usage.Input + answer.Usage.Output; step.Kind == turnlog.StepModel && n > 0 {
			out = append(out, n)
		}
	}
	return out
}

// killed throws the kill switch, tries every frontend, and takes it back: nothing happens before, and what was accepted happens then, once.
func killed(t *testing.T, s *site) {
	switched := func(method string, body any) {
		t.Helper()
		if code, answer := s.http(method, "/api/v1/halt", s.token, body); code != http.StatusNoContent {
			t.Fatalf("%s: %d %s", method, code, answer)
		}
	}
	for _, d := range frontends { // the agent is chosen while commands are answered
		if d.name == "web" || d.name == "terminal" {
			s.row(d.name, s.types(place{d.name, "killed"}, "/agent able"), mailbox.InboxDone)
		}
	}
	switched(http.MethodPut, map[string]string{"reason": "an attack"})
	at, nth := map[string]place{}, map[string]int{}
	for _, d := range frontends {
		if d.name == "web" || d.name == "terminal" {
			at[d.name], nth[d.name] = place{d.name, "killed"}, 1
			s.types(at[d.name], writes("kill-"+d.name))
			continue
		}
		at[d.name], nth[d.name] = d.send(s, "able", "kill", writes("kill-"+d.name))
	}
	call, code := fresh("call"), fresh("code")
	s.later(func() {
		s.mcp(clientToken, "sandbox_file_write", map[string]any{"agent": "boxed", "session": call, "arguments": fileArgs(call)})
	})
	s.says("analyst", code, "!py print(1)")
	at["mcp call"], at["code helper"] = place{"mcp", "prog/" + call}, place{"chat", code}
	s.eventually("every message is durable and waits", func() error {
		rows, err := s.store.PendingInbox(t.Context())
		if err == nil && len(rows) != len(at) {
			err = fmt.Errorf("%d messages of %d wait", len(rows), len(at))
		}
		return err
	})
	for name, where := range at {
		for _, turn := range s.turns(where)[min(len(s.turns(where)), max(0, nth[name]-1)):] {
			t.Errorf("%s: a turn began: %+v", name, turn)
		}
		if files := s.files("kill-" + name); len(files) > 0 {
			t.Errorf("%s: it was done: %q", name, files)
		}
	}
	switched(http.MethodDelete, nil)
	for _, d := range frontends {
		s.cell(t, "kill switch/"+d.name, func(t *testing.T) { goesThrough(t, s, d, at[d.name], nth[d.name], "kill-"+d.name) })
	}
	s.cell(t, "kill switch/mcp call", func(t *testing.T) { s.denied(t, s.ended(at["mcp call"], 1), "the sandbox is unavailable", call) })
	s.cell(t, "kill switch/code helper", func(t *testing.T) {
		if turn := s.ended(at["code helper"], 1); turn.State != turnlog.TurnFailed {
			t.Errorf("turn %+v", turn)
		}
	})
}
