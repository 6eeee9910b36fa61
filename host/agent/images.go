package agent

import (
	"context"
	"slices"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool"
)

// images are those that came with the messages of a turn and were taken. The step has their digests; the bytes stay in the media
// store until a model is called.
func (u UserStep) images() []model.Image {
	var out []model.Image
	for _, s := range u.Said {
		for _, f := range s.Files {
			if f.Path != "" {
				out = appendImage(out, f.Digest, f.Type)
			}
		}
	}
	return out
}

// resultImages are those of a tool's result.
func resultImages(r tool.Result) []model.Image {
	var out []model.Image
	for _, m := range r.Media {
		out = appendImage(out, m.SHA256, m.Type)
	}
	return out
}

// appendImage adds a file if it is said to be an image. Whether it is one, its bytes tell when they are read.
func appendImage(list []model.Image, digest, kind string) []model.Image {
	if kind = message.MediaType(kind); digest == "" || !model.IsImageType(kind) {
		return list
	}
	return append(list, model.Image{Digest: digest, Type: kind})
}

// latestImages leaves the last images of messages, as many as there is room for, and takes out the others: older images fall out
// of a conversation before its words do.
func latestImages(ms []model.Message, room int) []model.Message {
	room = max(room, 0)
	for i, m := range slices.Backward(ms) {
		ms[i].Images, room = lastOf(m.Images, room)
		if !slices.ContainsFunc(m.Results, func(r model.ToolResult) bool { return len(r.Images) > 0 }) {
			continue
		}
		ms[i].Results = slices.Clone(m.Results) // the session's own
		for j, r := range slices.Backward(m.Results) {
			ms[i].Results[j].Images, room = lastOf(r.Images, room)
		}
	}
	return ms
}

func lastOf(images []model.Image, room int) ([]model.Image, int) {
	n := min(len(images), room)
	return images[len(images)-n:], room - n
}

// Images lists the digests of the images that the steps of a turn show to its model.
func Images(steps []store.Step) ([]string, error) {
	t, err := decodeTurn(steps)
	var out []string
	for _, m := range t.messages() {
		for _, img := range m.Images {
			out = append(out, img.Digest)
		}
		for _, r := range m.Results {
			for _, img := range r.Images {
				out = append(out, img.Digest)
			}
		}
	}
	return out, err
}

// openImage returns what opens the images of a request, or nil where models are shown none.
func (t *turn) openImage() func(ctx context.Context, digest string) ([]byte, error) {
	if t.cfg.Attachments == nil {
		return nil
	}
	return t.cfg.Attachments.Image
}
