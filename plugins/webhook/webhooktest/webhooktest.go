// Package webhooktest is a system that talks to Flynn over the webhook plugin: it posts signed messages, and keeps the answers that are
// posted to it, each once.
//
// Start with New. Post sends a message to the address that the host gave out; Answers are what came back.
package webhooktest

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"time"

	"github.com/flynnhost/flynn/sdk/plugintest/fake"
	"github.com/flynnhost/flynn/sdk/plugintest/platform"
)

// Answer is one answer by Flynn.
type Answer struct {
	ID                string `json:"-"`
	Conversation      string `json:"conversation"`
	ReplyTo           string `json:"reply_to"`
	Text              string `json:"text"`
	PossibleDuplicate bool   `json:"possible_duplicate"`
}

// System is the other side.
type System struct {
	Secret string // as in the plugin's configuration

	key    []byte
	server *httptest.Server

	mu       platform.State
	answers  []Answer
	seen     map[string]bool
	troubles platform.Faults[Trouble] // of the next posts
	posts    int
}

// New starts a system on loopback, which ends with the test.
func New(t platform.TB) *System {
	s := &System{key: bytes.Repeat([]byte{7}, 32), seen: map[string]bool{}}
	s.Secret = "whsec_" + base64.StdEncoding.EncodeToString(s.key)
	s.server = platform.Serve(t, http.HandlerFunc(s.take))
	return s
}

// Watch makes the system report what people see of Flynn.
func (s *System) Watch(report func(fake.Report)) { s.mu.Watch(report) }

// URL returns where answers are posted to.
func (s *System) URL() string { return s.server.URL + "/answers" }

// Trouble is a failure of one post.
type Trouble struct {
	Status     int    // answered in place of taking the message; 0: none
	RetryAfter string // header beside Status
	HangUp     bool   // the connection breaks: before the message is taken, or after
	Taken      bool
}

// Next makes the next posts fail, one for each trouble.
func (s *System) Next(t ...Trouble) {
	defer s.mu.Change()()
	s.troubles.Add("", t...)
}

// take receives one answer: a wrong signature is refused, an id that was there before is a conflict.
func (s *System) take(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		return
	}
	id := r.Header.Get("webhook-id")
	if r.Header.Get("webhook-signature") != s.sign(id, r.Header.Get("webhook-timestamp"), body) {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	status, trouble := s.receive(id, body)
	if trouble.HangUp {
		panic(http.ErrAbortHandler)
	}
	if trouble.RetryAfter != "" {
		w.Header().Set("Retry-After", trouble.RetryAfter)
	}
	w.WriteHeader(status)
}

// receive takes an answer, unless trouble is due.
func (s *System) receive(id string, body []byte) (status int, t Trouble) {
	defer s.mu.Change()()
	s.posts++
	t, _ = s.troubles.Take(platform.At(""))
	if t.Status != 0 || t.HangUp && !t.Taken {
		return t.Status, t
	}
	return s.keep(id, body), t
}

// keep stores an answer once. s.mu is held.
func (s *System) keep(id string, body []byte) int {
	if s.seen[id] {
		return http.StatusConflict
	}
	a := Answer{ID: id}
	if err := json.Unmarshal(body, &a); err != nil {
		return http.StatusBadRequest
	}
	s.seen[id] = true
	s.answers = append(s.answers, a)
	s.mu.Wake()
	s.mu.Shown(a.Text)
	return http.StatusOK
}

func (s *System) sign(id, timestamp string, body []byte) string {
	h := hmac.New(sha256.New, s.key)
	fmt.Fprintf(h, "%s.%s.%s", id, timestamp, body)
	return "v1," + base64.StdEncoding.EncodeToString(h.Sum(nil))
}

// Header returns that of a signed request.
func (s *System) Header(id string, at time.Time, body []byte) http.Header {
	timestamp := strconv.FormatInt(at.Unix(), 10)
	h := http.Header{}
	h.Set("Content-Type", "application/json")
	h.Set("Webhook-Id", id)
	h.Set("Webhook-Timestamp", timestamp)
	h.Set("Webhook-Signature", s.sign(id, timestamp, body))
	return h
}

// Post sends a message to url and returns the status, or 0 if there is no answer.
func (s *System) Post(ctx context.Context, url, id string, message any) (status int, err error) {
	body, err := json.Marshal(message)
	if err != nil {
		return 0, err
	}
	return platform.Post(ctx, http.DefaultClient, url, s.Header(id, time.Now(), body), body), nil
}

// Posts returns how often something with a right signature was posted.
func (s *System) Posts() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.posts
}

// Answers waits until there are n answers, or ctx ends, and returns all.
func (s *System) Answers(ctx context.Context, n int) []Answer {
	var all []Answer
	s.mu.Wait(ctx, func() bool {
		all = s.answers
		return len(all) >= n
	})
	return all
}
