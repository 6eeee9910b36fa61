// Package openai speaks the Chat Completions API of OpenAI (https://platform.openai.com/docs/api-reference/chat). With base_url it
// reaches every compatible server, such as Ollama, llama.cpp and vLLM, and tolerates their deviations.
//
// Start with New; request.go has what is sent, chunk.go what is read. The official SDK is not linked in: it has every type of the API, with
// tables that are filled at every start, a third of the program. Tests use it as the client that checks the fake server.
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
	key      config.Secret // may be empty
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

// isOfficial reports whether an address is OpenAI's own; compatible servers know fewer parameters.
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
	resp, err := p.edge.Post(ctx, p.address, p.header(), newChat(req, p.official))
	if err != nil {
		return model.Response{}, p.edge.Open(ctx, req.Model, err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer := newReader(emit)
	err = p.read(answer, wire.NewEvents(resp.Body))
	if err := p.ending(ctx, req.Model, answer.finish, err, resp); err != nil {
		return model.Response{Usage: answer.usage}, err
	}
	return answer.response(req, names), nil
}

func (p *Provider) header() http.Header {
	h := http.Header{}
	if p.key != "" {
		h.Set("Authorization", "Bearer "+p.key.Reveal())
	}
	return h
}

// read adds the events of a stream to an answer, up to its end or an error.
func (p *Provider) read(answer *reader, events *wire.Events) error {
	for events.Next() {
		if bytes.HasPrefix(events.Data(), []byte("[DONE]")) {
			return nil
		}
		var c chunk
		if err := json.Unmarshal(events.Data(), &c); err != nil {
			return err
		}
		if c.failed() {
			return p.edge.InStream(events.Data())
		}
		answer.add(&c)
	}
	return events.Err()
}

// ending returns nil if the answer is whole. Officially a finish_reason comes first, then the usage figures, then
// "[DONE]". Some servers leave out the first and some the last; one of them suffices. An error after a
// finish_reason can only cut off the usage, which an answer can do without.
func (p *Provider) ending(ctx context.Context, name, finish string, err error, resp *http.Response) error {
	switch {
	case finish == "error":
		return p.edge.Broken(ctx, name, p.edge.InStream([]byte("the server gave up on the answer")))
	case finish != "":
		return nil
	case err != nil:
		return p.edge.Broken(ctx, name, err)
	case wire.Ended(resp, "data: [DONE]"), wire.Ended(resp, "data:[DONE]"):
		return nil
	}
	return p.edge.Cut(name)
}
