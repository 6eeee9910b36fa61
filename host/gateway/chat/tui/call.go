package tui

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/client/link"
	"github.com/flynnhost/flynn/host/message"
)

// outputLines bounds the lines of a call's output that are shown.
const outputLines = 6

// call is a tool call.
type call struct {
	id, tool, where, decision string
	args                      json.RawMessage
	reasons                   []string
	last                      string // line of its output, or what it waits for
	asks                      bool   // a person
}

// callEvent notes what happens to a call.
func (t *transcript) callEvent(e message.Event) {
	if t.seen[callID(e.Turn, e.Call)] {
		return
	}
	i := slices.IndexFunc(t.calls, func(c *call) bool { return c.id == e.Call })
	if i < 0 {
		t.beforeCall()
		t.seen[begunID(e.Turn, e.Call)] = true
		t.calls = append(t.calls, &call{id: e.Call, tool: e.Tool, args: e.Args})
		t.ordinal++
		i = len(t.calls) - 1
	}
	t.calls[i].update(e)
}

// beforeCall emits the text before a call.
func (t *transcript) beforeCall() {
	if t.stream.text != "" || t.stream.done != "" {
		if t.once(textID(t.turn, t.ordinal)) {
			t.settle(t.stream.text)
		}
		t.stream = stream{}
	}
}

func (c *call) update(e message.Event) {
	if e.Where != "" {
		c.where = e.Where
	}
	switch e.Kind {
	case message.ToolDecision:
		c.decision, c.reasons, c.asks = e.Decision, e.Reasons, e.Decision == "ask"
	case message.ToolApproval:
		c.asks = true
	case message.ToolProgress:
		c.asks = false
		if text := strings.TrimSpace(e.Text); text != "" {
			c.last = text[strings.LastIndexByte(text, '\n')+1:]
		}
	}
}

// result emits a call that has ended.
func (t *transcript) result(e message.Event) {
	if !t.once(callID(e.Turn, e.Call)) {
		return
	}
	c := &call{id: e.Call, tool: e.Tool, args: e.Args, where: e.Where}
	if i := slices.IndexFunc(t.calls, func(c *call) bool { return c.id == e.Call }); i >= 0 {
		c = t.calls[i]
		t.calls = slices.Delete(t.calls, i, i+1)
	} else {
		t.beforeCall()
		t.ordinal++
	}
	if e.Decision != "" {
		c.decision = e.Decision
	}
	t.emit(c.finished(t.paper, outcome(e.IsError), e.Text))
}

// past shows a call of the history.
func (t *transcript) past(e gateway.Entry) {
	c := &call{id: e.Call.ID, tool: e.Call.Tool, args: e.Call.Args, where: e.Call.Where, decision: e.Call.Decision, reasons: e.Call.Reasons}
	t.ordinal++
	switch {
	case !e.Call.Done:
		c.asks = e.Call.Approval != "" && c.decision == "ask"
		t.calls = append(t.calls, c)
	case t.once(callID(e.Turn, c.id)):
		t.emit(c.finished(t.paper, outcome(e.IsError), e.Text))
	}
}

func outcome(failed bool) string {
	if failed {
		return "failed"
	}
	return ""
}

// finished lays out a call that has ended, with the beginning of its output.
func (c *call) finished(p paper, how, output string) []string {
	mark := p.green("✓ ")
	if how != "" {
		mark = p.red("✗ ")
	}
	if c.decision == "deny" {
		how = "denied"
	}
	lines := []string{c.head(p, mark, how)}
	output = strings.TrimRight(output, "\n ")
	if output == "" {
		return lines
	}
	rows := strings.Split(output, "\n")
	for _, row := range rows[:min(len(rows), outputLines)] {
		lines = append(lines, p.dim("  │ "+p.clipped(row, p.width-4)))
	}
	if more := len(rows) - outputLines; more > 0 {
		lines = append(lines, p.dim(fmt.Sprintf("  │ … %d more lines", more)))
	}
	return lines
}

// head is a call in one line.
func (c *call) head(p paper, mark, how string) string {
	state := p.short(link.Place(c.where), 40)
	if how != "" {
		state = how + ", " + state
	}
	tool := p.short(c.tool, 30)
	text := p.short(gist(c.args), max(p.width-len([]rune(tool))-len([]rune(state))-6, 10))
	return p.firstLine(mark + p.bold(tool) + " " + text + " " + p.dim("["+state+"]"))
}

// running lays out a call that runs, in one or two lines.
func (c *call) running(p paper) []string {
	how := "runs"
	switch {
	case c.asks:
		how = "waits for you"
	case c.decision == "":
		how = "is checked"
	}
	lines := []string{c.head(p, p.yellow("● "), how)}
	if c.last != "" {
		lines = append(lines, p.dim("  │ "+p.clipped(c.last, p.width-4)))
	}
	return lines
}

// gist is link.Gist, and nothing for a call without arguments.
func gist(raw json.RawMessage) string {
	var args map[string]json.RawMessage
	if json.Unmarshal(raw, &args) == nil && len(args) == 0 {
		return ""
	}
	return link.Gist(raw)
}
