package anthropic

import (
	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/model/internal/wire"
)

func params(req model.Request) sdk.MessageNewParams {
	p := sdk.MessageNewParams{
		Model:     req.Model,
		MaxTokens: int64(req.MaxTokens),
		Messages:  messages(req.Messages),
	}
	if req.System != "" {
		p.System = []sdk.TextBlockParam{{Text: req.System, CacheControl: sdk.NewCacheControlEphemeralParam()}}
	}
	for _, tool := range req.Tools {
		p.Tools = append(p.Tools, toolParam(tool))
	}
	return p
}

func toolParam(tool model.Tool) sdk.ToolUnionParam {
	t := sdk.ToolParam{Name: wire.Name(tool.Name)}
	if tool.Description != "" {
		t.Description = sdk.String(tool.Description)
	}
	if len(tool.Schema) > 0 {
		t.InputSchema = param.Override[sdk.ToolInputSchemaParam](wire.Object(tool.Schema))
	}
	return sdk.ToolUnionParam{OfTool: &t}
}

func messages(transcript []model.Message) []sdk.MessageParam {
	var out []sdk.MessageParam
	for _, m := range wire.Repair(transcript) {
		if m.Role == model.Assistant {
			out = append(out, sdk.NewAssistantMessage(assistantBlocks(m)...))
			continue
		}
		out = append(out, sdk.NewUserMessage(userBlocks(m)...))
	}
	markForCache(out)
	return out
}

func assistantBlocks(m model.Message) []sdk.ContentBlockParamUnion {
	var blocks []sdk.ContentBlockParamUnion
	if m.Text != "" {
		blocks = append(blocks, sdk.NewTextBlock(m.Text))
	}
	for _, call := range m.Calls {
		blocks = append(blocks, sdk.NewToolUseBlock(wire.ID(call.ID), wire.Object(call.Args), wire.Name(call.Name)))
	}
	return blocks
}

// userBlocks puts results first; the API refuses them behind text.
func userBlocks(m model.Message) []sdk.ContentBlockParamUnion {
	var blocks []sdk.ContentBlockParamUnion
	for _, r := range m.Results {
		blocks = append(blocks, resultBlock(r))
	}
	if m.Text != "" {
		blocks = append(blocks, sdk.NewTextBlock(m.Text))
	}
	return blocks
}

// resultBlock leaves the content out when there is no text: the API refuses empty text blocks.
func resultBlock(r model.ToolResult) sdk.ContentBlockParamUnion {
	block := sdk.ToolResultBlockParam{ToolUseID: wire.ID(r.ID), IsError: sdk.Bool(r.IsError)}
	if r.Text != "" {
		block.Content = []sdk.ToolResultBlockParamContentUnion{{OfText: &sdk.TextBlockParam{Text: r.Text}}}
	}
	return sdk.ContentBlockParamUnion{OfToolResult: &block}
}

// markForCache marks the end of the transcript, so that the next call of the turn reads it from the
// provider's cache instead of paying for it in full.
func markForCache(out []sdk.MessageParam) {
	if len(out) == 0 {
		return
	}
	blocks := out[len(out)-1].Content
	switch last := blocks[len(blocks)-1]; {
	case last.OfText != nil:
		last.OfText.CacheControl = sdk.NewCacheControlEphemeralParam()
	case last.OfToolResult != nil:
		last.OfToolResult.CacheControl = sdk.NewCacheControlEphemeralParam()
	}
}
