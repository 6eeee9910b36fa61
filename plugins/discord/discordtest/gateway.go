package discordtest

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"
)

// session is what a bot resumes.
type session struct {
	id     string
	events [][]byte // the event with number n is at n-1
}

// link is a connection of the gateway.
type link struct {
	conn   *websocket.Conn
	cancel context.CancelFunc
	out    chan []byte
	close  chan websocket.StatusCode
}

// payload is a frame in either direction.
type payload struct {
	Op int             `json:"op"`
	D  json.RawMessage `json:"d"`
	S  *int            `json:"s"`
	T  *string         `json:"t"`
}

func frame(op int, d any) []byte {
	data, err := json.Marshal(d)
	if err != nil {
		panic(err) // only this package's own types come here
	}
	out, _ := json.Marshal(payload{Op: op, D: data})
	return out
}

// dispatch sends an event to every session, there or not. s.mu is held.
func (s *Server) dispatch(name string, d any) {
	for _, session := range s.sessions {
		session.add(name, d)
	}
	s.mu.Wake()
}

func (x *session) add(name string, d any) {
	data, err := json.Marshal(d)
	if err != nil {
		panic(err)
	}
	n := len(x.events) + 1
	out, _ := json.Marshal(payload{D: data, S: &n, T: &name})
	x.events = append(x.events, out)
}

func (s *Server) gateway(w http.ResponseWriter, r *http.Request) {
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	l := &link{conn: conn, cancel: cancel, out: make(chan []byte, 16), close: make(chan websocket.StatusCode, 1)}
	s.mu.Lock()
	s.links[l] = true
	hello := frame(10, map[string]any{"heartbeat_interval": s.heartbeat.Milliseconds()})
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.links, l)
		s.mu.Wake()
		s.mu.Unlock()
		conn.CloseNow()
	}()
	if conn.Write(ctx, websocket.MessageText, hello) != nil {
		return
	}
	started := make(chan start, 1)
	go func() {
		defer cancel()
		s.listen(ctx, l, started)
	}()
	s.serve(ctx, l, started)
}

// start configures what a link sends.
type start struct {
	session *session
	from    int // events that the bot has
}

// listen reads what the bot sends.
func (s *Server) listen(ctx context.Context, l *link, started chan<- start) {
	for {
		_, data, err := l.conn.Read(ctx)
		if err != nil {
			return
		}
		var p payload
		if json.Unmarshal(data, &p) != nil {
			l.end(4002)
			continue
		}
		switch p.Op {
		case 1:
			s.mu.Lock()
			silent := s.silent
			s.beats++
			s.mu.Wake()
			s.mu.Unlock()
			if !silent {
				l.send(ctx, frame(11, nil))
			}
		case 2:
			s.identify(l, p.D, started)
		case 6:
			s.resume(ctx, l, p.D, started)
		}
	}
}

func (l *link) send(ctx context.Context, data []byte) {
	select {
	case l.out <- data:
	case <-ctx.Done():
	}
}

func (l *link) end(code websocket.StatusCode) {
	select {
	case l.close <- code:
	default:
	}
}

func (s *Server) identify(l *link, d json.RawMessage, started chan<- start) {
	var in struct {
		Token   string `json:"token"`
		Intents int    `json:"intents"`
	}
	err := json.Unmarshal(d, &in)
	defer s.mu.Change()()
	s.identified++
	s.intents = in.Intents
	code := s.refusal
	switch {
	case code != 0:
		s.refusal = 0
		l.end(websocket.StatusCode(code))
		return
	case err != nil || strings.TrimPrefix(in.Token, "Bot ") != s.Token:
		l.end(4004)
		return
	}
	x := &session{id: "session-" + s.id()}
	s.sessions[x.id] = x
	unavailable := []any{}
	for _, g := range s.guilds {
		unavailable = append(unavailable, map[string]any{"id": g.ID, "unavailable": true})
	}
	x.add("READY", map[string]any{
		"v": 10, "user": s.Self, "session_id": x.id, "guilds": unavailable, "application": map[string]any{"id": s.Self.ID, "flags": 0},
		"resume_gateway_url": "ws" + strings.TrimPrefix(s.http.URL, "http") + "/gateway",
	})
	for _, g := range s.guilds {
		x.add("GUILD_CREATE", g)
	}
	started <- start{x, 0}
}

func (s *Server) resume(ctx context.Context, l *link, d json.RawMessage, started chan<- start) {
	var in struct {
		Token     string `json:"token"`
		SessionID string `json:"session_id"`
		Seq       int    `json:"seq"`
	}
	err := json.Unmarshal(d, &in)
	s.mu.Lock()
	x := s.sessions[in.SessionID]
	if err == nil && x != nil && in.Seq <= len(x.events) && strings.TrimPrefix(in.Token, "Bot ") == s.Token {
		s.resumed++
		x.add("RESUMED", map[string]any{})
		s.mu.Wake()
		s.mu.Unlock()
		started <- start{x, in.Seq}
		return
	}
	s.mu.Unlock()
	l.send(ctx, frame(9, false))
}

// serve writes what the bot gets.
func (s *Server) serve(ctx context.Context, l *link, started <-chan start) {
	var at start
	for {
		s.mu.Lock()
		changed := s.mu.Next()
		var next []byte
		if at.session != nil && at.from < len(at.session.events) {
			next = at.session.events[at.from]
		}
		s.mu.Unlock()
		if next != nil {
			at.from++
			if l.conn.Write(ctx, websocket.MessageText, next) != nil {
				return
			}
			continue
		}
		select {
		case at = <-started:
		case data := <-l.out:
			if l.conn.Write(ctx, websocket.MessageText, data) != nil {
				return
			}
		case code := <-l.close:
			_ = l.conn.Close(code, "")
			return
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// Heartbeat sets how often bots that connect from now on have to show that they live.
func (s *Server) Heartbeat(d time.Duration) {
	defer s.mu.Change()()
	s.heartbeat = d
}

// Silence stops answering heartbeats, or begins again.
func (s *Server) Silence(on bool) {
	defer s.mu.Change()()
	s.silent = on
}

// Refuse closes the connection of the next bot that identifies with a code.
func (s *Server) Refuse(code int) {
	defer s.mu.Change()()
	s.refusal = code
}

// Drop breaks every connection without a close code.
func (s *Server) Drop() { s.each(func(l *link) { l.cancel() }) }

// Hangup closes every connection with a code.
func (s *Server) Hangup(code int) { s.each(func(l *link) { l.end(websocket.StatusCode(code)) }) }

// Reconnect asks every bot to connect again.
func (s *Server) Reconnect() {
	s.each(func(l *link) { l.send(context.Background(), frame(7, nil)) })
}

// Invalidate ends all sessions: none can be resumed.
func (s *Server) Invalidate() {
	s.mu.Lock()
	clear(s.sessions)
	s.mu.Unlock()
	s.each(func(l *link) { l.send(context.Background(), frame(9, false)) })
}

// Forget ends all sessions without telling anybody.
func (s *Server) Forget() {
	defer s.mu.Change()()
	clear(s.sessions)
}

func (s *Server) each(do func(*link)) {
	s.mu.Lock()
	var links []*link
	for l := range s.links {
		links = append(links, l)
	}
	s.mu.Unlock()
	for _, l := range links {
		do(l)
	}
}

// Counts are how often bots identified, resumed and showed that they live, and how many are connected.
type Counts struct{ Identified, Resumed, Beats, Connected, Intents int }

// Counts returns them.
func (s *Server) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Counts{s.identified, s.resumed, s.beats, len(s.links), s.intents}
}

// Inject sends a frame of the gateway as it is.
func (s *Server) Inject(data string) {
	s.each(func(l *link) { l.send(context.Background(), []byte(data)) })
}
