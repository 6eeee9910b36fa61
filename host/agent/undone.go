package agent

import (
	"context"
	"fmt"
	"strings"

	"github.com/flynnhost/flynn/host/agent/transcript"
	"github.com/flynnhost/flynn/host/sandbox/snapshot"
	"github.com/flynnhost/flynn/host/tool"
)

// keepFiles keeps the files of the workspace before the first call of a turn that may change them. Calls of delegated turns belong to the
// turn at the beginning of their chain, because one undo undoes all of them.
func (p *performer) keepFiles(ctx context.Context, v tool.Decision) {
	if p.snapshots == nil || !v.MayWrite() {
		return
	}
	p.wrote.Store(true)
	for d := p.delegated; d != nil && d.parent != nil; d = d.parent.delegated {
		d.parent.calls.performer.wrote.Store(true)
	}
	p.snapshots.Snapshot(ctx, p.workspaceKey(), p.chain()[0].Turn)
}

// settleFiles is called at the end of the turn, when its answer is on the way.
func (t *turn) settleFiles(ctx context.Context) {
	within := t.delegated != nil && t.delegated.parent != nil // the parent does it
	if t.cfg.Snapshots == nil || t.session == nil || ctx.Err() != nil || within {
		return
	}
	if t.toldFiles > 0 {
		t.cfg.Snapshots.ToldFiles(t.workspaceKey(), t.toldFiles)
	}
	if t.resumed || t.calls != nil && t.calls.performer.wrote.Load() {
		t.cfg.Snapshots.Settle(context.WithoutCancel(ctx), t.workspaceKey(), t.chain()[0].Turn)
	}
}

// fileNotes returns lines about what became of the files since the last turn. They are told again if the turn does not end.
func (t *turn) fileNotes() []string {
	if t.cfg.Snapshots == nil {
		return nil
	}
	notes := t.cfg.Snapshots.FileNotes(t.workspaceKey())
	t.toldFiles = len(notes)
	var lines []string
	for _, n := range notes {
		lines = append(lines, "["+fileLine(n)+"]")
	}
	return lines
}

// fileLine describes an undo to the agent. Names are quoted, because programs choose them.
func fileLine(n snapshot.Note) string {
	if n.Undone == nil {
		return n.Text
	}
	u, p := n.Undone, n.Undone.Plan
	what := "the changes of files of an earlier turn"
	if p.Turn == "" {
		what = "an undo of changes of files"
	}
	since := "were changed since, and left alone"
	if u.Overwrote {
		since = "were changed since, and are undone, too"
	}
	text := fmt.Sprintf("%s has undone %s. Look at files before you rely on what was said about them", word(u.Name), what)
	for _, part := range []struct {
		words string
		names []string
		count int
	}{
		{"have their earlier content again", p.Restored, p.Count.Restored}, {"are gone", p.Removed, p.Count.Removed}, {since, p.Changed, p.Count.Changed},
		{"could not be changed", p.Left, len(p.Left)},
	} {
		if part.count > 0 {
			text += fmt.Sprintf("; these %s: %s", part.words, quotedNames(part.names, part.count))
		}
	}
	return text
}

// maxFileNames bounds the names in a note.
const maxFileNames = 20

func quotedNames(names []string, count int) string {
	var quoted []string
	for _, n := range names[:min(len(names), maxFileNames)] {
		quoted = append(quoted, transcript.Quote(n))
	}
	text := strings.Join(quoted, ", ")
	if more := count - len(quoted); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
