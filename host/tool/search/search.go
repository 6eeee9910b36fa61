// Package search asks web search services: SearXNG, Brave, Tavily, Exa, and models that search themselves.
//
// Start with New and Services.Find, which asks one service after the other. wire.go makes a request and tells what is wrong with its answer, and each
// other file has the wire of its services. The package neither labels results nor decides who may search: the tool web.search does.
package search

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/internal/event"
	"github.com/flynnhost/flynn/host/model"
)

// Bounds of a query and of what a service may say to it.
const (
	MaxQuery   = 400 // characters
	MaxResults = 20
	maxAnswer  = 2 << 20
	maxTitle   = 300 // bytes, as those below
	maxText    = 1200
	maxURL     = 2048
)

// Query is what to search for.
type Query struct {
	Text  string
	Count int    // of results; 1 to MaxResults
	Fresh string // "day", "week", "month" or "year"; empty is any age
}

// Result is a page that a service found. Its texts are foreign, on one line, and bounded; URL is one of http or https with a host.
type Result struct {
	Title, Text, Published string
	URL                    *url.URL
}

// Kind is the outcome of a search.
type Kind string

// The outcomes.
const (
	Found       Kind = "found"
	Empty       Kind = "empty"
	NoKey       Kind = "no_key" // none, or one that the service refuses
	Challenge   Kind = "challenge"
	Quota       Kind = "quota"
	NoJSON      Kind = "no_json" // a SearXNG that answers pages only
	Unreachable Kind = "unreachable"
	BadAnswer   Kind = "bad_answer"
)

// Error says why a service has no results. It holds no words of the service.
type Error struct {
	Service string
	Kind    Kind
	Words   string
	rest    time.Duration // for which the service is not asked again
}

func (e *Error) Error() string { return e.Service + ": " + e.Words }

// Searched is the event of a search that a service was asked for.
type Searched struct {
	Service string
	Outcome Kind
	Took    time.Duration
}

// Service is one service of a configuration. Its methods are safe for concurrent use.
type Service struct {
	Name string // as in the configuration, such as "tavily" or "model default"
	Host string // of its address

	wire    wire
	base    *url.URL
	key     config.Secret
	tier    string
	model   config.Model // of wires that are models
	price   float64      // US dollars for a search
	listed  bool         // price is a list price
	timeout time.Duration
	client  *http.Client

	mu    sync.Mutex
	until time.Time // when it may be asked again, after the failure why
	why   *Error
}

// New returns the services of a configuration, in its order. It opens no connection.
func New(c *config.Config) []*Service {
	var services []*Service
	for _, s := range c.Search {
		provider, m := s.Provider, config.Model{}
		made := &Service{Name: provider, key: s.APIKey, tier: "search", timeout: time.Duration(s.TimeoutSeconds) * time.Second}
		if provider == "model" {
			m = c.Models[s.Tier]
			provider, made.Name, made.tier, made.key, s.BaseURL = m.Provider, "model "+s.Tier, s.Tier, m.APIKey, m.BaseURL
		}
		made.wire, made.model = wires()[provider], m
		made.price, made.listed = cmp.Or(s.USDPerSearch, made.wire.price), s.USDPerSearch == 0 && made.wire.price > 0
		base, err := url.Parse(cmp.Or(s.BaseURL, made.wire.url))
		if err != nil {
			continue // the check of the configuration has refused it
		}
		made.base, made.Host = base, base.Hostname()
		made.client = client(s.BaseURL != "")
		services = append(services, made)
	}
	return services
}

// Answer is what a service found, with what that cost.
type Answer struct {
	Results []Result
	Usage   model.Usage
}

// Search asks the service. Its error is an *Error, or that of ctx.
func (s *Service) Search(ctx context.Context, q Query) (Answer, error) {
	timed, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	answer, fault := s.ask(timed, q)
	switch {
	case ctx.Err() != nil:
		return answer, ctx.Err()
	case fault == nil:
		return answer, nil
	case fault.Kind == Unreachable && timed.Err() != nil:
		fault.Words = fmt.Sprintf("no answer within %v", s.timeout)
	}
	return answer, fault
}

// attempt describes a search to those who account for it.
func (s *Service) attempt() model.Attempt {
	worst := model.Usage{CostUSD: s.price, Estimated: true}
	name := "search"
	if s.model.Model != "" {
		name = s.model.Model
		worst.Input, worst.Output = worstRead, maxWritten
		worst.CostUSD += model.Cost(worst, s.model.Prices)
	}
	return model.Attempt{Tier: s.tier, Provider: cmp.Or(s.model.Provider, s.Name), Model: name, Number: 1, Start: time.Now(), Worst: worst}
}

// resting returns why the service is not asked now, or nil.
func (s *Service) resting(now time.Time) *Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Before(s.until) {
		return s.why
	}
	return nil
}

func (s *Service) rest(now time.Time, why *Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until, s.why = now.Add(why.rest), why
}

// Pay accounts for an attempt, whose cost call returns: it reserves the most that it may cost. An error that is not of call means that it was not
// made.
type Pay func(ctx context.Context, a model.Attempt, call func() (model.Usage, error)) error

// Services asks the services that are configured.
type Services struct {
	// Now returns the services in force.
	Now    func() []*Service
	Events *event.Bus
	Log    *slog.Logger
}

// Finding is the outcome of a search by several services.
type Finding struct {
	Results []Result
	By      *Service // nil if none has results
	Passed  []*Error // of the services that were asked before it, or not asked because they failed a while ago
}

// Find asks one service after the other until one has results. Its error is that of pay or of ctx.
func (s Services) Find(ctx context.Context, q Query, pay Pay) (Finding, error) {
	var f Finding
	for _, service := range s.Now() {
		if why := service.resting(time.Now()); why != nil {
			f.Passed = append(f.Passed, why)
			continue
		}
		answer, err := s.find(ctx, service, q, pay)
		var fault *Error
		switch {
		case err == nil:
			f.Results, f.By = answer.Results, service
			return f, nil
		case !errors.As(err, &fault):
			return f, err
		}
		f.Passed = append(f.Passed, fault)
	}
	return f, nil
}

func (s Services) find(ctx context.Context, service *Service, q Query, pay Pay) (answer Answer, err error) {
	attempt := service.attempt()
	var called error
	err = pay(ctx, attempt, func() (model.Usage, error) {
		answer, called = service.Search(ctx, q)
		var fault *Error
		if errors.As(called, &fault) && fault.Kind == Empty {
			return answer.Usage, nil // an answer all the same
		}
		return answer.Usage, called
	})
	if called == nil {
		if err == nil {
			s.searched(service, Found, attempt.Start)
		}
		return answer, err
	}
	var fault *Error
	if !errors.As(called, &fault) {
		return answer, called
	}
	s.searched(service, fault.Kind, attempt.Start)
	service.rest(time.Now(), fault)
	if fault.Kind != Empty {
		s.Log.Warn("a search service failed", "service", fault.Service, "reason", string(fault.Kind), "error", fault.Words)
	}
	return answer, fault
}

func (s Services) searched(service *Service, outcome Kind, began time.Time) {
	s.Events.Publish(Searched{Service: service.Name, Outcome: outcome, Took: time.Since(began)})
}

// results cleans what a service sent: pages with an address, each once, at most as many as were asked for.
func (q Query) results(found []raw) (results []Result) {
	seen := map[string]bool{}
	for _, r := range found {
		u, err := url.Parse(strings.TrimSpace(r.URL))
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || len(u.String()) > maxURL || seen[u.String()] {
			continue
		}
		seen[u.String()] = true
		results = append(results, Result{Title: line(r.Title, maxTitle), Text: line(r.Text, maxText), Published: line(r.Published, 40), URL: u})
		if len(results) == min(q.Count, MaxResults) {
			break
		}
	}
	return slices.Clip(results)
}
