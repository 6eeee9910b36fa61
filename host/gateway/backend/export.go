package backend

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/agent/session"
	"github.com/flynnhost/flynn/host/agent/transcript"
	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/message"
)

// Export implements gateway.Conversations.
func (c Conversations) Export(ctx context.Context, channel, conversation string, markdown bool, w io.Writer) error {
	turns, err := c.allTurns(ctx, channel, conversation)
	if err != nil {
		return err
	}
	if !markdown {
		return c.exportSessions(ctx, turns, w)
	}
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "# %s\n", strings.Join(strings.Fields(c.title(ctx, channel, conversation)), " "))
	for _, t := range turns {
		pieces, err := c.describe(ctx, t)
		if err != nil {
			return err
		}
		for _, p := range pieces {
			writePiece(out, t, p)
		}
	}
	return out.Flush()
}

// exportSessions writes the sessions of turns as flynn session export does, each of which flynn session import takes.
func (c Conversations) exportSessions(ctx context.Context, turns []turnlog.Turn, w io.Writer) error {
	var keys []message.SessionKey
	for _, t := range turns {
		if !slices.Contains(keys, t.Session) {
			keys = append(keys, t.Session)
		}
	}
	now := time.Now()
	for _, key := range keys {
		if err := session.Export(ctx, c.Store, key, now, w); err != nil {
			return err
		}
	}
	return nil
}

// writePiece writes a piece of a turn as Markdown. A message is a quotation and a tool's text a block of code, so that neither can pass
// for another part of the page.
func writePiece(out io.Writer, t turnlog.Turn, p transcript.Piece) {
	at := p.At.UTC().Format("2006-01-02 15:04:05 UTC")
	switch {
	case p.Said:
		fmt.Fprintf(out, "\n## %s, %s\n\n> %s\n", oneLine(string(t.Sender)), at, strings.ReplaceAll(lines(p.Text), "\n", "\n> "))
	case p.Call != nil:
		fmt.Fprintf(out, "\n### Call of %s, %s\n\n%s", oneLine(p.Call.Tool), oneLine(p.Call.Decision), block("json", string(p.Call.Args)))
		if p.Done {
			io.WriteString(out, "\n"+block("text", p.Text))
		}
	default:
		fmt.Fprintf(out, "\n## %s, %s\n\n%s\n", oneLine(t.Agent), at, lines(p.Text))
	}
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// lines ends all lines alike.
func lines(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")
}

// block returns a block of code, between fences that are not in its text.
func block(kind, text string) string {
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + kind + "\n" + strings.TrimSuffix(lines(text), "\n") + "\n" + fence + "\n"
}
