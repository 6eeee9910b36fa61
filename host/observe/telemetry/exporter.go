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
	"github.com/flynnhost/flynn/sdk/backoff"
)

const (
	queueLength = 256
	sendTimeout = 10 * time.Second
	maxDepth    = 8    // of delegation
	maxSpans    = 5000 // of a turn; beyond that its delegated turns are left out
)

// Config is what an Exporter needs.
type Config struct {
	// Endpoint returns the collector's current base address, such as "http://127.0.0.1:4318"; "" sends nothing.
	Endpoint func() string
	// Trace reads the trace of a turn.
	Trace func(ctx context.Context, turn string) (explain.Trace, error)
	// Events gets Lost; it may be nil.
	Events *event.Bus
	// Settle is how long after the end of a turn its trace is read, so that most answers are delivered by then. Default: 2 s; a
	// negative value means at once.
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
		Transport:     &http.Transport{MaxIdleConns: 1, IdleConnTimeout: time.Minute}, // no proxy: the operator has configured the address
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Offer queues an ended turn, whose spans are then sent. It never waits: if the queue is full, the turn is counted as lost.
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

// Run sends spans until ctx ends. Turns that are in the queue then are lost.
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
			if backoff.Sleep(ctx, time.Until(next.at.Add(e.cfg.Settle))) != nil {
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

// first returns the turn at the top of the delegation chain, which names the trace.
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

// gather makes the spans of a turn and of the turns that it has delegated. Background turns are sent when they end.
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
