// Package prove finds out whether a model answers, and says in words why it does not.
//
// Start with Model, which asks one for a word, and FaultOf. The package neither pays for the call nor keeps its result: its callers do.
package prove

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
	"unicode"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/model/providers"
)

// Proof is the answer of a model.
type Proof struct {
	Text   string        `json:"text"`
	Took   time.Duration `json:"took_ns"`
	Tokens int           `json:"tokens"`
	Usage  model.Usage   `json:"-"`
}

const (
	// proveTimeout leaves a server on this machine the time to load its model.
	proveTimeout = 2 * time.Minute
	// Tokens is enough for the answer of a model that thinks before.
	Tokens = 256
	// question is short, and so cheap.
	question = "Answer with the one word: ready"
)

// Model has a model answer, by the provider that flynn serve uses.
func Model(ctx context.Context, m config.Model) (Proof, error) {
	constructor, ok := providers.All()[m.Provider]
	if !ok {
		return Proof{}, fmt.Errorf("no provider %q", m.Provider)
	}
	provider, err := constructor(m)
	if err != nil {
		return Proof{}, err
	}
	if c, ok := provider.(io.Closer); ok {
		defer func() { _ = c.Close() }()
	}
	ctx, cancel := context.WithTimeout(ctx, proveTimeout)
	defer cancel()
	began := time.Now()
	answer, err := provider.Stream(ctx, model.Request{
		Model: m.Model, MaxTokens: Tokens, Reasoning: m.Reasoning,
		Messages: []model.Message{{Role: model.User, Text: question}},
	}, func(model.Delta) {})
	if err != nil {
		return Proof{}, err
	}
	u := answer.Usage
	u.CostUSD = model.Cost(u, m.Prices)
	return Proof{OneLine(answer.Message.Text), time.Since(began), u.Input + u.Output + u.CacheRead + u.CacheWrite, u}, nil
}

// Worst is the most that a proof of a model uses.
func Worst(m config.Model) model.Usage {
	u := model.Usage{Input: len(question), Output: Tokens + m.Reasoning.Tokens(), Estimated: true}
	u.CostUSD = model.Cost(u, m.Prices)
	return u
}

// Fault is what is wrong with a model, as far as its failure shows.
type Fault string

// The faults.
const (
	KeyRefused  Fault = "the key is refused"
	NoCredit    Fault = "no credit"
	Limited     Fault = "its limit is used up for now"
	NoSuchModel Fault = "no such model"
	Unreachable Fault = "nothing answers"
	Slow        Fault = "no answer in time"
	OtherFault  Fault = "another failure"
)

// Explain says in words what the failure of a model means and what to try.
func Explain(m config.Model, err error) string {
	_, words := FaultOf(m, err)
	return words
}

// FaultOf is Explain with the fault behind the words.
func FaultOf(m config.Model, err error) (f Fault, words string) {
	var e *model.Error
	if !errors.As(err, &e) {
		return OtherFault, err.Error()
	}
	at := m.BaseURL
	if at == "" {
		at = m.Provider
	}
	switch {
	case e.Status == http.StatusUnauthorized && m.APIKey == "":
		return KeyRefused, at + " wants an API key, and there is none"
	case e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden:
		return KeyRefused, "the key is not accepted: " + at + " does not know it, or it may not use this model. Copy it again, whole"
	case e.Status == http.StatusPaymentRequired, e.Kind == model.Auth && e.Status == http.StatusTooManyRequests:
		return NoCredit, "the key is right and the account has no credit: top it up at " + at
	case e.Kind == model.Auth:
		return KeyRefused, "the account or the key does not permit it: " + reason(e)
	case e.Kind == model.RateLimited:
		return Limited, "the key is right and its limit is used up for now: try again in a minute"
	case e.Status == http.StatusNotFound:
		return NoSuchModel, fmt.Sprintf("there is no model %q at %s, or the address is wrong", m.Model, at)
	case e.Status == http.StatusBadRequest && strings.Contains(strings.ToLower(e.Err.Error()), "model"):
		return NoSuchModel, fmt.Sprintf("model %q is not accepted: %s", m.Model, reason(e))
	case e.Kind == model.Unreachable && m.BaseURL == "":
		return Unreachable, at + " cannot be reached: check that this machine is online"
	case e.Kind == model.Unreachable:
		return Unreachable, "nothing answers at " + at + ": check that it is the right address, and that the server runs"
	case e.Kind == model.Timeout:
		return Slow, at + " did not answer in time"
	case e.Kind == model.Overloaded:
		return OtherFault, at + " has a failure of its own: try again in a minute"
	case e.Kind == model.BadAnswer:
		return OtherFault, at + " answers, but not as a model server: check the address, which usually ends in /v1"
	}
	return OtherFault, reason(e)
}

func reason(e *model.Error) string { return OneLine(e.Err.Error()) }

// maxLine bounds a foreign text on the screen, in characters.
const maxLine = 200

// OneLine makes a foreign text fit for one line of a terminal.
func OneLine(text string) string {
	text = strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)), " ")
	if runes := []rune(text); len(runes) > maxLine {
		text = string(runes[:maxLine]) + "…"
	}
	return text
}
