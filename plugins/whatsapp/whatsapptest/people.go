package whatsapptest

import (
	"fmt"
	"maps"
	"strconv"
	"time"
)

// nextID makes the id of a message. s.mu is held.
func (s *Server) nextID() string {
	s.last++
	return fmt.Sprintf("wamid.HBgLTEST%d", s.last)
}

// Say is a message of somebody: kind is its type, part the object of that name, such as {"body": "hello"} for "text". It returns its id.
func (s *Server) Say(user, name, kind string, part map[string]any) (id string) {
	return s.SayMore(user, name, map[string]any{"type": kind, kind: part})
}

// SayMore is Say with any fields of the message.
func (s *Server) SayMore(user, name string, fields map[string]any) (id string) {
	defer s.mu.Change()()
	delete(s.closedW, user)
	m := map[string]any{"from": user, "id": s.nextID(), "timestamp": strconv.FormatInt(time.Now().Unix(), 10)}
	maps.Copy(m, fields)
	s.notify(map[string]any{
		"contacts": []any{map[string]any{"wa_id": user, "profile": map[string]any{"name": name}}}, "messages": []any{m},
	})
	return m["id"].(string)
}

// Press presses a button of a message.
func (s *Server) Press(user, message, value, title string) {
	s.SayMore(user, "", map[string]any{
		"type": "interactive", "context": map[string]any{"from": "15550783881", "id": message},
		"interactive": map[string]any{"type": "button_reply", "button_reply": map[string]any{"id": value, "title": title}},
	})
}

// Tell sends a status of a message: "sent", "delivered", "read", or "failed" with the code of an error.
func (s *Server) Tell(m Sent, status string, code int) {
	defer s.mu.Change()()
	s.tell(m, status, code)
}

// tell is Tell with s.mu held.
func (s *Server) tell(m Sent, status string, code int) {
	o := map[string]any{"id": m.ID, "status": status, "timestamp": strconv.FormatInt(time.Now().Unix(), 10), "recipient_id": m.To}
	if m.Key != "" {
		o["biz_opaque_callback_data"] = m.Key
	}
	if status == "failed" {
		o["errors"] = []any{map[string]any{"code": code, "title": "failed", "message": "failed", "error_data": map[string]any{"details": "the test wants it"}}}
	}
	s.notify(map[string]any{"statuses": []any{o}})
}
