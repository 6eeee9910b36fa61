package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/webapi"
)

// outbound is an answer as a system gets it. The header webhook-id is its idempotency key.
type outbound struct {
	Conversation string `json:"conversation"`
	ReplyTo      string `json:"reply_to,omitempty"` // webhook-id of the message
	Text         string `json:"text"`               // Markdown
	// PossibleDuplicate: this webhook-id was posted before, and may have arrived.
	PossibleDuplicate bool `json:"possible_duplicate,omitempty"`
}

// Send implements channel.Channel. The receiver treats webhook-id as a key, so that a second post is harmless.
func (p *plugin) Send(ctx context.Context, s channel.Send) (channel.Sent, error) {
	body, err := json.Marshal(outbound{s.Conversation.ID, s.ReplyTo, s.Text, s.PossibleDuplicate})
	if err != nil {
		return channel.Sent{Outcome: channel.OutcomeNotSent}, err
	}
	ctx, cancel := context.WithTimeout(ctx, p.settings.timeout())
	defer cancel()
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
	answer, err := webapi.Do(p.client, r)
	if webapi.Unsent(err) {
		return channel.Sent{Outcome: channel.OutcomeNotSent}, fmt.Errorf("post the answer: %w", err)
	}
	if err != nil {
		return channel.Sent{Outcome: channel.OutcomeUnknown}, fmt.Errorf("post the answer: %w", err)
	}
	defer answer.Body.Close()
	_, _ = io.CopyN(io.Discard, answer.Body, 64<<10) // so that the connection can be used again
	return outcome(answer, s.Key)
}

// outcome interprets the status of a response. A server that fails may have stored the message before.
func outcome(r *http.Response, key string) (channel.Sent, error) {
	switch {
	case r.StatusCode == http.StatusConflict:
		return channel.Sent{Outcome: channel.OutcomeDuplicate, MessageIDs: []string{key}}, nil
	case r.StatusCode/100 == 2:
		return channel.Sent{Outcome: channel.OutcomeSent, MessageIDs: []string{key}}, nil
	}
	sent := channel.Sent{Outcome: channel.OutcomeNotSent, RetryAfter: webapi.RetryAfter(r.Header)}
	if r.StatusCode/100 == 5 && r.StatusCode != http.StatusServiceUnavailable {
		sent.Outcome = channel.OutcomeUnknown
	}
	return sent, fmt.Errorf("post the answer: the other side returned %s", r.Status)
}
