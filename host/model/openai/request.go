package openai

import (
	"encoding/base64"
	"encoding/json"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/shared"

	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/model/internal/wire"
)

func params(req model.Request, official bool) sdk.ChatCompletionNewParams {
	p := sdk.ChatCompletionNewParams{
		Model:         req.Model,
		Messages:      messages(req),
		StreamOptions: sdk.ChatCompletionStreamOptionsParam{IncludeUsage: sdk.Bool(true)},
	}
	for _, tool := range req.Tools {
		p.Tools = append(p.Tools, toolParam(tool))
	}
	limit(&p, req, official)
	if req.Reasoning.On() {
		p.ReasoningEffort = shared.ReasoningEffort(req.Reasoning.Effort())
	}
	return p
}

// limit sets the bound on the answer under the name that the server knows: OpenAI's newer models refuse
// max_tokens, and most other servers know nothing else.
func limit(p *sdk.ChatCompletionNewParams, req model.Request, official bool) {
	if !official {
		p.MaxTokens = sdk.Int(int64(req.MaxTokens))
		return
	}
	p.MaxCompletionTokens = sdk.Int(int64(req.MaxTokens))
	if req.Session != "" {
		p.PromptCacheKey = sdk.String(wire.ID(req.Session))
	}
}

func toolParam(tool model.Tool) sdk.ChatCompletionToolUnionParam {
	f := shared.FunctionDefinitionParam{Name: wire.Name(tool.Name)}
	if tool.Description != "" {
		f.Description = sdk.String(tool.Description)
	}
	if json.Unmarshal(tool.Schema, &f.Parameters) != nil || f.Parameters == nil {
		f.Parameters = shared.FunctionParameters{"type": "object", "properties": map[string]any{}}
	}
	return sdk.ChatCompletionFunctionTool(f)
}

func messages(req model.Request) []sdk.ChatCompletionMessageParamUnion {
	var out []sdk.ChatCompletionMessageParamUnion
	if req.System != "" {
		out = append(out, sdk.SystemMessage(req.System))
	}
	for _, m := range wire.Repair(req.Messages) {
		if m.Role == model.Assistant {
			out = append(out, assistant(m))
			continue
		}
		for _, r := range m.Results {
			out = append(out, sdk.ToolMessage(resultText(r), wire.ID(r.ID)))
		}
		if images := imagesOf(m); len(images) > 0 {
			out = append(out, sdk.UserMessage(parts(m.Text, images)))
		} else if m.Text != "" {
			out = append(out, sdk.UserMessage(m.Text))
		}
	}
	return out
}

// imagesOf are the images of a message and those of its results, for which tool messages of this format have no place.
func imagesOf(m model.Message) []model.Image {
	var images []model.Image
	for _, r := range m.Results {
		images = append(images, r.Images...)
	}
	return append(images, m.Images...)
}

func parts(text string, images []model.Image) []sdk.ChatCompletionContentPartUnionParam {
	var out []sdk.ChatCompletionContentPartUnionParam
	for _, img := range images {
		url := "data:" + img.Type + ";base64," + base64.StdEncoding.EncodeToString(img.Data)
		out = append(out, sdk.ImageContentPart(sdk.ChatCompletionContentPartImageImageURLParam{URL: url}))
	}
	if text == "" {
		return out
	}
	return append(out, sdk.TextContentPart(text))
}

func assistant(m model.Message) sdk.ChatCompletionMessageParamUnion {
	var a sdk.ChatCompletionAssistantMessageParam
	if m.Text != "" {
		a.Content.OfString = sdk.String(m.Text)
	}
	for _, call := range m.Calls {
		a.ToolCalls = append(a.ToolCalls, sdk.ChatCompletionMessageToolCallUnionParam{
			OfFunction: &sdk.ChatCompletionMessageFunctionToolCallParam{
				ID: wire.ID(call.ID),
				Function: sdk.ChatCompletionMessageFunctionToolCallFunctionParam{
					Name:      wire.Name(call.Name),
					Arguments: string(wire.Object(call.Args)),
				},
			},
		})
	}
	return sdk.ChatCompletionMessageParamUnion{OfAssistant: &a}
}

// resultText says in words what the format has no field for.
func resultText(r model.ToolResult) string {
	if r.IsError {
		return "error: " + r.Text
	}
	return r.Text
}
