package whatsapptest

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"unicode/utf8"

	"github.com/flynnhost/flynn/sdk/plugintest/platform"
)

func reply(w http.ResponseWriter, v any) { platform.JSON(w, http.StatusOK, v) }

// answer writes the fault.
func (f Fault) answer(w http.ResponseWriter) {
	if f.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(f.RetryAfter))
	}
	status := f.Status
	if status == 0 {
		status = http.StatusBadRequest
	}
	if f.Code == 0 {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "<html>Sorry, something went wrong</html>")
		return
	}
	platform.JSON(w, status, map[string]any{"error": map[string]any{
		"message": f.Message, "type": "OAuthException", "code": f.Code, "fbtrace_id": "AtestX",
		"error_data": map[string]any{"messaging_product": "whatsapp", "details": f.Details},
	}})
}

// refused answers calls without the token, to another number, or those with a fault; late is one that is carried out first.
func (s *Server) refused(w http.ResponseWriter, r *http.Request) (late, done bool) {
	if r.Header.Get("Authorization") != "Bearer "+AccessToken {
		Fault{Status: http.StatusUnauthorized, Code: 190, Message: "Invalid OAuth access token"}.answer(w)
		return false, true
	}
	if phone := r.PathValue("phone"); phone != "" && phone != PhoneID {
		Fault{Code: 100, Message: "Unsupported post request"}.answer(w)
		return false, true
	}
	defer s.mu.Change()()
	f, ok := s.faults.Take(platform.At(""))
	if !ok || f.Late {
		return f.Late, false
	}
	f.answer(w)
	return false, true
}

// get describes the number, or a medium.
func (s *Server) get(w http.ResponseWriter, r *http.Request) {
	late, done := s.refused(w, r)
	if done {
		return
	}
	if late {
		panic(http.ErrAbortHandler)
	}
	id := r.PathValue("id")
	s.mu.Lock()
	m := s.media[id]
	s.mu.Unlock()
	switch {
	case id == PhoneID:
		reply(w, map[string]any{"id": id, "display_phone_number": "+1 555-078-3881", "verified_name": "Test"})
	case m != nil:
		sum := sha256.Sum256(m.Body)
		reply(w, map[string]any{
			"messaging_product": "whatsapp", "url": m.url, "mime_type": m.Type, "sha256": hex.EncodeToString(sum[:]), "file_size": len(m.Body), "id": m.ID,
		})
	default:
		Fault{Code: 100, Message: "Unsupported get request"}.answer(w)
	}
}

// bytes answers with a medium, to the app only.
func (s *Server) bytes(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	m := s.media[r.PathValue("id")]
	s.mu.Unlock()
	if m == nil || r.Header.Get("Authorization") != "Bearer "+AccessToken {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", m.Type)
	_, _ = w.Write(m.Body)
}

// post takes a message, or the word that one was read.
func (s *Server) post(w http.ResponseWriter, r *http.Request) {
	late, done := s.refused(w, r)
	if done {
		return
	}
	var in map[string]any
	if json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&in) != nil || in["messaging_product"] != "whatsapp" {
		Fault{Code: 100, Message: "(#100) The parameter messaging_product is required."}.answer(w)
		return
	}
	defer s.mu.Change()()
	if in["status"] == "read" {
		text := fmt.Sprint(in["message_id"])
		if in["typing_indicator"] != nil {
			text += " typing"
			s.mu.Typing()
		}
		s.read = append(s.read, text)
		reply(w, map[string]any{"success": true})
		return
	}
	m := Sent{Type: text(in, "type"), To: text(in, "to"), Key: text(in, "biz_opaque_callback_data")}
	m.Body, _ = in[m.Type].(map[string]any)
	if c, ok := in["context"].(map[string]any); ok {
		m.ReplyTo = text(c, "message_id")
	}
	if f := s.check(m); f.Code != 0 {
		f.answer(w)
		return
	}
	m.ID = s.nextID()
	outside := s.closedW[m.To] && m.Type != "template"
	if outside && s.config.LateWindow {
		s.tell(m, "failed", 131047)
	} else {
		s.sent = append(s.sent, m)
		s.mu.Shown(m.text())
		if s.config.Statuses {
			s.tell(m, "sent", 0)
			s.tell(m, "delivered", 0)
		}
	}
	if late {
		panic(http.ErrAbortHandler)
	}
	reply(w, map[string]any{
		"messaging_product": "whatsapp", "contacts": []any{map[string]any{"input": m.To, "wa_id": m.To}},
		"messages": []any{map[string]any{"id": m.ID, "message_status": "accepted"}},
	})
}

// text is what people read of the message, whatever its type.
func (m Sent) text() string {
	body := m.Body
	if m.Type == "interactive" {
		body, _ = body["body"].(map[string]any)
	}
	return cmp.Or(text(body, "body"), text(body, "text"), text(body, "caption"))
}

func text(o map[string]any, key string) string {
	v, _ := o[key].(string)
	return v
}

// check applies WhatsApp's limits. s.mu is held.
func (s *Server) check(m Sent) Fault {
	invalid := func(details string) Fault {
		return Fault{Code: 131009, Message: "(#131009) Parameter value is not valid", Details: details}
	}
	if m.Body == nil || m.To == "" {
		return Fault{Code: 100, Message: "(#100) Invalid parameter"}
	}
	if s.closedW[m.To] && m.Type != "template" && !s.config.LateWindow {
		return Fault{Code: 131047, Message: "(#131047) Re-engagement message", Details: "more than 24 hours have passed"}
	}
	if len(m.Key) > 512 {
		return invalid("biz_opaque_callback_data is too long")
	}
	switch m.Type {
	case "text":
		if n := utf8.RuneCountInString(text(m.Body, "body")); n == 0 || n > 4096 {
			return Fault{Code: 100, Message: "(#100) Param text['body'] must be at most 4096 characters long."}
		}
	case "interactive":
		return checkButtons(m.Body, invalid)
	case "image", "document", "audio", "video", "sticker":
		medium := s.media[text(m.Body, "id")]
		if medium == nil || utf8.RuneCountInString(text(m.Body, "caption")) > 1024 || m.Type == "audio" && m.Body["caption"] != nil {
			return invalid("media")
		}
	case "template":
		if text(m.Body, "name") != "flynn_answer" {
			return Fault{Code: 132001, Message: "(#132001) Template name does not exist in the translation"}
		}
	case "reaction":
		if text(m.Body, "message_id") == "" {
			return invalid("message_id")
		}
	default:
		return Fault{Code: 131051, Message: "(#131051) Unsupported message type"}
	}
	return Fault{}
}

func checkButtons(body map[string]any, invalid func(string) Fault) Fault {
	var in struct {
		Body   struct{ Text string }
		Action struct {
			Buttons []struct {
				Reply struct{ ID, Title string }
			}
		}
	}
	encoded, _ := json.Marshal(body)
	if json.Unmarshal(encoded, &in) != nil || len(in.Action.Buttons) < 1 || len(in.Action.Buttons) > 3 {
		return invalid("1 to 3 buttons")
	}
	titles := map[string]bool{}
	for _, b := range in.Action.Buttons {
		n := utf8.RuneCountInString(b.Reply.Title)
		if n < 1 || n > 20 || titles[b.Reply.Title] || b.Reply.ID == "" || len(b.Reply.ID) > 256 {
			return invalid("button")
		}
		titles[b.Reply.Title] = true
	}
	if n := utf8.RuneCountInString(in.Body.Text); n < 1 || n > 1024 {
		return invalid("body")
	}
	return Fault{}
}

// upload takes a medium.
func (s *Server) upload(w http.ResponseWriter, r *http.Request) {
	late, done := s.refused(w, r)
	if done {
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, 100<<20)
	file, head, err := r.FormFile("file")
	if err != nil || r.FormValue("messaging_product") != "whatsapp" {
		Fault{Code: 100, Message: "(#100) The parameter file is required."}.answer(w)
		return
	}
	defer file.Close()
	body, err := io.ReadAll(file)
	if err != nil || late {
		panic(http.ErrAbortHandler)
	}
	m := s.AddMedia(head.Filename, head.Header.Get("Content-Type"), body)
	reply(w, map[string]any{"id": m.ID})
}

// Uploaded returns a medium by its id.
func (s *Server) Uploaded(id string) (Media, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, ok := s.media[id]
	if !ok {
		return Media{}, false
	}
	return *m, true
}
