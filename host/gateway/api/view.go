package api

import (
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/message"
)

// view passes the events of the turns that answer a question to its client.
type view struct {
	host   Host
	of     message.Message
	client func(message.Event) // may be nil

	events <-chan message.Event
	stop   func()

	begun map[string]bool // turns that started since; events of earlier ones are not for this question
	text  string          // that the client has got since the last call of a tool
	lost  bool            // some text after that is missing: the client gets it with the answer
}

func newView(host Host, of message.Message, client func(message.Event)) *view {
	v := &view{host: host, of: of, client: client, begun: map[string]bool{}}
	v.join()
	return v
}

// join watches the conversation from now on. The turn may run already, if its events come from another host or this watcher was too slow.
func (v *view) join() {
	var live []message.Event
	live, v.events, v.stop = v.host.Watch(v.of.Channel, v.of.Conversation.ID)
	missed := map[string][]message.Event{} // by turn
	for turn := range v.begun {
		missed[turn] = nil
	}
	for _, e := range live {
		if past, known := missed[e.Turn]; known {
			missed[e.Turn] = append(past, e)
		} else if v.begun[e.Turn] || e.Kind == message.TurnStarted && slices.Contains(e.Answers, v.of.EventID) {
			v.event(e)
		}
	}
	for _, past := range missed {
		if len(past) > 0 { // it runs
			v.resume(past)
		}
	}
}

// resume continues a turn after a gap, given its past events. The client gets what it has not got since the last call of a tool.
func (v *view) resume(past []message.Event) {
	call := -1
	var text message.Event
	for i, e := range past {
		switch e.Kind {
		case message.ToolCall:
			call, text = i, message.Event{}
		case message.TextDelta:
			text = e
		}
	}
	rest, continues := strings.CutPrefix(text.Text, v.text)
	if !continues && call >= 0 {
		v.event(past[call])
		rest, continues = text.Text, true
	}
	if v.lost = !continues; continues && rest != "" {
		text.Text = rest
		v.event(text)
	}
}

// event passes on an event if it belongs to the question.
func (v *view) event(e message.Event) {
	if e.Kind == message.TurnStarted {
		v.begun[e.Turn], v.text, v.lost = true, "", false
	}
	if !v.begun[e.Turn] {
		return
	}
	switch e.Kind {
	case message.TextReset, message.ToolCall:
		v.text, v.lost = "", false
	case message.TextDelta:
		if v.lost {
			return
		}
		v.text += e.Text
	}
	if v.client != nil {
		v.client(e)
	}
}
