package model

import (
	"cmp"
	"context"
)

// defaultMaxTokens bounds an answer if neither the caller nor the configuration does.
const defaultMaxTokens = 4096

// fit adapts a request to the tier: its model, its bounds, its images.
func (t *tier) fit(ctx context.Context, req Request) Request {
	limit := cmp.Or(max(t.cfg.MaxOutputTokens, 0), defaultMaxTokens)
	if req.MaxTokens <= 0 || req.MaxTokens > limit {
		req.MaxTokens = limit
	}
	req.Model = t.cfg.Model
	req.Reasoning = t.cfg.Reasoning
	req.MaxTokens += req.Reasoning.Tokens() // a model's thoughts count as its answer
	return withImages(ctx, req, t.cfg.Images)
}
