// Package matrixtest is a Matrix homeserver on loopback, as far as the matrix plugin speaks with one: long-polled syncs with limited
// timelines, transactions that are recognised, edits, reactions, media, rate limits, errors.
//
// Start with New. Room makes a room; Say, Edit, React and Redact are what its people do; Messages are what Flynn has sent there.
package matrixtest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flynnhost/flynn/sdk/plugintest/fake"
	"github.com/flynnhost/flynn/sdk/plugintest/platform"
)

// User and Token are Flynn's account.
const (
	User  = "@flynn:test"
	Token = "syt_secret"
)

// Event is an event of a room in the protocol's format.
type Event struct {
	ID       string         `json:"event_id"`
	Type     string         `json:"type"`
	Sender   string         `json:"sender"`
	At       int64          `json:"origin_server_ts"`
	StateKey *string        `json:"state_key,omitempty"`
	Content  map[string]any `json:"content"`

	room     string
	position int
}

// Trouble is a failure of one request.
type Trouble struct {
	Status     int
	Code       string // errcode
	RetryAfter time.Duration
	HangUp     bool // the connection breaks: before the request has its effect, or after
	Done       bool
}

// Server is the homeserver.
type Server struct {
	server *httptest.Server
	limit  int // events of a room in one sync

	mu           platform.State
	events       []Event
	rooms        map[string][]string // members
	invites      map[string]string   // room to inviter
	transactions map[string]string   // to event ids
	media        map[string]media
	typing       map[string]bool
	troubles     platform.Faults[Trouble] // by a part of the path
	syncs        int
}

type media struct {
	kind string
	body []byte
}

// New starts a homeserver that ends with the test.
func New(t platform.TB) *Server {
	s := &Server{
		limit: 10, rooms: map[string][]string{}, invites: map[string]string{}, transactions: map[string]string{},
		media: map[string]media{}, typing: map[string]bool{},
	}
	s.server = platform.Serve(t, http.HandlerFunc(s.serve))
	return s
}

// Watch makes the server report what people see of Flynn.
func (s *Server) Watch(report func(fake.Report)) { s.mu.Watch(report) }

// URL returns the base of the API.
func (s *Server) URL() string { return s.server.URL }

// Next makes the next requests fail whose path contains part, one for each trouble.
func (s *Server) Next(part string, t ...Trouble) {
	defer s.mu.Change()()
	s.troubles.Add(part, t...)
}

// Room makes a room with Flynn and others in it.
func (s *Server) Room(id string, others ...string) {
	defer s.mu.Change()()
	s.rooms[id] = append([]string{User}, others...)
}

// Invite invites Flynn to a room.
func (s *Server) Invite(room, by string) {
	defer s.mu.Change()()
	s.invites[room] = by
}

// Joined reports whether Flynn is in a room.
func (s *Server) Joined(room string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.rooms[room], User)
}

// Say makes a person send a message, and returns the event's id. Relation may be nil.
func (s *Server) Say(room, who, text string, relation map[string]any) string {
	content := map[string]any{"msgtype": "m.text", "body": text}
	if relation != nil {
		content["m.relates_to"] = relation
	}
	return s.Post(room, who, "m.room.message", content)
}

// Post appends any event.
func (s *Server) Post(room, who, kind string, content map[string]any) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.append(room, who, kind, content)
}

// append adds an event; s.mu is held.
func (s *Server) append(room, who, kind string, content map[string]any) string {
	n := len(s.events) + 1
	e := Event{ID: fmt.Sprintf("$e%d", n), Type: kind, Sender: who, At: time.Now().UnixMilli(), Content: content, room: room, position: n}
	s.events = append(s.events, e)
	s.mu.Wake()
	if text, _ := content["body"].(string); who == User && text != "" {
		if relation, _ := content["m.relates_to"].(map[string]any); relation["rel_type"] == "m.replace" {
			s.mu.Edited(text)
		} else {
			s.mu.Shown(text)
		}
	}
	return e.ID
}

// PutMedia makes media for people to post, and returns their address.
func (s *Server) PutMedia(kind string, body []byte) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := fmt.Sprintf("m%d", len(s.media))
	s.media[id] = media{kind, body}
	return "mxc://test/" + id
}

// Media returns the bytes at an address.
func (s *Server) Media(uri string) (kind string, body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.media[strings.TrimPrefix(uri, "mxc://test/")]
	return m.kind, m.body
}

// Typing reports whether Flynn is typing in a room.
func (s *Server) Typing(room string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.typing[room]
}

// Messages waits until Flynn has sent n events to a room, or ctx ends, and returns all.
func (s *Server) Messages(ctx context.Context, room string, n int) []Event {
	var out []Event
	s.mu.Wait(ctx, func() bool {
		out = slices.Clone(s.events)
		out = slices.DeleteFunc(out, func(e Event) bool { return e.room != room || e.Sender != User })
		return len(out) >= n
	})
	return out
}

// Syncs returns how many syncs were answered.
func (s *Server) Syncs() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.syncs
}

func (s *Server) trouble(path string) (Trouble, bool) {
	defer s.mu.Change()()
	return s.troubles.Take(func(part string) bool { return strings.Contains(path, part) })
}

func fail(w http.ResponseWriter, t Trouble) {
	body := map[string]any{"errcode": t.Code, "error": "for a test"}
	if t.RetryAfter > 0 {
		body["retry_after_ms"] = t.RetryAfter.Milliseconds()
	}
	platform.JSON(w, t.Status, body)
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	if r.Header.Get("Authorization") != "Bearer "+Token {
		fail(w, Trouble{Status: http.StatusUnauthorized, Code: "M_UNKNOWN_TOKEN"})
		return
	}
	if t, ok := s.trouble(path); ok {
		switch {
		case t.HangUp && !t.Done:
			panic(http.ErrAbortHandler)
		case t.HangUp:
			defer panic(http.ErrAbortHandler)
			w = discard{w}
		default:
			fail(w, t)
			return
		}
	}
	parts := strings.Split(strings.TrimPrefix(path, "/_matrix/"), "/")
	switch {
	case path == "/_matrix/client/v3/account/whoami":
		platform.JSON(w, http.StatusOK, map[string]any{"user_id": User})
	case path == "/_matrix/client/v3/sync":
		s.sync(w, r)
	case strings.HasPrefix(path, "/_matrix/client/v3/directory/room/"):
		s.directory(w, parts[4])
	case path == "/_matrix/media/v3/upload":
		body, _ := io.ReadAll(r.Body)
		platform.JSON(w, http.StatusOK, map[string]any{"content_uri": s.PutMedia(r.Header.Get("Content-Type"), body)})
	case strings.HasPrefix(path, "/_matrix/client/v1/media/download/test/"):
		kind, body := s.Media("mxc://test/" + parts[len(parts)-1])
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write(body)
	case strings.HasPrefix(path, "/_matrix/client/v1/rooms/") && len(parts) == 8:
		s.relations(w, parts[5])
	case strings.HasPrefix(path, "/_matrix/client/v3/rooms/") && len(parts) >= 5:
		s.room(w, r, parts[3], parts[4], parts[5:])
	default:
		fail(w, Trouble{Status: http.StatusNotFound, Code: "M_UNRECOGNIZED"})
	}
}

// discard drops a response whose connection breaks.
type discard struct{ http.ResponseWriter }

func (discard) WriteHeader(int)             {}
func (discard) Write(p []byte) (int, error) { return len(p), nil }

func (s *Server) directory(w http.ResponseWriter, alias string) {
	defer s.mu.Change()()
	id := "!" + strings.TrimPrefix(alias, "#")
	if _, ok := s.rooms[id]; !ok {
		fail(w, Trouble{Status: http.StatusNotFound, Code: "M_NOT_FOUND"})
		return
	}
	platform.JSON(w, http.StatusOK, map[string]any{"room_id": id})
}

func (s *Server) relations(w http.ResponseWriter, target string) {
	defer s.mu.Change()()
	chunk := []Event{}
	for _, e := range s.events {
		relation, _ := e.Content["m.relates_to"].(map[string]any)
		if e.Type == "m.reaction" && relation["event_id"] == target {
			chunk = append(chunk, e)
		}
	}
	platform.JSON(w, http.StatusOK, map[string]any{"chunk": chunk})
}

// maxEvent bounds an event, in bytes, as the specification does.
const maxEvent = 65_536

// room serves the requests about one room.
func (s *Server) room(w http.ResponseWriter, r *http.Request, room, what string, rest []string) {
	var content map[string]any
	if r.Method != http.MethodGet {
		if err := json.NewDecoder(r.Body).Decode(&content); err != nil {
			fail(w, Trouble{Status: http.StatusBadRequest, Code: "M_NOT_JSON"})
			return
		}
	}
	defer s.mu.Change()()
	if !slices.Contains(s.rooms[room], User) && what != "join" {
		fail(w, Trouble{Status: http.StatusForbidden, Code: "M_FORBIDDEN"})
		return
	}
	switch what {
	case "join":
		if s.invites[room] == "" {
			fail(w, Trouble{Status: http.StatusForbidden, Code: "M_FORBIDDEN"})
			return
		}
		s.rooms[room] = []string{User, s.invites[room]}
		delete(s.invites, room)
		platform.JSON(w, http.StatusOK, map[string]any{"room_id": room})
	case "joined_members":
		joined := map[string]any{}
		for _, m := range s.rooms[room] {
			joined[m] = map[string]any{}
		}
		platform.JSON(w, http.StatusOK, map[string]any{"joined": joined})
	case "messages":
		s.messages(w, r, room)
	case "typing":
		if s.typing[room], _ = content["typing"].(bool); s.typing[room] {
			s.mu.Typing()
		}
		platform.JSON(w, http.StatusOK, struct{}{})
	case "send":
		if r.ContentLength > maxEvent {
			fail(w, Trouble{Status: http.StatusRequestEntityTooLarge, Code: "M_TOO_LARGE"})
			return
		}
		platform.JSON(w, http.StatusOK, map[string]any{"event_id": s.once(rest[1], func() string { return s.append(room, User, rest[0], content) })})
	case "redact":
		platform.JSON(w, http.StatusOK, map[string]any{"event_id": s.once(rest[1], func() string {
			return s.append(room, User, "m.room.redaction", map[string]any{"redacts": rest[0]})
		})})
	default:
		fail(w, Trouble{Status: http.StatusNotFound, Code: "M_UNRECOGNIZED"})
	}
}

// once recognises a transaction; s.mu is held.
func (s *Server) once(txn string, do func() string) string {
	if id, ok := s.transactions[txn]; ok {
		return id
	}
	s.transactions[txn] = do()
	return s.transactions[txn]
}

// messages pages backwards from one position to another; s.mu is held.
func (s *Server) messages(w http.ResponseWriter, r *http.Request, room string) {
	from, _ := strconv.Atoi(r.URL.Query().Get("from"))
	to, _ := strconv.Atoi(r.URL.Query().Get("to"))
	out := map[string]any{"start": strconv.Itoa(from)}
	chunk := []Event{}
	for i := len(s.events) - 1; i >= 0 && len(chunk) < s.limit; i-- {
		if e := s.events[i]; e.room == room && e.position < from && e.position > to {
			chunk = append(chunk, e)
		}
	}
	out["chunk"] = chunk
	if len(chunk) == s.limit {
		out["end"] = strconv.Itoa(chunk[len(chunk)-1].position)
	}
	platform.JSON(w, http.StatusOK, out)
}

// sync answers when there is something new, or the poll's time is up.
func (s *Server) sync(w http.ResponseWriter, r *http.Request) {
	since, _ := strconv.Atoi(r.URL.Query().Get("since"))
	timeout, _ := strconv.Atoi(r.URL.Query().Get("timeout"))
	s.mu.Lock()
	body, news := s.batch(since)
	changed := s.mu.Next()
	s.mu.Unlock()
	if !news && timeout > 0 {
		select {
		case <-changed:
			s.serve(w, r) // trouble that is added meanwhile affects a pending poll, too
			return
		case <-time.After(time.Duration(timeout) * time.Millisecond):
		case <-r.Context().Done():
			return
		}
	}
	platform.JSON(w, http.StatusOK, body)
	s.mu.Lock()
	s.syncs++
	s.mu.Wake()
	s.mu.Unlock()
}

// batch returns everything after a position; s.mu is held.
func (s *Server) batch(since int) (body map[string]any, news bool) {
	join, invite := map[string]any{}, map[string]any{}
	for room, members := range s.rooms {
		if !slices.Contains(members, User) {
			continue
		}
		var events []Event
		for _, e := range s.events {
			if e.room == room && e.position > since {
				events = append(events, e)
			}
		}
		if len(events) == 0 {
			continue
		}
		news = true
		limited := len(events) > s.limit
		events = events[max(0, len(events)-s.limit):]
		join[room] = map[string]any{
			"summary":  map[string]any{"m.joined_member_count": len(members)},
			"timeline": map[string]any{"events": events, "limited": limited, "prev_batch": strconv.Itoa(events[0].position)},
		}
	}
	for room, by := range s.invites {
		news = true
		invite[room] = map[string]any{"invite_state": map[string]any{"events": []any{
			map[string]any{"type": "m.room.member", "sender": by, "state_key": User, "content": map[string]any{"membership": "invite"}},
		}}}
	}
	return map[string]any{"next_batch": strconv.Itoa(len(s.events)), "rooms": map[string]any{"join": join, "invite": invite}}, news
}
