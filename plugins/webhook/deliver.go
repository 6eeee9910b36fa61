package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/flynnhost/flynn/sdk/channel"
)

// outbound is an answer as a system gets it. The header webhook-id is its idempotency key.
type outbound struct {
	Conversation string `json:"conversation"`
	ReplyTo      string `json:"reply_to,omitempty"` // webhook-id of the message
	Text         string `json:"text"`               // Markdown
	// PossibleDuplicate: this webhook-id was posted before, and nobody knows whether it arrived.
	PossibleDuplicate bool `json:"possible_duplicate,omitempty"`
}

// Send implements channel.Channel. Who receives treats webhook-id as a key; that is what makes a second post harmless.
func (p *plugin) Send(ctx context.Context, s channel.Send) (channel.Sent, error) {
	body, err := json.Marshal(outbound{s.Conversation.ID, s.ReplyTo, s.Text, s.PossibleDuplicate})
	if err != nil {
		return channel.Sent{Outcome: channel.OutcomeNotSent}, err
	}
	ctx, cancel := context.WithTimeout(ctx, p.settings.timeout())
	defer cancel()
	var written atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { written.Store(true) }})
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.settings.DeliverURL, bytes.NewReader(body))
	if err != nil {
		return channel.Sent{Outcome: channel.OutcomeNotSent}, err
	}
	timestamp := strconv.FormatInt(p.now().Unix(), 10)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "Flynn-Webhook")
	r.Header.Set(headerID, s.Key)
	r.Header.Set(headerTimestamp, timestamp)
	r.Header.Set(headerSignature, sign(p.settings.secret, s.Key, timestamp, body))
	answer, err := p.client.Do(r)
	if err != nil {
		return channel.Sent{Outcome: lost(written.Load())}, errors.New("post the answer: " + brief(err))
	}
	defer answer.Body.Close()
	_, _ = io.CopyN(io.Discard, answer.Body, 64<<10) // so that the connection can be used again
	return outcome(answer, s.Key)
}

// lost is what became of a post without an answer: nothing if not even its head was written.
func lost(written bool) channel.Outcome {
	if written {
		return channel.OutcomeUnknown
	}
	return channel.OutcomeNotSent
}

// outcome reads the status of an answer. A server that fails may have kept the message before.
func outcome(r *http.Response, key string) (channel.Sent, error) {
	switch {
	case r.StatusCode == http.StatusConflict:
		return channel.Sent{Outcome: channel.OutcomeDuplicate, MessageIDs: []string{key}}, nil
	case r.StatusCode/100 == 2:
		return channel.Sent{Outcome: channel.OutcomeSent, MessageIDs: []string{key}}, nil
	}
	sent := channel.Sent{Outcome: channel.OutcomeNotSent, RetryAfter: retryAfter(r.Header.Get("Retry-After"), time.Now())}
	if r.StatusCode/100 == 5 && r.StatusCode != http.StatusServiceUnavailable {
		sent.Outcome = channel.OutcomeUnknown
	}
	return sent, fmt.Errorf("post the answer: the other side says %s", r.Status)
}

// retryAfter reads both forms of RFC 9110, section 10.2.3.
func retryAfter(text string, now time.Time) time.Duration {
	if seconds, err := strconv.Atoi(text); err == nil && seconds >= 0 && seconds < 1<<30 {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}

// brief leaves the address out, which may hold a token.
func brief(err error) string {
	if cause := errors.Unwrap(err); cause != nil {
		return cause.Error()
	}
	return "it failed"
}
