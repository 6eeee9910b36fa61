package agent

import (
	"slices"

	"github.com/flynnhost/flynn/host/model"
)

// latestImages removes the oldest images until the others fit into room: older images fall out of a conversation before its words do.
func latestImages(ms []model.Message, room int) []model.Message {
	room = max(room, 0)
	for i, m := range slices.Backward(ms) {
		ms[i].Images, room = lastOf(m.Images, room)
		if !slices.ContainsFunc(m.Results, func(r model.ToolResult) bool { return len(r.Images) > 0 }) {
			continue
		}
		ms[i].Results = slices.Clone(m.Results) // the slice is shared with the session
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
