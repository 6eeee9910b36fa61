// Package whatsapptest is Meta's side of the WhatsApp Cloud API on loopback, for tests: the calls of the Graph API that a bot makes, and
// the sender of webhooks with its signatures, redeliveries and statuses.
//
// Begin with Start; give URL to the client under test, tell its address with Subscribe, which makes the handshake. Say and the like are what
// people do; Fail makes calls answer badly; CloseWindow lets 24 hours pass for somebody. Sent is what the client sent. Errors and
// shapes follow Meta's documentation; what a client may rely on is checked by this package's own tests.
package whatsapptest

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/flynnhost/flynn/sdk/plugintest/fake"
	"github.com/flynnhost/flynn/sdk/plugintest/platform"
)

// The credentials of the app and its number.
const (
	AccessToken = "EAAtest"
	AppSecret   = "app-secret"
	VerifyToken = "verify-token"
	PhoneID     = "106540352242922"
)

// Config has the options. The zero value works.
type Config struct {
	RedeliverAfter time.Duration // after an answer other than 200, and twice as long after each further one; 1 s
	Redeliveries   int           // 10
	Statuses       bool          // "sent" and "delivered" are reported automatically
	LateWindow     bool          // a status reports that the 24 hours have passed, not the answer
}

// Server is the fake.
type Server struct {
	config Config
	http   *httptest.Server
	client *http.Client
	ctx    context.Context
	work   sync.WaitGroup

	mu      platform.State
	closed  bool
	hook    string
	last    int // number of the latest id
	sent    []Sent
	read    []string // messages that were marked as read, with " typing" behind
	media   map[string]*Media
	closedW map[string]bool // people whose 24 hours have passed
	faults  platform.Faults[Fault]
	hooks   []*Hook
}

// Sent is a message that the client sent.
type Sent struct {
	ID, To, Type, Key, ReplyTo string
	Body                       map[string]any // the object under the name of Type
}

// Media is a medium.
type Media struct {
	ID, Name, Type string
	Body           []byte
	url            string
}

// Hook is one notification with its deliveries.
type Hook struct {
	Body    []byte
	Answers []int // statuses of HTTP; 0 when there was no answer
	Done    bool
	Lost    bool
}

// Fault is a bad answer to one call of the Graph API.
type Fault struct {
	Status     int // 400
	Code       int // of the error; 0 answers with an HTML page
	Message    string
	Details    string
	RetryAfter int  // seconds
	Late       bool // the call is carried out, and then the connection is cut instead of an answer
}

// Start runs a fake until the end of the test.
func Start(t platform.TB, c Config) *Server {
	t.Helper()
	if c.RedeliverAfter == 0 {
		c.RedeliverAfter = time.Second
	}
	if c.Redeliveries == 0 {
		c.Redeliveries = 10
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &Server{
		config: c, ctx: ctx, client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 20 * time.Second},
		media: map[string]*Media{}, closedW: map[string]bool{}, last: 1000,
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v23.0/{id}", s.get)
	mux.HandleFunc("POST /v23.0/{phone}/messages", s.post)
	mux.HandleFunc("POST /v23.0/{phone}/media", s.upload)
	mux.HandleFunc("GET /bytes/{id}", s.bytes)
	t.Cleanup(s.work.Wait)
	s.http = platform.Serve(t, mux)
	t.Cleanup(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.closed = true
		stop()
	})
	return s
}

// URL returns the base of the Graph API.
func (s *Server) URL() string { return s.http.URL + "/v23.0" }

// Fail makes the next calls answer badly, one each.
func (s *Server) Fail(faults ...Fault) {
	defer s.mu.Change()()
	s.faults.Add("", faults...)
}

// CloseWindow lets 24 hours pass since the last message of somebody; Say opens it again.
func (s *Server) CloseWindow(user string) {
	defer s.mu.Change()()
	s.closedW[user] = true
}

// Sent lists the messages of the client.
func (s *Server) Sent() []Sent {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.sent)
}

// Read lists the messages marked as read; " typing" after an id means that the indicator was shown.
func (s *Server) Read() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.read)
}

// AddMedia makes a medium that people can send.
func (s *Server) AddMedia(name, kind string, body []byte) *Media {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addMedia(name, kind, body)
}

// AddMediaAt adds a medium with an address elsewhere.
func (s *Server) AddMediaAt(kind, address string) *Media {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.addMedia("", kind, nil)
	m.url = address
	return m
}

func (s *Server) addMedia(name, kind string, body []byte) *Media {
	s.last++
	m := &Media{ID: strconv.Itoa(s.last), Name: name, Type: kind, Body: body}
	m.url = s.http.URL + "/bytes/" + m.ID
	s.media[m.ID] = m
	return m
}

// Watch makes the server report what people see of the client.
func (s *Server) Watch(report func(fake.Report)) { s.mu.Watch(report) }

// Subscribe sets the address of the webhook, after the handshake that proves it.
func (s *Server) Subscribe(address, verifyToken string) error {
	const challenge = "1158201444"
	q := url.Values{"hub.mode": {"subscribe"}, "hub.challenge": {challenge}, "hub.verify_token": {verifyToken}}
	r, err := http.NewRequestWithContext(s.ctx, http.MethodGet, address+"?"+q.Encode(), nil)
	if err != nil {
		return err
	}
	resp, err := s.client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK || string(body) != challenge {
		return fmt.Errorf("handshake: %s with %q", resp.Status, body)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hook = address
	return nil
}

// Signature returns Meta's signature of a body.
func Signature(body []byte) string {
	mac := hmac.New(sha256.New, []byte(AppSecret))
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

// Notify posts a value of the field "messages" until the client answers 200.
func (s *Server) Notify(value map[string]any) *Hook {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.notify(value)
}

// notify does the same with s.mu held.
func (s *Server) notify(value map[string]any) *Hook {
	v := map[string]any{"messaging_product": "whatsapp", "metadata": map[string]any{"display_phone_number": "15550783881", "phone_number_id": PhoneID}}
	maps.Copy(v, value)
	body, _ := json.Marshal(map[string]any{"object": "whatsapp_business_account", "entry": []any{
		map[string]any{"id": "102290129340398", "changes": []any{map[string]any{"field": "messages", "value": v}}},
	}})
	h := &Hook{Body: body}
	s.hooks = append(s.hooks, h)
	if !s.closed {
		s.work.Go(func() { s.deliver(h) })
	}
	return h
}

func (s *Server) deliver(h *Hook) {
	for try := 0; ; try++ {
		s.mu.Lock()
		address := s.hook
		s.mu.Unlock()
		status := platform.Post(s.ctx, s.client, address, http.Header{
			"Content-Type": {"application/json"}, "X-Hub-Signature-256": {Signature(h.Body)},
		}, h.Body)
		s.mu.Lock()
		h.Answers = append(h.Answers, status)
		h.Done, h.Lost = status == http.StatusOK, status != http.StatusOK && try >= s.config.Redeliveries
		over := h.Done || h.Lost
		s.mu.Wake()
		s.mu.Unlock()
		if over {
			return
		}
		if !platform.Pause(s.config.RedeliverAfter<<min(try, 6), s.ctx.Done()) {
			return
		}
	}
}

// Hooks returns the notifications so far.
func (s *Server) Hooks() []Hook {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Hook
	for _, h := range s.hooks {
		copied := *h
		copied.Answers = slices.Clone(h.Answers)
		out = append(out, copied)
	}
	return out
}

// WaitDone waits until every notification was taken.
func (s *Server) WaitDone(t platform.TB) {
	t.Helper()
	s.mu.Await(t, "200 to every notification", func() bool {
		return !slices.ContainsFunc(s.hooks, func(h *Hook) bool { return !h.Done })
	})
}

// WaitSent waits until the client sent n messages, and returns them.
func (s *Server) WaitSent(t platform.TB, n int) []Sent {
	t.Helper()
	s.mu.Await(t, fmt.Sprintf("%d messages", n), func() bool { return len(s.sent) >= n })
	return s.Sent()
}
