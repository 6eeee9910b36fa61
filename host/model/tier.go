package model

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/config"
)

// defaultTimeout bounds one call if the configuration does not.
const defaultTimeout = 300 * time.Second

// tier is one configured model.
type tier struct {
	name        string
	cfg         config.Model
	constructor Constructor
	breaker     *breaker // shared with tiers of the same model
	counts      *Counts

	mu       sync.Mutex
	provider Provider // nil before the first call
}

// built returns the provider, or nil if there was no call yet.
func (t *tier) built() Provider {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.provider
}

// client returns the provider and builds it at the first call. The next call repeats a failed attempt.
func (t *tier) client() (Provider, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.provider != nil {
		return t.provider, nil
	}
	p, err := t.constructor(t.cfg)
	if err != nil {
		return nil, t.fail(Auth, fmt.Errorf("models.%s: %w", t.name, err))
	}
	t.provider = p
	return p, nil
}

func (t *tier) fail(kind Kind, err error) *Error {
	return &Error{Kind: kind, Provider: t.cfg.Provider, Model: t.cfg.Model, Err: err}
}

func (t *tier) timeout() time.Duration {
	if t.cfg.TimeoutSeconds <= 0 {
		return defaultTimeout
	}
	return time.Duration(t.cfg.TimeoutSeconds) * time.Second
}

var errEmpty = errors.New("the model answered neither text nor a tool call")

// call makes one attempt with an adapted request, within the tier's timeout. The response has the usage even with an error.
func (t *tier) call(ctx context.Context, req Request, emit func(Delta)) (Response, error) {
	p, err := t.client()
	if err != nil {
		return Response{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, t.timeout())
	defer cancel()
	resp, err := p.Stream(ctx, req, emit)
	if err != nil {
		return resp, err
	}
	resp.Tier, resp.Provider, resp.Model = t.name, t.cfg.Provider, t.cfg.Model
	resp.Usage.CostUSD = Cost(resp.Usage, t.cfg.Prices)
	if resp.Message.Text == "" && len(resp.Message.Calls) == 0 && resp.Stop != StopRefusal {
		return resp, t.fail(BadAnswer, emptyError(resp.Stop))
	}
	return resp, nil
}

func emptyError(stop Stop) error {
	if stop == StopLength {
		return fmt.Errorf("%w within its limit; raise max_output_tokens", errEmpty)
	}
	return errEmpty
}

// Cost prices the usage. A missing cache price counts as that of the input, so that the cost is never too low.
func Cost(u Usage, p config.Prices) float64 {
	read, write := cmp.Or(p.CacheRead, p.Input), cmp.Or(p.CacheWrite, p.Input)
	total := float64(u.Input)*p.Input + float64(u.Output)*p.Output + float64(u.CacheRead)*read + float64(u.CacheWrite)*write
	return total / 1e6
}
