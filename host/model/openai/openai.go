// Package openai speaks the Chat Completions API of OpenAI through the official SDK. With base_url it
// reaches every compatible server, such as Ollama, llama.cpp and vLLM, and bears with their habits.
//
// Start with New. The SDK neither retries nor reads the environment here: failover is
// package model's, keys and addresses come from flynn.toml alone.
package openai

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/model/internal/wire"
)

// Name of the provider in flynn.toml.
const Name = "openai"

const officialURL = "https://api.openai.com/v1/"

// Provider calls one account or one local server.
type Provider struct {
	edge        *wire.Edge
	completions sdk.ChatCompletionService
	official    bool
}

var _ model.Provider = (*Provider)(nil)

// New makes a provider for a tier. It opens no connection.
func New(cfg config.Model) (model.Provider, error) { return newProvider(cfg, nil) }

func newProvider(cfg config.Model, transport http.RoundTripper) (*Provider, error) {
	if cfg.APIKey == "" && cfg.BaseURL == "" {
		return nil, errors.New("the openai provider needs a key: set api_key_env or api_key_file, or base_url for a local server")
	}
	edge := wire.NewEdge(Name, cfg.APIKey, transport)
	return &Provider{
		edge:        edge,
		completions: sdk.NewChatCompletionService(options(cfg, edge)...),
		official:    isOfficial(cfg.BaseURL),
	}, nil
}

// options are complete: the service is made without the SDK's client, whose constructor looks
// for keys, addresses and headers in the environment.
func options(cfg config.Model, edge *wire.Edge) []option.RequestOption {
	base := cfg.BaseURL
	if base == "" {
		base = officialURL
	}
	opts := []option.RequestOption{
		option.WithBaseURL(base),
		option.WithHTTPClient(edge.Client()),
		option.WithMiddleware(edge.Middleware),
		option.WithMaxRetries(0),
	}
	if cfg.APIKey != "" {
		opts = append(opts, option.WithAPIKey(cfg.APIKey.Reveal()))
	}
	return opts
}

// isOfficial tells OpenAI's own addresses from compatible servers, which know fewer parameters.
func isOfficial(base string) bool {
	if base == "" {
		return true
	}
	u, err := url.Parse(base)
	return err == nil && (u.Hostname() == "api.openai.com" || strings.HasSuffix(u.Hostname(), ".api.openai.com"))
}

// Close drops idle connections.
func (p *Provider) Close() error { return p.edge.Close() }

// Stream makes one call.
func (p *Provider) Stream(ctx context.Context, req model.Request, emit func(model.Delta)) (model.Response, error) {
	names, err := wire.NewNames(req)
	if err != nil {
		return model.Response{}, &model.Error{Kind: model.BadRequest, Provider: Name, Model: req.Model, Err: err}
	}
	var resp *http.Response
	stream := p.completions.NewStreaming(ctx, params(req, p.official), option.WithResponseInto(&resp))
	if err := stream.Err(); err != nil {
		return model.Response{}, p.edge.Open(ctx, req.Model, err)
	}
	defer func() { _ = stream.Close() }()
	answer := newReader(emit)
	for stream.Next() {
		chunk := stream.Current()
		answer.add(&chunk)
	}
	if err := p.ending(ctx, req.Model, answer.finish, stream.Err(), resp); err != nil {
		return model.Response{Usage: answer.usage}, err
	}
	return answer.response(req, names), nil
}

// ending returns nil if the answer is whole. By the book a finish_reason comes first, then the usage figures, then
// "[DONE]". Some servers leave out the one and some the other; either will do. What breaks behind a
// finish_reason can only be the usage, and an answer is no worse without that.
func (p *Provider) ending(ctx context.Context, name, finish string, err error, resp *http.Response) error {
	switch {
	case finish == "error":
		return p.edge.Broken(ctx, name, p.edge.InStream([]byte("the server gave up on the answer")))
	case finish != "":
		return nil
	case err != nil:
		return p.broken(ctx, name, err)
	case wire.Ended(resp, "data: [DONE]"), wire.Ended(resp, "data:[DONE]"):
		return nil
	}
	return p.edge.Cut(name)
}

// broken tells an error event of the API from a broken connection.
func (p *Provider) broken(ctx context.Context, name string, err error) error {
	var event *ssestream.StreamError
	if errors.As(err, &event) {
		err = p.edge.InStream(event.Event.Data)
	}
	return p.edge.Broken(ctx, name, err)
}
