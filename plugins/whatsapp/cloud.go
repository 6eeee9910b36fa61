package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/flynnhost/flynn/sdk/backoff"
	"github.com/flynnhost/flynn/sdk/cache"
	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/hostapi"
)

// cloud is a business number over Meta's Cloud API.
type cloud struct {
	settings settings
	log      *slog.Logger
	host     *hostapi.Host
	graph    *graph
	statuses *statuses
	choices  *choices
	last     cache.Map[string, string] // latest message of each person, for the typing indicator
}

func newCloud(s settings, c channel.Config) *cloud {
	return &cloud{
		settings: s, log: c.Log, host: c.Host, graph: newGraph(s), statuses: newStatuses(), choices: newChoices(),
		last: cache.Map[string, string]{Most: maxLast},
	}
}

// Run implements line: it serves the webhook until ctx ends.
func (c *cloud) Run(ctx context.Context, in channel.Inbox) error {
	defer c.graph.http.CloseIdleConnections()
	again := backoff.Backoff{First: 250 * time.Millisecond, Most: 2 * time.Minute}
	again.Loop(ctx, func(ctx context.Context) error {
		in.Status(channel.StateConnecting, "registering the webhook")
		err := c.host.Webhook(ctx, "", func(url string) { c.greet(ctx, in, url) }, c.handler(in))
		if errors.Is(err, hostapi.ErrNotGranted) { // another process would not be granted it either
			in.Status(channel.StateDegraded, "nothing is received: "+err.Error())
			<-ctx.Done()
		}
		return err
	}, func(err error, wait time.Duration) time.Duration {
		c.log.Warn("the webhook is not served", "error", err)
		in.Status(channel.StateDegraded, err.Error())
		return wait
	})
	return nil
}

// greet shows the address of the webhook, which the operator enters at Meta, and whether the token works.
func (c *cloud) greet(ctx context.Context, in channel.Inbox, url string) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var me struct {
		Number string `json:"display_phone_number"`
		Name   string `json:"verified_name"`
	}
	err := c.graph.get(ctx, c.graph.phone+"?fields=display_phone_number,verified_name", &me)
	switch {
	case unauthorized(err):
		in.Status(channel.StateAuthRequired, err.Error())
	case err != nil:
		in.Status(channel.StateDegraded, err.Error())
	default:
		in.Status(channel.StateReady, fmt.Sprintf("%s (%s), webhook at %s", me.Number, me.Name, url))
	}
	c.log.Info("webhook is served", "url", url)
}

// handler handles requests to the webhook.
func (c *cloud) handler(in channel.Inbox) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Method {
		case http.MethodGet:
			c.handshake(w, r)
		case http.MethodPost:
			c.receive(w, r, in)
		default:
			w.WriteHeader(http.StatusMethodNotAllowed)
		}
	})
}

const maxChallenge = 256

// handshake proves to Meta that the address is ours: it repeats the challenge to a caller that knows the verify token.
func (c *cloud) handshake(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	word, challenge := q.Get("hub.verify_token"), q.Get("hub.challenge")
	known := subtle.ConstantTimeCompare([]byte(word), []byte(c.settings.verify)) == 1
	if q.Get("hub.mode") != "subscribe" || !known || challenge == "" || len(challenge) > maxChallenge {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = io.WriteString(w, challenge)
}

const (
	maxHook     = 4 << 20 // bytes, as in plugin.toml
	hookTimeout = 12 * time.Second
)

// receive takes one notification. It answers 200 only when the host has every event of it on disk; Meta repeats all others for days.
func (c *cloud) receive(w http.ResponseWriter, r *http.Request, in channel.Inbox) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxHook))
	if err != nil {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		return
	}
	if !signed(body, r.Header.Get("X-Hub-Signature-256"), c.settings.secret) {
		c.log.Warn("a call of the webhook without Meta's signature was refused")
		w.WriteHeader(http.StatusForbidden)
		return
	}
	n, err := readHook(body)
	if err != nil {
		c.log.Warn("cannot read a notification", "error", err)
		w.WriteHeader(http.StatusOK) // it will not get better
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), hookTimeout)
	defer cancel()
	for _, s := range n.statuses(c.settings.PhoneNumberID) {
		c.settle(s)
	}
	for _, e := range n.events(c.settings.PhoneNumberID) {
		if !c.deliver(ctx, in, e) {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
	}
	w.WriteHeader(http.StatusOK)
}

// signed checks the signature of the unmodified body.
func signed(body []byte, header, secret string) bool {
	sum, ok := strings.CutPrefix(header, "sha256=")
	if !ok {
		return false
	}
	got, err := hex.DecodeString(sum)
	if err != nil {
		return false
	}
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return hmac.Equal(got, mac.Sum(nil))
}

const maxLast = 5000

// deliver delivers one event and reports whether it is settled.
func (c *cloud) deliver(ctx context.Context, in channel.Inbox, e channel.Event) bool {
	e, err := c.choices.deliver(ctx, in, e)
	if err == nil {
		c.last.Set(e.Conversation.ID, e.ID, 0)
	}
	return channel.Settled(err)
}

// settle records the outcome of a message.
func (c *cloud) settle(s hookStatus) {
	f := fate{wamid: s.ID}
	switch s.Status {
	case "sent", "delivered", "read":
	case "failed":
		f.failed = &graphError{Message: "the message failed"}
		if len(s.Errors) > 0 {
			f.failed = &s.Errors[0]
		}
		c.log.Warn("a message failed", "message", s.ID, "error", f.failed, "hint", words(f.failed.Code))
	default:
		return
	}
	c.statuses.learn(s.Key, f)
}
