package anthropic

import "github.com/flynnhost/flynn/host/model"

// think sets how much the model thinks. Newer models take a word and decide for themselves; older ones take a number of tokens and
// require that each answer with calls in a tool loop begins with its thoughts.
func (c *call) think(req model.Request) {
	switch r := req.Reasoning; {
	case !r.On():
	case !r.Counted():
		c.Thinking, c.OutputConfig = &thinking{Type: "adaptive"}, &outputConfig{r.Effort()}
	case r.Tokens() < req.MaxTokens && thoughtThroughout(req):
		c.Thinking = &thinking{Type: "enabled", BudgetTokens: r.Tokens()}
	}
}

// thoughtThroughout reports whether every answer of the current tool loop has thoughts of this model: another model may have answered in
// between.
func thoughtThroughout(req model.Request) bool {
	for _, m := range req.Messages[loopOf(req.Messages):] {
		if m.Role == model.Assistant && len(m.Calls) > 0 && len(thinkingBlocks(m.Thinking, req.Model)) == 0 {
			return false
		}
	}
	return true
}

// loopOf returns where the current tool loop begins: after the last message of a person. The API requires the thoughts from there on and
// drops earlier ones.
func loopOf(list []model.Message) int {
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].Role == model.User && len(list[i].Results) == 0 {
			return i + 1
		}
	}
	return 0
}

// thinkingBlocks are the thoughts of the named model, as it gave them.
func thinkingBlocks(list []model.Thinking, name string) []block {
	var blocks []block
	for _, t := range list {
		switch {
		case t.Model != name:
		case t.Data != "":
			blocks = append(blocks, block{Type: "redacted_thinking", Data: t.Data})
		default:
			blocks = append(blocks, block{Type: "thinking", Thinking: &t.Text, Signature: t.Signature})
		}
	}
	return blocks
}
