package slacktest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/flynnhost/flynn/sdk/plugintest/platform"
)

// socket is one Socket Mode connection.
type socket struct {
	conn    *websocket.Conn
	number  int
	leaving bool // asked to disconnect: it gets no further envelopes

	unsent  []object // frames behind the one that is being written
	writing bool
}

// Event is one event for the app, with its deliveries.
type Event struct {
	Kind       string // "events_api", "interactive", "slash_commands"
	Payload    object
	Deliveries []Delivery
	Acked      bool
	Lost       bool // given up

	timer *time.Timer
}

// Delivery is one envelope.
type Delivery struct {
	EnvelopeID string
	Connection int // counted from 1; 0 when there was none
}

// openSocket answers apps.connections.open. s.mu is held.
func (s *Server) openSocket(url.Values) object {
	s.opened++
	return object{"ok": true, "url": fmt.Sprintf("%s/socket/%d", "ws"+strings.TrimPrefix(s.http.URL, "http"), s.opened)}
}

const writeTimeout = 30 * time.Second

func (s *Server) serveSocket(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	refuse := s.refuse || s.closed
	if !refuse {
		s.work.Add(1)
	}
	s.mu.Unlock()
	if refuse {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	defer s.work.Done()
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer conn.CloseNow()
	c := &socket{conn: conn}
	s.mu.Lock()
	fmt.Sscan(r.PathValue("ticket"), &c.number)
	s.mu.Unlock()
	hello := object{
		"type": "hello", "num_connections": 1, "connection_info": object{"app_id": "A1"},
		"debug_info": object{"host": "slacktest", "approximate_connection_time": 18060},
	}
	if c.write(s.ctx, hello) != nil {
		return
	}
	s.mu.Lock()
	s.sockets = append(s.sockets, c)
	s.mu.Wake()
	s.mu.Unlock()
	s.readAcks(c)
	s.mu.Lock()
	s.sockets = slices.DeleteFunc(s.sockets, func(o *socket) bool { return o == c })
	s.mu.Wake()
	s.mu.Unlock()
}

// send writes a frame behind those before it. A client that does not read does not hold the server up. s.mu is held.
func (s *Server) send(c *socket, frame object) {
	c.unsent = append(c.unsent, frame)
	if c.writing {
		return
	}
	c.writing = true
	s.work.Go(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for len(c.unsent) > 0 {
			next := c.unsent[0]
			c.unsent = c.unsent[1:]
			s.mu.Unlock()
			_ = c.write(s.ctx, next)
			s.mu.Lock()
		}
		c.writing = false
	})
}

func (c *socket) write(ctx context.Context, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return c.conn.Write(ctx, websocket.MessageText, text)
}

func (s *Server) readAcks(c *socket) {
	for {
		_, text, err := c.conn.Read(s.ctx)
		if err != nil {
			return
		}
		var ack struct {
			EnvelopeID string `json:"envelope_id"`
		}
		if json.Unmarshal(text, &ack) != nil {
			return
		}
		s.mu.Lock()
		if e := s.pending[ack.EnvelopeID]; e != nil {
			e.Acked = true
			s.unschedule(e)
			s.mu.Wake()
		}
		s.mu.Unlock()
	}
}

// Emit sends the app an event. Payload of the kind "events_api" is the inner event.
func (s *Server) Emit(kind string, payload object) *Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.emit(kind, payload)
}

// emit does the same with s.mu held.
func (s *Server) emit(kind string, payload object) *Event {
	e := &Event{Kind: kind, Payload: payload}
	s.events = append(s.events, e)
	if kind == "events_api" {
		e.Payload = object{
			"token": "x", "team_id": Team, "api_app_id": "A1", "event": payload, "type": "event_callback",
			"event_id": fmt.Sprintf("Ev%d", len(s.events)), "event_time": time.Now().Unix(),
			"authorizations": []object{{"team_id": Team, "user_id": BotUser, "is_bot": true}},
		}
	}
	s.deliver(e)
	return e
}

// deliver sends the next envelope of e and prepares the one after it. s.mu is held.
func (s *Server) deliver(e *Event) {
	if s.closed || e.Acked {
		return
	}
	attempt := len(e.Deliveries)
	if attempt > s.config.Redeliveries {
		e.Lost = true
		s.mu.Wake()
		return
	}
	d := Delivery{EnvelopeID: fmt.Sprintf("env-%d-%d", len(s.pending), attempt)}
	envelope := object{"type": e.Kind, "envelope_id": d.EnvelopeID, "payload": e.Payload, "accepts_response_payload": e.Kind != "events_api"}
	if attempt > 0 {
		envelope["retry_attempt"], envelope["retry_reason"] = attempt, "timeout"
	}
	s.pending[d.EnvelopeID] = e
	if c := s.pick(); c != nil {
		d.Connection = c.number
		s.send(c, envelope)
	}
	e.Deliveries = append(e.Deliveries, d)
	s.work.Add(1)
	e.timer = time.AfterFunc(s.config.RedeliverAfter, func() {
		defer s.work.Done()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.deliver(e)
	})
	s.mu.Wake()
}

// unschedule stops redeliveries. s.mu is held.
func (s *Server) unschedule(e *Event) {
	if e.timer != nil && e.timer.Stop() {
		s.work.Done()
	}
}

// pick chooses a connection in turn, preferring those that were not asked to disconnect. s.mu is held.
func (s *Server) pick() *socket {
	var staying []*socket
	for _, c := range s.sockets {
		if !c.leaving {
			staying = append(staying, c)
		}
	}
	if len(staying) == 0 {
		return nil
	}
	return staying[len(s.events)%len(staying)]
}

// Events returns the events sent to the app so far.
func (s *Server) Events() []Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Event
	for _, e := range s.events {
		copied := *e
		copied.Deliveries = slices.Clone(e.Deliveries)
		out = append(out, copied)
	}
	return out
}

// WaitAcked waits until the app has acked every event so far.
func (s *Server) WaitAcked(t platform.TB) {
	t.Helper()
	s.mu.Await(t, "acks of every event", func() bool {
		return !slices.ContainsFunc(s.events, func(e *Event) bool { return !e.Acked })
	})
}

// WaitConnections waits until there are n connections, the one with the highest number being at least the latest.
func (s *Server) WaitConnections(t platform.TB, n, latest int) {
	t.Helper()
	s.mu.Await(t, fmt.Sprintf("%d connections up to number %d", n, latest), func() bool {
		highest := 0
		for _, c := range s.sockets {
			highest = max(highest, c.number)
		}
		return len(s.sockets) == n && highest >= latest
	})
}

// tell writes a disconnect message to every connection.
func (s *Server) tell(reason string, leave bool) {
	defer s.mu.Change()()
	for _, c := range s.sockets {
		c.leaving = c.leaving || leave
		s.send(c, object{"type": "disconnect", "reason": reason, "debug_info": object{"host": "slacktest"}})
	}
}

// Warn announces that the connections will be replaced soon.
func (s *Server) Warn() { s.tell("warning", false) }

// Refresh asks for new connections; the old ones stay open until CloseOld.
func (s *Server) Refresh() { s.tell("refresh_requested", true) }

// Disable announces that Socket Mode was switched off.
func (s *Server) Disable() { s.tell("link_disabled", true) }

// CloseOld closes the connections that were asked to disconnect.
func (s *Server) CloseOld() { s.close(func(c *socket) bool { return c.leaving }) }

// Drop cuts every connection, without a disconnect message.
func (s *Server) Drop() { s.close(func(*socket) bool { return true }) }

func (s *Server) close(which func(*socket) bool) {
	s.mu.Lock()
	list := slices.Clone(s.sockets)
	s.mu.Unlock()
	for _, c := range list {
		if which(c) {
			_ = c.conn.CloseNow()
		}
	}
}

// Refuse makes new WebSockets fail, or work again.
func (s *Server) Refuse(yes bool) {
	defer s.mu.Change()()
	s.refuse = yes
}

// WaitLost waits until every event was acked or given up.
func (s *Server) WaitLost(t platform.TB) {
	t.Helper()
	s.mu.Await(t, "the end of every redelivery", func() bool {
		return !slices.ContainsFunc(s.events, func(e *Event) bool { return !e.Acked && !e.Lost })
	})
}

// Hasten changes when and how often events are redelivered from now on.
func (s *Server) Hasten(after time.Duration, redeliveries int) {
	defer s.mu.Change()()
	s.config.RedeliverAfter, s.config.Redeliveries = after, redeliveries
}
