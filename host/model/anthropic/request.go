package anthropic

import (
	"encoding/base64"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/model/internal/wire"
)

func params(req model.Request) sdk.MessageNewParams {
	p := sdk.MessageNewParams{
		Model:     req.Model,
		MaxTokens: int64(req.MaxTokens),
	}
	think(&p, req)
	p.Messages = messages(req)
	if req.System != "" {
		p.System = []sdk.TextBlockParam{{Text: req.System, CacheControl: sdk.NewCacheControlEphemeralParam()}}
	}
	for _, tool := range req.Tools {
		p.Tools = append(p.Tools, toolParam(tool))
	}
	if n := len(p.Tools); n > 0 {
		p.Tools[n-1].OfTool.CacheControl = sdk.NewCacheControlEphemeralParam()
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

func messages(req model.Request) []sdk.MessageParam {
	var out []sdk.MessageParam
	list := wire.Repair(req.Messages)
	loop := loopOf(list)
	for i, m := range list {
		if m.Role == model.Assistant {
			if i < loop {
				m.Thinking = nil
			}
			out = append(out, sdk.NewAssistantMessage(assistantBlocks(m, req.Model)...))
			continue
		}
		out = append(out, sdk.NewUserMessage(userBlocks(m)...))
	}
	markForCache(out)
	return out
}

func assistantBlocks(m model.Message, name string) []sdk.ContentBlockParamUnion {
	blocks := thinkingBlocks(m.Thinking, name)
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
	for _, img := range m.Images {
		blocks = append(blocks, sdk.NewImageBlockBase64(img.Type, base64.StdEncoding.EncodeToString(img.Data)))
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
	for _, img := range r.Images {
		image := sdk.NewImageBlockBase64(img.Type, base64.StdEncoding.EncodeToString(img.Data)).OfImage
		block.Content = append(block.Content, sdk.ToolResultBlockParamContentUnion{OfImage: image})
	}
	return sdk.ContentBlockParamUnion{OfToolResult: &block}
}

// markForCache marks the end of the transcript, so that the next call of the turn reads it from the provider's cache instead of paying
// for it in full, and the end of what the call before has sent: a cache is found no more than some twenty blocks back.
func markForCache(out []sdk.MessageParam) {
	marks := 2
	for i := len(out) - 1; i >= 0 && marks > 0; i-- {
		if out[i].Role == sdk.MessageParamRoleUser {
			markLast(out[i].Content)
			marks--
		}
	}
}

func markLast(blocks []sdk.ContentBlockParamUnion) {
	switch last := blocks[len(blocks)-1]; {
	case last.OfText != nil:
		last.OfText.CacheControl = sdk.NewCacheControlEphemeralParam()
	case last.OfImage != nil:
		last.OfImage.CacheControl = sdk.NewCacheControlEphemeralParam()
	case last.OfToolResult != nil:
		last.OfToolResult.CacheControl = sdk.NewCacheControlEphemeralParam()
	}
}
