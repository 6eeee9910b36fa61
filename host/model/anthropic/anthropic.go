// Package anthropic speaks the Messages API of Anthropic, and of servers compatible with it, through the
// official SDK.
//
// Start with New. The SDK neither retries nor reads the environment here: failover is
// package model's, keys and addresses come from flynn.toml alone.
package anthropic

import (
	"context"
	"errors"
	"net/http"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/anthropics/anthropic-sdk-go/packages/ssestream"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/model/internal/wire"
)

// Name of the provider in flynn.toml.
const Name = "anthropic"

const officialURL = "https://api.anthropic.com/"

// Provider calls one account.
type Provider struct {
	edge     *wire.Edge
	messages sdk.MessageService
}

var _ model.Provider = (*Provider)(nil)

// New makes a provider for a tier. It opens no connection.
func New(cfg config.Model) (model.Provider, error) { return newProvider(cfg, nil) }

func newProvider(cfg config.Model, transport http.RoundTripper) (*Provider, error) {
	if cfg.APIKey == "" && cfg.BaseURL == "" {
		return nil, errors.New("the anthropic provider needs a key: set api_key_env or api_key_file")
	}
	edge := wire.NewEdge(Name, cfg.APIKey, transport)
	return &Provider{edge: edge, messages: sdk.NewMessageService(options(cfg, edge)...)}, nil
}

// options are complete: the service is made without the SDK's client, whose constructor looks
// for keys, addresses and profiles in the environment and the home directory.
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
		option.WithoutOpenTelemetry(),
	}
	if cfg.APIKey != "" {
		opts = append(opts, option.WithAPIKey(cfg.APIKey.Reveal()))
	}
	return opts
}

// Close drops idle connections.
func (p *Provider) Close() error { return p.edge.Close() }

// Stream makes one call.
func (p *Provider) Stream(ctx context.Context, req model.Request, emit func(model.Delta)) (model.Response, error) {
	names, err := wire.NewNames(req)
	if err != nil {
		return model.Response{}, &model.Error{Kind: model.BadRequest, Provider: Name, Model: req.Model, Err: err}
	}
	stream := p.messages.NewStreaming(ctx, params(req))
	if err := stream.Err(); err != nil {
		return model.Response{}, p.edge.Open(ctx, req.Model, err)
	}
	defer func() { _ = stream.Close() }()
	return p.read(ctx, req, names, stream, emit)
}

func (p *Provider) read(ctx context.Context, req model.Request, names *wire.Names,
	stream *ssestream.Stream[sdk.MessageStreamEventUnion], emit func(model.Delta)) (model.Response, error) {
	answer := newReader(emit)
	for !answer.ended && stream.Next() {
		event := stream.Current()
		answer.add(&event)
	}
	if err := stream.Err(); err != nil {
		return answer.partial(), p.broken(ctx, req.Model, err)
	}
	if !answer.ended {
		return answer.partial(), p.edge.Cut(req.Model)
	}
	return answer.response(req, names), nil
}

// broken tells an error event of the API from a broken connection.
func (p *Provider) broken(ctx context.Context, name string, err error) error {
	var event *sdk.Error
	if errors.As(err, &event) {
		err = p.edge.InStream([]byte(event.RawJSON()))
	}
	return p.edge.Broken(ctx, name, err)
}
