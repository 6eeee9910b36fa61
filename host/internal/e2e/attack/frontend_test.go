package attack

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/sdk/channel"
)

// frontend is one way into a host.
type frontend struct {
	name string
	// send has the agent's model read a text, and tells where it was said. nth is the turn that it will be there.
	send func(s *site, agent, control, text string) (at place, nth int)
	// child is true where the text is read in a turn that another agent has delegated.
	child bool
}

// frontends are the ways in by which a text reaches a model. The other two, a tool call without a model and a program's helper call, are in
// table_test.go.
var frontends = []frontend{
	{name: "channel", send: byChannel},
	{name: "web", send: local("web")},
	{name: "terminal", send: local("terminal")},
	{name: "openai", send: byOpenAI},
	{name: "mcp", send: byMCP},
	{name: "schedule", send: bySchedule},
	{name: "delegated", send: byDelegation, child: true},
}

// names gives conversations names of their own.
var names atomic.Int64

func fresh(prefix string) string { return fmt.Sprintf("%s-%d", prefix, names.Add(1)) }

// byChannel is a member's private message; [routing] senders sends each member to the agent of his name.
func byChannel(s *site, agent, _, text string) (place, int) {
	c := fresh("dm")
	s.says(agent, c, text)
	return place{"chat", c}, 1
}

func (s *site) says(sender, conversation, text string) (event string) {
	s.t.Helper()
	return s.said(channel.Event{
		Conversation: channel.Conversation{ID: conversation, Kind: channel.DM}, Sender: channel.Sender{ID: sender, Name: sender}, Addressed: true,
		Text: text,
	})
}

// local is the owner at this machine, who chooses the agent first.
func local(frontend string) func(*site, string, string, string) (place, int) {
	return func(s *site, agent, _, text string) (place, int) {
		s.t.Helper()
		at := place{frontend, fresh("own")}
		s.row(frontend, s.types(at, "/agent "+agent), mailbox.InboxDone)
		s.types(at, text)
		return at, 1
	}
}

func (s *site) types(at place, text string) (event string) {
	s.t.Helper()
	event = fresh("typed")
	code, answer := s.http(http.MethodPost, "/api/v1/conversations/"+at.channel+"/"+at.conversation+"/messages", s.token, map[string]string{"id": event, "text": text})
	if code != http.StatusAccepted {
		s.t.Fatalf("the %s refuses: %d %s", at.channel, code, answer)
	}
	return event
}

// byOpenAI is a program at /v1. It does not wait for its answer here: what the store says counts.
func byOpenAI(s *site, agent, _, text string) (place, int) {
	session := fresh("chat")
	s.later(func() { s.asks(clientToken, agent, session, text) })
	return place{"openai", "prog/" + session}, 1
}

func (s *site) asks(token, agent, session, text string) (code int, answer string) {
	return s.http(http.MethodPost, "/v1/chat/completions", token, map[string]any{
		"model": agent, "user": session, "messages": []map[string]string{{"role": "user", "content": text}},
	})
}

// later does something at the same time, and waits for it at the end of the test.
func (s *site) later(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	s.t.Cleanup(func() { <-done })
}

// byMCP is a program at /mcp that calls the tool which asks an agent.
func byMCP(s *site, agent, _, text string) (place, int) {
	session := fresh("mcp")
	s.later(func() { s.mcp(clientToken, "ask_"+agent, map[string]any{"message": text, "session": session}) })
	return place{"mcp", "prog/" + session}, 1
}

// mcp calls a tool of the MCP server in one request: it has no sessions of its own.
func (s *site) mcp(token, tool string, args map[string]any) (code int, answer string) {
	return s.http(http.MethodPost, "/mcp", token, map[string]any{
		"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": map[string]any{"name": tool, "arguments": args},
	})
}

// bySchedule runs the schedule of that control, whose text the configuration has already.
func bySchedule(s *site, _, control, _ string) (place, int) {
	s.t.Helper()
	nth := len(s.turns(place{"schedule", control})) + 1
	s.eventually("the schedule runs", func() error {
		code, answer := s.http(http.MethodPost, "/api/v1/schedules/"+control+"/runs", s.token, nil)
		if code != http.StatusOK {
			return fmt.Errorf("%d %s", code, answer)
		}
		return nil
	})
	return place{"schedule", control}, nth
}

// byDelegation has the agent boss, which may do everything, give the text to the agent as work.
func byDelegation(s *site, agent, _, text string) (place, int) {
	s.t.Helper()
	work, err := json.Marshal(map[string]string{"agent": agent, "task": text})
	if err != nil {
		s.t.Fatal(err)
	}
	return byChannel(s, "boss", "", "!tool agent.delegate "+string(work))
}

// turn waits for the turn in which a text is read to begin.
func (d frontend) turn(s *site, at place, nth int) turnlog.Turn {
	s.t.Helper()
	var turn turnlog.Turn
	s.eventually(fmt.Sprintf("turn %d of %v begins", nth, at), func() error {
		turns := s.turns(at)
		if len(turns) < nth {
			return fmt.Errorf("there are %d", len(turns))
		}
		turn = turns[nth-1]
		if !d.child {
			return nil
		}
		var err error
		turn, err = s.store.Child(s.t.Context(), turn.ID, "demo_1")
		return err
	})
	return turn
}

// over waits for it to end.
func (d frontend) over(s *site, at place, nth int) turnlog.Turn {
	s.t.Helper()
	s.ended(at, nth)
	return d.turn(s, at, nth)
}

// none fails when there is a turn, or a message that was taken, in a place.
func (s *site) none(t *testing.T, at place) {
	t.Helper()
	if turns := s.turns(at); len(turns) > 0 {
		t.Errorf("there are turns: %+v", turns)
	}
	rows, err := s.store.PendingInbox(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if r.Message.Channel == at.channel && strings.HasPrefix(r.Message.Conversation.ID, at.conversation) {
			t.Errorf("a message waits: %+v", r)
		}
	}
}
