package agent

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/message"
)

// takeFiles gets what came with the messages of a turn. The model is told which files it has, and which it has not.
func (t *turn) takeFiles(ctx context.Context, rows []mailbox.InboxRow) map[int64][]message.File {
	if t.cfg.Attachments == nil {
		return nil
	}
	files := map[int64][]message.File{}
	for _, r := range rows {
		if len(r.Message.Attachments) > 0 {
			files[r.ID] = t.cfg.Attachments.Take(ctx, t.home(), r.Message)
		}
	}
	return files
}

// attachments are what the tools of a turn have attached to its answer, each file once.
func (t *turnSteps) attachments() []message.Attachment {
	var out []message.Attachment
	for _, e := range t.entries {
		for _, c := range e.answer.Message.Calls {
			for _, a := range e.results[c.ID].Result.Attachments {
				if len(out) < message.MaxAttachments && !slices.Contains(out, a) {
					out = append(out, a)
				}
			}
		}
	}
	return out
}

// MediaInUse returns the digests of the files that running turns have attached to their answers, or show to their models.
func MediaInUse(ctx context.Context, s turnlog.Turns) (map[string]bool, error) {
	turns, err := s.RunningTurns(ctx)
	if err != nil {
		return nil, err
	}
	used := map[string]bool{}
	for _, t := range turns {
		steps, err := s.Steps(ctx, t.ID)
		if err != nil {
			return nil, err
		}
		decoded, err := decodeTurn(steps)
		if err != nil {
			return nil, err
		}
		for _, a := range decoded.attachments() {
			used[a.Digest] = true
		}
		for _, digest := range decoded.images() {
			used[digest] = true
		}
	}
	return used, nil
}

// fileLabels say what came into the workspace. It stays foreign there: a tool that reads it labels what it has read.
func fileLabels(files map[int64][]message.File) []string {
	var labels []string
	for _, list := range files {
		for _, f := range list {
			if f.Path != "" {
				labels = append(labels, "file:"+f.Path, "attachment:"+cmp.Or(message.MediaType(f.Type), "unknown"))
			}
		}
	}
	return labels
}

// whole is what was said with a line for each file.
func (s Said) whole() string {
	if len(s.Files) == 0 {
		return s.Text
	}
	var lines []string
	if s.Text != "" {
		lines = append(lines, s.Text)
	}
	for _, f := range s.Files {
		lines = append(lines, fileLine(f))
	}
	return strings.Join(lines, "\n")
}

// fileLine tells the model of a file in the host's words; what others chose of it is quoted.
func fileLine(f message.File) string {
	name := quoted(f.Name)
	if f.Path == "" {
		return fmt.Sprintf("[attachment %s was not taken: %s]", name, f.Why)
	}
	return fmt.Sprintf("[attachment %s, %s, %d bytes: %s]", name, cmp.Or(f.Type, "unknown type"), f.Size, f.Path)
}

// maxQuote bounds a quotation of what others wrote, in runes.
const maxQuote = 300

// quoted puts foreign words into quotation marks, on one line and without what does not show.
func quoted(text string) string {
	var out []rune
	for _, c := range strings.Join(strings.Fields(text), " ") {
		switch {
		case len(out) == maxQuote:
			return `"` + string(out) + `…"`
		case c == '"':
			out = append(out, '\'')
		case unicode.IsPrint(c):
			out = append(out, c)
		}
	}
	return `"` + string(out) + `"`
}
