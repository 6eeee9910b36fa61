package main

import (
	"context"
	"errors"
	"io"
	"iter"
	"net/url"
	"strconv"
	"time"

	"github.com/flynnhost/flynn/host/admin"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/client"
	"github.com/flynnhost/flynn/host/policy/decisionlog"
	"github.com/flynnhost/flynn/host/policy/journal"
)

// A command asks the running host by its API, and reads the store itself only while none runs. The functions of this file choose.

// askOrRead asks the running host or, while none runs, reads the answer from its store.
func askOrRead[T any](ctx context.Context, c *config.Config, method, path string, body any, read func() (T, error)) (answer T, err error) {
	if err = client.Ask(ctx, c, method, path, body, &answer); errors.Is(err, client.ErrNotRunning) {
		return read()
	}
	return answer, err
}

// pagesOrRead is askOrRead for the first limit items of a list that comes in pages; q are its other parameters, or nil.
func pagesOrRead[T any](ctx context.Context, c *config.Config, path string, q url.Values, limit int, read func() ([]T, error)) ([]T, error) {
	const most = 500 // of a page
	if q == nil {
		q = url.Values{}
	}
	for all := []T{}; ; {
		q.Set("limit", strconv.Itoa(min(most, limit-len(all))))
		var page gateway.Page[T]
		err := client.Get(ctx, c, path+"?"+q.Encode(), &page)
		if errors.Is(err, client.ErrNotRunning) && !q.Has("cursor") {
			return read()
		}
		if all = append(all, page.Items...); err != nil || page.Next == "" || len(all) >= limit {
			return all, err
		}
		q.Set("cursor", page.Next)
	}
}

// copyOrRead copies an answer of the running host to w or, while none runs, has read write it.
func copyOrRead(ctx context.Context, c *config.Config, path string, w io.Writer, read func() error) error {
	answer, err := client.Open(ctx, c, path)
	if errors.Is(err, client.ErrNotRunning) {
		return read()
	}
	if err != nil {
		return err
	}
	defer answer.Close()
	_, err = io.Copy(w, answer)
	return err
}

// decisionsOf is the decision log of the running host or, while none runs, of its store.
type decisionsOf struct{ c *config.Config }

var _ decisionlog.Source = decisionsOf{}

// EachDecision implements decisionlog.Source.
func (l decisionsOf) EachDecision(ctx context.Context, f journal.DecisionFilter) iter.Seq2[journal.Decision, error] {
	return func(yield func(journal.Decision, error) bool) {
		q := sinceQuery(f.Since)
		for name, value := range map[string]string{
			"until": timeText(f.Until), "id": nonZero(f.ID), "policy": f.Policy, "kind": f.Kind, "limit": nonZero(int64(f.Limit)),
		} {
			if value != "" {
				q.Set(name, value)
			}
		}
		q.Set("without_calls", strconv.FormatBool(f.WithoutCalls))
		more := true
		each := func(d journal.Decision, err error) bool {
			more = yield(d, err)
			return more
		}
		answer, err := client.Open(ctx, l.c, "/api/v1/decisions/export?"+q.Encode())
		switch {
		case errors.Is(err, client.ErrNotRunning):
			err = admin.Decisions(ctx, l.c, f, func(log iter.Seq2[journal.Decision, error]) error {
				log(each)
				return nil
			})
		case err == nil:
			decisionlog.Decode(answer)(each)
			_ = answer.Close()
		}
		if err != nil && more {
			yield(journal.Decision{}, err)
		}
	}
}

// sinceQuery is a query for what is not older than a time.
func sinceQuery(since time.Time) url.Values {
	q := url.Values{}
	if !since.IsZero() {
		q.Set("since", timeText(since))
	}
	return q
}

func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format(time.RFC3339Nano)
}

func nonZero(n int64) string {
	if n == 0 {
		return ""
	}
	return number(n)
}
