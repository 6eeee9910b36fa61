package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/internal/event"
	"github.com/flynnhost/flynn/host/observe/explain"
)

const (
	queueLength = 256
	sendTimeout = 10 * time.Second
	maxDepth    = 8    // of turns that delegate to others
	maxSpans    = 5000 // of a turn before those that it has delegated are left out
)

// Config is what an Exporter needs.
type Config struct {
	// Endpoint is the collector's base address now, such as "http://127.0.0.1:4318"; "" sends nothing.
	Endpoint func() string
	// Trace reads the trace of a turn.
	Trace func(ctx context.Context, turn string) (explain.Trace, error)
	// Events gets Lost; it may be nil.
	Events *event.Bus
	// Settle is how long after the end of a turn its trace is read, so that most answers are delivered by then. 2 s; below zero none
	Settle time.Duration
	Log    *slog.Logger
}

// Lost is published for each turn whose spans were not sent.
type Lost struct{}

// Exporter sends the spans of turns, one turn after the other.
type Exporter struct {
	cfg    Config
	queue  chan ended
	client *http.Client
}

type ended struct {
	turn string
	at   time.Time
}

// New returns an exporter. Nothing is sent until Run.
func New(cfg Config) *Exporter {
	if cfg.Settle == 0 {
		cfg.Settle = 2 * time.Second
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Exporter{cfg: cfg, queue: make(chan ended, queueLength), client: &http.Client{
		Transport:     &http.Transport{MaxIdleConns: 1, IdleConnTimeout: time.Minute}, // no proxy: the address is the operator's own word
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Offer has the spans of a turn that has ended sent. It never waits: where the queue is full the turn is counted as lost.
func (e *Exporter) Offer(turn string) {
	if e.cfg.Endpoint() == "" {
		return
	}
	select {
	case e.queue <- ended{turn, time.Now()}:
	default:
		e.cfg.Events.Publish(Lost{})
	}
}

// Run sends until ctx ends. What is in the queue then is lost.
func (e *Exporter) Run(ctx context.Context) error {
	defer e.client.CloseIdleConnections()
	for {
		select {
		case <-ctx.Done():
			for range len(e.queue) {
				e.cfg.Events.Publish(Lost{})
			}
			return nil
		case next := <-e.queue:
			if !sleep(ctx, time.Until(next.at.Add(e.cfg.Settle))) {
				e.cfg.Events.Publish(Lost{})
				continue
			}
			if err := e.send(ctx, next.turn); err != nil {
				e.cfg.Events.Publish(Lost{})
				e.cfg.Log.Warn("the spans of a turn are not sent", "turn", next.turn, "error", err)
			}
		}
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (e *Exporter) send(ctx context.Context, turn string) error {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	first, err := e.first(ctx, turn)
	if err != nil {
		return err
	}
	spans, err := e.gather(ctx, turn, first, maxDepth)
	if err != nil || len(spans) == 0 {
		return err
	}
	body, err := json.Marshal(wrap(spans))
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(e.cfg.Endpoint(), "/")+"/v1/traces", bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := e.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20)) // so that the connection can be used again
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("the collector answers %s", resp.Status)
	}
	return nil
}

// first is the turn that a trace is about: of one in the background that for which it works, at the top.
func (e *Exporter) first(ctx context.Context, turn string) (string, error) {
	for range maxDepth {
		t, err := e.cfg.Trace(ctx, turn)
		if err != nil || t.Parent == "" {
			return turn, err
		}
		turn = t.Parent
	}
	return turn, nil
}

// gather makes the spans of a turn and of those that it has delegated. Those in the background are sent when they end themselves.
func (e *Exporter) gather(ctx context.Context, turn, first string, depth int) ([]span, error) {
	t, err := e.cfg.Trace(ctx, turn)
	if err != nil {
		return nil, err
	}
	if t.Ended.IsZero() || t.Background && depth < maxDepth {
		return nil, nil
	}
	spans := spansOf(t, first)
	for _, s := range t.Steps {
		for _, c := range s.Calls {
			if c.Child == "" || depth == 0 || len(spans) > maxSpans {
				continue
			}
			more, err := e.gather(ctx, c.Child, first, depth-1)
			if err != nil {
				return nil, err
			}
			spans = append(spans, more...)
		}
	}
	return spans, nil
}
