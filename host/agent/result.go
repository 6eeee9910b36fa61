package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/agent/task"
	"github.com/flynnhost/flynn/host/agent/transcript"
	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool"
)

// wholeResult bounds the stored part of a summarised result, in bytes.
const wholeResult = 1 << 20

// maxResult returns the bound for the text of a call's result; 0 means the runner's default.
func (p *performer) maxResult(c model.ToolCall) int {
	if p.gen.Tasks.ResultMax == 0 || c.Name == tool.ReadResult || p.agent.Programs != nil { // the model of a program could not page
		return 0
	}
	return wholeResult
}

// refine inspects a result before the model gets it, and shortens it. The labels of the result stay with it.
func (p *performer) refine(ctx context.Context, c model.ToolCall, res tool.Result) tool.Result {
	if p.gen.Tasks.Classify && untrusted(res.Labels) && p.tasks.Suspect(ctx, c.Name, res.Text) {
		res.Labels = append(slices.Clip(res.Labels), tool.Suspect)
	}
	if p.maxResult(c) > 0 && len(res.Text) > p.gen.Tasks.ResultMax {
		res.Text = p.shorten(ctx, c, res)
	}
	return res
}

// untrusted reports whether part of a result came from a page or from a tool of a plugin.
func untrusted(labels []string) bool {
	return slices.ContainsFunc(labels, func(l string) bool { return strings.HasPrefix(l, "web:") || strings.HasPrefix(l, "tool:") })
}

// shorten shows both ends of a result with a summary between, and stores the whole. Without a summary it shows more of the ends.
func (p *performer) shorten(ctx context.Context, c model.ToolCall, res tool.Result) string {
	kept := turnlog.KeptResult{
		ID: store.NewID(p.clock()), Session: p.row.Session, Tool: c.Name, Text: res.Text, Labels: res.Labels, At: p.clock().UTC(),
	}
	p.uses.keep(kept)
	limit := p.gen.Tasks.ResultMax
	where := fmt.Sprintf("The whole can be read with %s, id %q.", tool.ReadResult, kept.ID)
	summary, err := p.tasks.ShortenResult(ctx, c.Name, res.Text)
	if err != nil {
		p.log.Warn("cannot summarise a result", "turn", p.row.ID, "tool", c.Name, "error", err)
		head, tail := task.Ends(res.Text, limit/2, limit/4)
		return fmt.Sprintf("%s\n\n[... %d bytes left out. %s ...]\n\n%s", head, len(res.Text)-len(head)-len(tail), where, tail)
	}
	head, tail := task.Ends(res.Text, limit/4, limit/8)
	return fmt.Sprintf("%s\n\n[... %d bytes left out. Summary of the whole, made by a model:\n  %s\n%s ...]\n\n%s", head,
		len(res.Text)-len(head)-len(tail), transcript.Indent(summary), where, tail)
}
