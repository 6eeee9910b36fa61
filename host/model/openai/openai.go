// Package openai speaks the Chat Completions API of OpenAI (https://platform.openai.com/docs/api-reference/chat). With base_url it
// reaches every compatible server, such as Ollama, llama.cpp and vLLM, and bears with their habits.
//
// Start with New. Streams are read by the official SDK. Of its types this needs few, and its own package brings all of them along, with tables
// that are filled at every start: a third of the program. What is sent and read here is in request.go and chunk.go.
package openai

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

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
	edge     *wire.Edge
	address  string
	key      config.Secret // none where it is empty
	official bool
}

var _ model.Provider = (*Provider)(nil)

// New makes a provider for a tier. It opens no connection.
func New(cfg config.Model) (model.Provider, error) { return newProvider(cfg, nil) }

func newProvider(cfg config.Model, transport http.RoundTripper) (*Provider, error) {
	if cfg.APIKey == "" && cfg.BaseURL == "" {
		return nil, errors.New("the openai provider needs a key: set api_key_env or api_key_file, or base_url for a local server")
	}
	address, err := url.JoinPath(cmp.Or(cfg.BaseURL, officialURL), "chat/completions")
	if err != nil {
		return nil, fmt.Errorf("base_url: %w", err)
	}
	return &Provider{
		edge: wire.NewEdge(Name, cfg.APIKey, transport), address: address, key: cfg.APIKey, official: isOfficial(cfg.BaseURL),
	}, nil
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
	resp, err := p.post(ctx, newChat(req, p.official))
	if err != nil {
		return model.Response{}, p.edge.Open(ctx, req.Model, err)
	}
	stream := ssestream.NewStream[chunk](ssestream.NewDecoder(resp), nil)
	defer func() { _ = stream.Close() }()
	answer := newReader(emit)
	for stream.Next() {
		c := stream.Current()
		answer.add(&c)
	}
	if err := p.ending(ctx, req.Model, answer.finish, stream.Err(), resp); err != nil {
		return model.Response{Usage: answer.usage}, err
	}
	return answer.response(req, names), nil
}

// post sends a request and returns the response once its headers say that an answer streams.
func (p *Provider) post(ctx context.Context, c chat) (*http.Response, error) {
	body, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("User-Agent", "flynn")
	if p.key != "" {
		req.Header.Set("Authorization", "Bearer "+p.key.Reveal())
	}
	return p.edge.Middleware(req, p.edge.Client().Do)
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
