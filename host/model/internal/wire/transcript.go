package wire

import (
	"slices"

	"github.com/flynnhost/flynn/host/model"
)

// Placeholders for texts that the APIs require.
const (
	noResult  = "no result: the call was interrupted"
	noHistory = "(the conversation before this is not shown)"
	noText    = "(no text)"
)

// Repair returns the transcript in the form that the APIs require: it begins with the user, no message is
// empty, every call has exactly one result in the next message, and every result has its call. A crash in a
// turn and the compaction of a history break these rules.
func Repair(messages []model.Message) []model.Message {
	r := repairer{out: make([]model.Message, 0, len(messages)+1)}
	for _, m := range messages {
		r.add(m)
	}
	if len(r.open) > 0 {
		r.answerOpen(model.Message{Role: model.User})
	}
	return r.out
}

type repairer struct {
	out  []model.Message
	open []model.ToolCall // calls of the last message that wait for their results
}

func (r *repairer) add(m model.Message) {
	if m.Role == model.Assistant {
		r.addAssistant(m)
		return
	}
	r.answerOpen(m)
}

func (r *repairer) addAssistant(m model.Message) {
	if len(r.open) > 0 {
		r.answerOpen(model.Message{Role: model.User})
	}
	if m.Text == "" && len(m.Calls) == 0 {
		return
	}
	if len(r.out) == 0 {
		r.out = append(r.out, model.Message{Role: model.User, Text: noHistory})
	}
	m.Results, m.Images = nil, nil
	m.Calls = unique(m.Calls)
	r.open = m.Calls
	r.out = append(r.out, m)
}

// unique drops calls whose id an earlier call of the same message has.
func unique(calls []model.ToolCall) []model.ToolCall {
	var out []model.ToolCall
	for _, call := range calls {
		if !slices.ContainsFunc(out, func(c model.ToolCall) bool { return c.ID == call.ID }) {
			out = append(out, call)
		}
	}
	return out
}

// answerOpen appends a user message with the results that the open calls wait for, in their order.
func (r *repairer) answerOpen(m model.Message) {
	given := m.Results
	m.Calls, m.Results, m.Thinking = nil, nil, nil
	for _, call := range r.open {
		m.Results = append(m.Results, take(&given, call.ID))
	}
	for _, stray := range given {
		m.Text = joinText("(result of an earlier call) "+stray.Text, m.Text)
	}
	r.open = nil
	if m.Text == "" && len(m.Results) == 0 && len(m.Images) == 0 {
		m.Text = noText
	}
	r.out = append(r.out, m)
}

// take removes the result of a call from given and returns it, or a placeholder.
func take(given *[]model.ToolResult, id string) model.ToolResult {
	i := slices.IndexFunc(*given, func(r model.ToolResult) bool { return r.ID == id })
	if i < 0 {
		return model.ToolResult{ID: id, Text: noResult, IsError: true}
	}
	found := (*given)[i]
	*given = slices.Delete(slices.Clone(*given), i, i+1)
	return found
}

func joinText(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "\n" + b
}
