package discordtest

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/flynnhost/flynn/sdk/plugintest/platform"
)

// failure is an answer other than 200.
type failure struct {
	status  int
	Code    int    `json:"code"`
	Message string `json:"message"`
}

var (
	unknownChannel     = &failure{404, 10003, "Unknown Channel"}
	unknownMessage     = &failure{404, 10008, "Unknown Message"}
	unknownInteraction = &failure{404, 10062, "Unknown interaction"}
	unknownWebhook     = &failure{404, 10015, "Unknown Webhook"}
	notAuthor          = &failure{403, 50005, "Cannot edit a message authored by another user"}
	badForm            = &failure{400, 50035, "Invalid Form Body"}
)

// handler answers one request; s.mu is held.
type handler func(r *http.Request) (any, *failure)

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/gateway", s.gateway)
	mux.HandleFunc("GET /cdn/attachments/{id}/{name}", s.download)
	api := http.NewServeMux()
	for pattern, h := range map[string]handler{
		"GET /gateway/bot":                                    s.getGateway,
		"GET /users/@me":                                      func(*http.Request) (any, *failure) { return s.Self, nil },
		"GET /guilds/{g}":                                     s.getGuild,
		"GET /channels/{c}":                                   s.getChannel,
		"GET /channels/{c}/messages":                          s.getMessages,
		"GET /channels/{c}/messages/{m}":                      s.getMessage,
		"POST /channels/{c}/messages":                         s.postMessage,
		"PATCH /channels/{c}/messages/{m}":                    s.patchMessage,
		"DELETE /channels/{c}/messages/{m}":                   s.deleteMessage,
		"PUT /channels/{c}/messages/{m}/reactions/{e}/@me":    s.putReaction,
		"DELETE /channels/{c}/messages/{m}/reactions/{e}/@me": s.deleteReaction,
		"POST /channels/{c}/typing":                           s.postTyping,
		"PUT /applications/{app}/commands":                    s.putCommands,
		"PUT /applications/{app}/guilds/{g}/commands":         s.putCommands,
		"POST /interactions/{id}/{token}/callback":            s.callback,
		"PATCH /webhooks/{app}/{token}/messages/@original":    s.patchOriginal,
		"POST /webhooks/{app}/{token}":                        s.followUp,
	} {
		api.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { s.answer(w, r, h) })
	}
	mux.Handle("/api/v10/", http.StripPrefix("/api/v10", s.guard(api)))
	mux.Handle("/api/v9/", http.StripPrefix("/api/v9", s.guard(api)))
	return mux
}

// guard plays faults and checks the token.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f := s.fault(r)
		open := strings.HasPrefix(r.URL.Path, "/interactions/") || strings.HasPrefix(r.URL.Path, "/webhooks/")
		switch {
		case f != nil && f.CutBefore:
			panic(http.ErrAbortHandler)
		case f != nil && f.CutAfter:
			next.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		case f != nil && f.Status != 0:
			f.play(w)
			return
		case !open && r.Header.Get("Authorization") != "Bot "+s.Token:
			platform.JSON(w, 401, &failure{Code: 0, Message: "401: Unauthorized"})
			return
		}
		w.Header().Set("X-RateLimit-Bucket", "bucket"+strings.ReplaceAll(r.URL.Path, "/", "-"))
		w.Header().Set("X-RateLimit-Limit", "5")
		w.Header().Set("X-RateLimit-Remaining", "4")
		w.Header().Set("X-RateLimit-Reset-After", "1.000")
		if f != nil {
			for name := range f.Header {
				w.Header().Set(name, f.Header.Get(name))
			}
		}
		next.ServeHTTP(w, r)
	})
}

// fault records a request and returns the fault for it, if there is one.
func (s *Server) fault(r *http.Request) *Fault {
	defer s.mu.Change()()
	s.requests = append(s.requests, r.Method+" "+r.URL.Path)
	f, _ := s.faults.Take(func(where string) bool {
		method, end, _ := strings.Cut(where, " ")
		return (method == "" || method == r.Method) && strings.HasSuffix(r.URL.Path, end)
	})
	return f
}

func (f *Fault) play(w http.ResponseWriter) {
	for name := range f.Header {
		w.Header().Set(name, f.Header.Get(name))
	}
	switch {
	case f.Body != "":
		w.WriteHeader(f.Status)
		_, _ = io.WriteString(w, f.Body)
	case f.Status == http.StatusTooManyRequests:
		w.Header().Set("Retry-After", strconv.Itoa(int(f.RetryAfter+0.999)))
		w.Header().Set("X-RateLimit-Scope", map[bool]string{true: "global", false: "user"}[f.Global])
		if f.Global {
			w.Header().Set("X-RateLimit-Global", "true")
		}
		platform.JSON(w, f.Status, map[string]any{"message": "You are being rate limited.", "retry_after": f.RetryAfter, "global": f.Global})
	default:
		platform.JSON(w, f.Status, &failure{Code: f.Code, Message: http.StatusText(f.Status)})
	}
}

func (s *Server) answer(w http.ResponseWriter, r *http.Request, h handler) {
	s.mu.Lock()
	out, failed := h(r)
	data, err := json.Marshal(out)
	s.mu.Unlock()
	switch {
	case failed != nil:
		platform.JSON(w, failed.status, failed)
	case err != nil:
		panic(err)
	case out == nil:
		w.WriteHeader(http.StatusNoContent)
	default:
		platform.JSON(w, 200, json.RawMessage(data))
	}
}

func (s *Server) getGateway(*http.Request) (any, *failure) {
	return map[string]any{
		"url": "ws" + strings.TrimPrefix(s.http.URL, "http") + "/gateway", "shards": 1,
		"session_start_limit": map[string]any{"total": 1000, "remaining": 999, "reset_after": 1000, "max_concurrency": 1},
	}, nil
}

func (s *Server) getGuild(r *http.Request) (any, *failure) {
	g := s.guild(r.PathValue("g"))
	if g == nil {
		return nil, &failure{404, 10004, "Unknown Guild"}
	}
	return map[string]any{"id": g.ID, "name": g.Name, "owner_id": g.OwnerID, "roles": g.Roles}, nil
}

func (s *Server) getChannel(r *http.Request) (any, *failure) {
	if c := s.channels[r.PathValue("c")]; c != nil {
		return c, nil
	}
	return nil, unknownChannel
}

// getMessages lists messages, the newest first. As on the real one, those after an id are the ones right behind it.
func (s *Server) getMessages(r *http.Request) (any, *failure) {
	c, q := s.channels[r.PathValue("c")], r.URL.Query()
	if c == nil {
		return nil, unknownChannel
	}
	limit := 50
	if q.Has("limit") {
		limit, _ = strconv.Atoi(q.Get("limit"))
	}
	if limit < 1 || limit > 100 {
		return nil, badForm
	}
	list := slices.Clone(c.messages)
	if after := q.Get("after"); after != "" {
		list = slices.DeleteFunc(list, func(m *Message) bool { return !later(m.ID, after) })
		list = list[:min(len(list), limit)]
	}
	if before := q.Get("before"); before != "" {
		list = slices.DeleteFunc(list, func(m *Message) bool { return !later(before, m.ID) })
	}
	list = slices.Clone(list[max(0, len(list)-limit):])
	slices.Reverse(list)
	for i, m := range list {
		fetched := *m
		fetched.Nonce, fetched.Member, fetched.GuildID = "", nil, "" // as the real one does
		list[i] = s.fresh(&fetched)
	}
	return list, nil
}

func later(a, b string) bool { return len(a) > len(b) || len(a) == len(b) && a > b }

// fresh gives the files of a message addresses that work.
func (s *Server) fresh(m *Message) *Message {
	m.Attachments = slices.Clone(m.Attachments)
	for i, a := range m.Attachments {
		m.Attachments[i].URL = s.address(a.ID)
	}
	return m
}

func (s *Server) find(r *http.Request) (*Channel, *Message, *failure) {
	c := s.channels[r.PathValue("c")]
	if c == nil {
		return nil, nil, unknownChannel
	}
	if m := c.message(r.PathValue("m")); m != nil {
		return c, m, nil
	}
	return c, nil, unknownMessage
}

func (s *Server) getMessage(r *http.Request) (any, *failure) {
	_, m, failed := s.find(r)
	if failed != nil {
		return nil, failed
	}
	fetched := *m
	return s.fresh(&fetched), nil
}

// form is what a bot writes.
type form struct {
	Content         *string          `json:"content"`
	Nonce           string           `json:"nonce"`
	EnforceNonce    bool             `json:"enforce_nonce"`
	Components      *[]Row           `json:"components"`
	AllowedMentions *AllowedMentions `json:"allowed_mentions"`
	Reference       *Reference       `json:"message_reference"`
	Attachments     []struct {
		ID       int    `json:"id"`
		Filename string `json:"filename"`
	} `json:"attachments"`

	files []Attachment
}

func (s *Server) read(r *http.Request) (*form, *failure) {
	f := &form{}
	text := io.Reader(r.Body)
	if strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/form-data") {
		if r.ParseMultipartForm(32<<20) != nil {
			return nil, badForm
		}
		text = strings.NewReader(r.FormValue("payload_json"))
		for i := range len(r.MultipartForm.File) {
			parts := r.MultipartForm.File["files["+strconv.Itoa(i)+"]"]
			if len(parts) != 1 || parts[0].Size > 10<<20 {
				return nil, &failure{413, 40005, "Request entity too large"}
			}
			body, err := parts[0].Open()
			if err != nil {
				return nil, badForm
			}
			data, _ := io.ReadAll(body)
			_ = body.Close()
			f.files = append(f.files, s.attach(parts[0].Filename, parts[0].Header.Get("Content-Type"), data))
		}
	}
	d := json.NewDecoder(text)
	if d.Decode(f) != nil || f.Content != nil && utf8.RuneCountInString(*f.Content) > 2000 || len(f.Nonce) > 25 {
		return nil, badForm
	}
	if f.Components != nil {
		for _, row := range *f.Components {
			if row.Type != 1 || len(row.Components) < 1 || len(row.Components) > 5 {
				return nil, badForm
			}
			for _, b := range row.Components {
				if b.Type != 2 || b.CustomID == "" || len(b.CustomID) > 100 || utf8.RuneCountInString(b.Label) > 80 || b.Style < 1 || b.Style > 4 {
					return nil, badForm
				}
			}
		}
	}
	return f, nil
}

func (f *form) message(self User) *Message {
	m := &Message{Author: self, Nonce: f.Nonce, Reference: f.Reference, Allowed: f.AllowedMentions, Attachments: f.files}
	if f.Content != nil {
		m.Content = *f.Content
	}
	if f.Components != nil {
		m.Components = *f.Components
	}
	return m
}

func (s *Server) postMessage(r *http.Request) (any, *failure) {
	c := s.channels[r.PathValue("c")]
	if c == nil {
		return nil, unknownChannel
	}
	f, failed := s.read(r)
	if failed != nil {
		return nil, failed
	}
	m := f.message(s.Self)
	if m.Content == "" && len(m.Attachments) == 0 {
		return nil, &failure{400, 50006, "Cannot send an empty message"}
	}
	if ref := f.Reference; ref != nil && c.message(ref.MessageID) == nil {
		if ref.FailIfNotExists == nil || *ref.FailIfNotExists {
			return nil, badForm
		}
		m.Reference = nil
	}
	if f.Nonce != "" && f.EnforceNonce {
		for _, old := range c.messages {
			if old.Nonce == f.Nonce && old.Author.ID == s.Self.ID && time.Since(old.Timestamp) < 3*time.Minute {
				return old, nil
			}
		}
	}
	s.post(c, m)
	return m, nil
}

func (s *Server) patchMessage(r *http.Request) (any, *failure) {
	_, m, failed := s.find(r)
	if failed != nil {
		return nil, failed
	}
	if m.Author.ID != s.Self.ID {
		return nil, notAuthor
	}
	f, failed := s.read(r)
	if failed != nil {
		return nil, failed
	}
	s.apply(m, f)
	return m, nil
}

func (s *Server) apply(m *Message, f *form) {
	now := time.Now().UTC()
	if m.EditedTimestamp = &now; f.Content != nil {
		m.Content = *f.Content
	}
	if f.Components != nil {
		m.Components = *f.Components
	}
	if f.files != nil {
		m.Attachments = f.files
	}
	m.Allowed = f.AllowedMentions
	s.mu.Edited(m.Content)
	s.dispatch("MESSAGE_UPDATE", m)
}

func (s *Server) deleteMessage(r *http.Request) (any, *failure) {
	c, m, failed := s.find(r)
	if failed == nil {
		s.remove(c, m.ID)
	}
	return nil, failed
}

func (s *Server) putReaction(r *http.Request) (any, *failure) {
	_, m, failed := s.find(r)
	if failed == nil {
		emoji, _ := url.PathUnescape(r.PathValue("e"))
		if m.Reactions == nil {
			m.Reactions = map[string]string{}
		}
		m.Reactions[emoji] = s.Self.ID
	}
	return nil, failed
}

func (s *Server) deleteReaction(r *http.Request) (any, *failure) {
	_, m, failed := s.find(r)
	if failed == nil {
		delete(m.Reactions, r.PathValue("e"))
	}
	return nil, failed
}

func (s *Server) postTyping(r *http.Request) (any, *failure) {
	if s.channels[r.PathValue("c")] == nil {
		return nil, unknownChannel
	}
	s.typing[r.PathValue("c")]++
	s.mu.Typing()
	s.mu.Wake()
	return nil, nil
}

func (s *Server) putCommands(r *http.Request) (any, *failure) {
	data, _ := io.ReadAll(r.Body)
	var list []json.RawMessage
	if json.Unmarshal(data, &list) != nil || r.PathValue("app") != s.Self.ID {
		return nil, badForm
	}
	s.commands[r.PathValue("g")] = data
	s.mu.Wake()
	return list, nil
}

func (s *Server) callback(r *http.Request) (any, *failure) {
	i := s.byToken(r.PathValue("token"))
	if i == nil || i.ID != r.PathValue("id") {
		return nil, unknownInteraction
	}
	var in struct {
		Type int `json:"type"`
	}
	if json.NewDecoder(r.Body).Decode(&in) != nil {
		return nil, badForm
	}
	if i.Response != 0 {
		return nil, &failure{400, 40060, "Interaction has already been acknowledged."}
	}
	i.Response = in.Type
	s.mu.Wake()
	return nil, nil
}

// patchOriginal turns "thinking" into the answer, or changes it.
func (s *Server) patchOriginal(r *http.Request) (any, *failure) {
	i := s.byToken(r.PathValue("token"))
	if i == nil || i.Response != 5 {
		return nil, unknownWebhook
	}
	f, failed := s.read(r)
	if failed != nil {
		return nil, failed
	}
	c := s.channels[i.ChannelID]
	if m := c.message(i.Answer); m != nil {
		s.apply(m, f)
		return m, nil
	}
	m := f.message(s.Self)
	s.post(c, m)
	i.Answer = m.ID
	return m, nil
}

func (s *Server) followUp(r *http.Request) (any, *failure) {
	i := s.byToken(r.PathValue("token"))
	if i == nil {
		return nil, unknownWebhook
	}
	f, failed := s.read(r)
	if failed != nil {
		return nil, failed
	}
	m := f.message(s.Self)
	s.post(s.channels[i.ChannelID], m)
	return m, nil
}

func (s *Server) download(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	f, ok := s.files[r.PathValue("id")]
	s.mu.Unlock()
	if !ok || r.URL.Query().Get("sig") != f.signature {
		http.Error(w, "This content is no longer available.", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", f.kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(f.body)))
	_, _ = w.Write(f.body)
}
