// Package anthropic speaks the Messages API of Anthropic (https://docs.anthropic.com/en/api/messages), and of servers compatible with it.
//
// Start with New; request.go has what is sent, event.go what is read. The official SDK is not linked in: it has every type of the API, with
// tables that are filled at every start, an eighth of the program. Tests use it as the client that checks the fake server.
package anthropic

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/model/internal/wire"
)

// Name of the provider in flynn.toml.
const Name = "anthropic"

const officialURL = "https://api.anthropic.com/"

// version is the API version of the requests (https://docs.anthropic.com/en/api/versioning).
const version = "2023-06-01"

// Provider calls one account.
type Provider struct {
	edge    *wire.Edge
	address string
	key     config.Secret // may be empty
}

var _ model.Provider = (*Provider)(nil)

// New makes a provider for a tier. It opens no connection.
func New(cfg config.Model) (model.Provider, error) { return newProvider(cfg, nil) }

func newProvider(cfg config.Model, transport http.RoundTripper) (*Provider, error) {
	if cfg.APIKey == "" && cfg.BaseURL == "" {
		return nil, errors.New("the anthropic provider needs a key: set api_key_env or api_key_file")
	}
	address, err := url.JoinPath(cmp.Or(cfg.BaseURL, officialURL), "v1/messages")
	if err != nil {
		return nil, fmt.Errorf("base_url: %w", err)
	}
	return &Provider{edge: wire.NewEdge(Name, cfg.APIKey, transport), address: address, key: cfg.APIKey}, nil
}

// Close drops idle connections.
func (p *Provider) Close() error { return p.edge.Close() }

// Stream makes one call.
func (p *Provider) Stream(ctx context.Context, req model.Request, emit func(model.Delta)) (model.Response, error) {
	names, err := wire.NewNames(req)
	if err != nil {
		return model.Response{}, &model.Error{Kind: model.BadRequest, Provider: Name, Model: req.Model, Err: err}
	}
	resp, err := p.edge.Post(ctx, p.address, p.header(), newCall(req))
	if err != nil {
		return model.Response{}, p.edge.Open(ctx, req.Model, err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer := newReader(emit)
	if err := p.read(answer, wire.NewEvents(resp.Body)); err != nil {
		return answer.partial(), p.edge.Broken(ctx, req.Model, err)
	}
	if !answer.ended {
		return answer.partial(), p.edge.Cut(req.Model)
	}
	return answer.response(req, names), nil
}

func (p *Provider) header() http.Header {
	h := http.Header{"Anthropic-Version": {version}}
	if p.key != "" {
		h.Set("X-Api-Key", p.key.Reveal())
	}
	return h
}

// read adds the events of a stream to an answer, up to its end or an error.
func (p *Provider) read(answer *reader, events *wire.Events) error {
	for !answer.ended && events.Next() {
		switch events.Name() {
		case "ping":
			continue
		case "error":
			return p.edge.InStream(events.Data())
		}
		var e event
		if err := json.Unmarshal(events.Data(), &e); err != nil {
			return err
		}
		answer.add(&e)
	}
	return events.Err()
}
