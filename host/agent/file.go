package agent

import (
	"cmp"
	"context"

	"github.com/flynnhost/flynn/host/agent/transcript"
	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/message"
)

// takeFiles fetches the files of a turn's messages, and tells the model which files it has and which are missing.
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

// MediaInUse returns the digests of the files that running turns have attached to their answers or shown to their models.
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
		state, err := transcript.Read(steps)
		if err != nil {
			return nil, err
		}
		for _, a := range state.Attachments() {
			used[a.Digest] = true
		}
		for _, digest := range state.Images() {
			used[digest] = true
		}
	}
	return used, nil
}

// fileLabels returns the labels for files put into the workspace. They remain foreign there: a tool that reads one adds its label
// again.
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
