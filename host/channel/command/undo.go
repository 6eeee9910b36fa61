package command

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox/snapshot"
	"github.com/flynnhost/flynn/host/store"
)

// The first words of the argument that confirm an undo. A code follows, which stands for what was shown.
const overwrite = "overwrite"

// undo shows what an undo of changed files would do, and does it once that is confirmed. Everybody who may give orders in the conversation may undo.
func (d *Service) undo(ctx context.Context, m message.Message, c Command) (text string, ask []message.Button, err error) {
	if !d.mayOrder(m) {
		return "Only owners and members can do this in a group.", nil, nil
	}
	word, code, _ := strings.Cut(c.Arg, " ")
	if word = strings.ToLower(word); word == sure || word == overwrite {
		return d.undone(ctx, m, snapshot.Request{
			Code: strings.TrimSpace(code), Overwrite: word == overwrite, By: m.SenderKey(), Name: m.Sender.Name,
		})
	}
	back := 1
	if c.Arg != "" {
		if back, err = strconv.Atoi(c.Arg); err != nil || back < 1 {
			return "Write `/undo`, or `/undo 2` to go back over two answers that changed files.", nil, nil
		}
	}
	p, err := d.cfg.Sessions.PlanUndo(ctx, d.cfg.Rules.Scope(m), back)
	if err != nil {
		text, err = d.refusal(ctx, err)
		return text, nil, err
	}
	text, ask = question(p)
	return text, ask, nil
}

// refusal returns why nothing was undone, for people, or an error after which the command is tried again.
func (d *Service) refusal(ctx context.Context, err error) (string, error) {
	switch {
	case ctx.Err() != nil || errors.Is(err, store.ErrPassing):
		return "", err
	case !errors.Is(err, store.ErrConflict) && !errors.Is(err, store.ErrNotFound):
		d.cfg.Log.Error("cannot undo changes of files", "error", err)
	}
	text := err.Error()
	return strings.ToUpper(text[:1]) + text[1:] + ".", nil
}

func (d *Service) undone(ctx context.Context, m message.Message, r snapshot.Request) (string, []message.Button, error) {
	if r.Code == "" {
		return "`/undo` shows what would be undone, and the code that confirms it.", nil, nil
	}
	u, err := d.cfg.Sessions.Undo(ctx, d.cfg.Rules.Scope(m), r)
	if err != nil {
		text, err := d.refusal(ctx, err)
		return text, nil, err
	}
	return outcome(u), nil, nil
}

// question shows a plan and asks for confirmation.
func question(p snapshot.Plan) (string, []message.Button) {
	if p.Why != "" {
		return "There is nothing to undo: " + p.Why + ".", nil
	}
	var b strings.Builder
	b.WriteString("This undoes what the last answer that changed files did to them:\n")
	if p.Turn == "" {
		b.Reset()
		b.WriteString("This undoes the last undo:\n")
	}
	list(&b, "Earlier content comes back", p.Restored, p.Count.Restored)
	list(&b, "Removed", p.Removed, p.Count.Removed)
	list(&b, "Changed again since, stay as they are", p.Changed, p.Count.Changed)
	b.WriteString("\n\nThe agent's sandbox ends and begins anew. ")
	if p.Final == "" {
		b.WriteString("Another `/undo` takes it back. ")
	} else {
		fmt.Fprintf(&b, "It cannot be taken back: %s. ", p.Final)
	}
	fmt.Fprintf(&b, "Write `/undo %s %s` to do so.", sure, p.Code)
	ask := []message.Button{{Text: "Undo", Value: "/undo " + sure + " " + p.Code, Style: message.ButtonDanger}}
	if len(p.Changed) > 0 {
		fmt.Fprintf(&b, " `/undo %s %s` undoes those that have changed since, too.", overwrite, p.Code)
		ask = append(ask, message.Button{Text: "Undo all, overwrite later changes", Value: "/undo " + overwrite + " " + p.Code, Style: message.ButtonDanger})
	}
	return b.String(), ask
}

// outcome says what was undone.
func outcome(u snapshot.Undone) string {
	var b strings.Builder
	b.WriteString("Undone:\n")
	list(&b, "Earlier content is back", u.Plan.Restored, u.Plan.Count.Restored)
	list(&b, "Removed", u.Plan.Removed, u.Plan.Count.Removed)
	if u.Overwrote {
		list(&b, "Changed since, undone, too", u.Plan.Changed, u.Plan.Count.Changed)
	} else {
		list(&b, "Changed since, left as they are", u.Plan.Changed, u.Plan.Count.Changed)
	}
	list(&b, "Could not be changed", u.Plan.Left, len(u.Plan.Left))
	if u.Plan.Final == "" {
		b.WriteString("\n\nAnother `/undo` takes it back. The agent is told with the next message.")
	} else {
		b.WriteString("\n\nThe agent is told with the next message.")
	}
	return b.String()
}

// maxFiles bounds the names in a line.
const maxFiles = 12

// list adds a line about some files. Programs choose their names.
func list(b *strings.Builder, what string, names []string, all int) {
	if len(names) == 0 {
		return
	}
	fmt.Fprintf(b, "\n- %s (%d): ", what, all)
	for i, n := range names[:min(len(names), maxFiles)] {
		if i > 0 {
			b.WriteString(", ")
		}
		quoted := strconv.Quote(n)
		b.WriteString("`" + strings.ReplaceAll(quoted[1:len(quoted)-1], "`", "'") + "`")
	}
	if more := all - min(len(names), maxFiles); more > 0 {
		fmt.Fprintf(b, " and %d more", more)
	}
}
