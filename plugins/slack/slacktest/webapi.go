package slacktest

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// serveMethod answers one call of the Web API.
func (s *Server) serveMethod(w http.ResponseWriter, r *http.Request) {
	method := r.PathValue("method")
	r.Body = http.MaxBytesReader(w, r.Body, 4<<20)
	if err := r.ParseForm(); err != nil {
		reply(w, refusal("invalid_form_data"))
		return
	}
	fault := s.fault(method)
	if fault.before(w, r) {
		return
	}
	answer := s.call(method, token(r), r.Form)
	switch {
	case fault.Late:
		panic(http.ErrAbortHandler)
	case fault.Garbage:
		_, _ = w.Write([]byte(`{"ok":tr`))
	default:
		reply(w, answer)
	}
}

// token is taken from the header or the form, as Slack does.
func token(r *http.Request) string {
	if t, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		return t
	}
	return r.Form.Get("token")
}

func (s *Server) call(method, token string, form url.Values) object {
	want := BotToken
	if method == "apps.connections.open" {
		want = AppToken
	}
	switch {
	case token == "":
		return refusal("not_authed")
	case token != want && (token == BotToken || token == AppToken):
		return refusal("not_allowed_token_type")
	case token != want:
		return refusal("invalid_auth")
	}
	do, ok := map[string]func(url.Values) object{
		"apps.connections.open":        s.openSocket,
		"auth.test":                    s.authTest,
		"chat.postMessage":             s.postMessage,
		"chat.update":                  s.update,
		"chat.delete":                  s.deleteMessage,
		"reactions.add":                s.addReaction,
		"reactions.remove":             s.removeReaction,
		"conversations.info":           s.conversationInfo,
		"conversations.list":           s.conversationList,
		"conversations.open":           s.conversationOpen,
		"conversations.history":        s.history,
		"conversations.replies":        s.replies,
		"users.info":                   s.userInfo,
		"files.info":                   s.fileInfo,
		"files.getUploadURLExternal":   s.uploadURL,
		"files.completeUploadExternal": s.completeUpload,
		"assistant.threads.setStatus":  s.setStatus,
	}[method]
	if !ok {
		return refusal("unknown_method")
	}
	defer s.mu.Change()()
	return do(form)
}

// The methods below are called with s.mu held.

func (s *Server) authTest(url.Values) object {
	return object{
		"ok": true, "url": s.http.URL + "/", "team": "Test", "team_id": Team, "user": "flynn", "user_id": BotUser, "bot_id": BotID,
	}
}

// writable returns why the bot cannot write to a channel, or "".
func (s *Server) writable(id string) string {
	c, ok := s.channels[id]
	switch {
	case !ok:
		return "channel_not_found"
	case c.Archived:
		return "is_archived"
	case c.Outside:
		return "not_in_channel"
	case c.ReadOnly:
		return "restricted_action"
	}
	return ""
}

const maxText = 40_000 // characters, from where on Slack cuts; the fake refuses

func (s *Server) postMessage(form url.Values) object {
	channel := form.Get("channel")
	if why := s.writable(channel); why != "" {
		return refusal(why)
	}
	m := Message{User: BotUser, BotID: BotID, ThreadTS: form.Get("thread_ts")}
	if why := m.fill(form); why != "" {
		return refusal(why)
	}
	if m.ThreadTS != "" && s.find(channel, m.ThreadTS) == nil {
		m.ThreadTS = "" // Slack posts to the channel when the parent is gone
	}
	m.TS = s.stamp()
	s.messages[channel] = append(s.messages[channel], m)
	s.mu.Shown(m.Text)
	s.emitMessage(channel, m) // Slack sends a bot the events of its own messages, too
	return object{"ok": true, "channel": channel, "ts": m.TS, "message": m.wire(true)}
}

func (s *Server) update(form url.Values) object {
	channel := form.Get("channel")
	m := s.find(channel, form.Get("ts"))
	switch {
	case m == nil:
		return refusal("message_not_found")
	case m.User != BotUser:
		return refusal("cant_update_message")
	}
	if why := m.fill(form); why != "" {
		return refusal(why)
	}
	m.Edits++
	s.mu.Edited(m.Text)
	m.Edited = s.stamp()
	return object{"ok": true, "channel": channel, "ts": m.TS, "text": m.Text}
}

func (s *Server) deleteMessage(form url.Values) object {
	channel, ts := form.Get("channel"), form.Get("ts")
	m := s.find(channel, ts)
	switch {
	case m == nil:
		return refusal("message_not_found")
	case m.User != BotUser:
		return refusal("cant_delete_message")
	}
	s.messages[channel] = slices.DeleteFunc(s.messages[channel], func(m Message) bool { return m.TS == ts })
	return object{"ok": true, "channel": channel, "ts": ts}
}

func (s *Server) addReaction(form url.Values) object {
	m, name := s.find(form.Get("channel"), form.Get("timestamp")), form.Get("name")
	switch {
	case m == nil:
		return refusal("message_not_found")
	case name == "" || strings.IndexFunc(name, func(r rune) bool { return r > 0x7e || r == ':' }) >= 0:
		return refusal("invalid_name")
	case slices.Contains(m.Reactions, name):
		return refusal("already_reacted")
	}
	m.Reactions = append(m.Reactions, name)
	return object{"ok": true}
}

func (s *Server) removeReaction(form url.Values) object {
	m, name := s.find(form.Get("channel"), form.Get("timestamp")), form.Get("name")
	if m == nil || !slices.Contains(m.Reactions, name) {
		return refusal("no_reaction")
	}
	m.Reactions = slices.DeleteFunc(m.Reactions, func(r string) bool { return r == name })
	return object{"ok": true}
}

func (c Channel) wire() object {
	return object{
		"id": c.ID, "name": c.Name, "is_channel": c.Kind == "channel", "is_group": c.Kind == "group", "is_im": c.Kind == "im",
		"is_mpim": c.Kind == "mpim", "is_member": !c.Outside, "is_archived": c.Archived, "user": c.User,
	}
}

func (s *Server) conversationInfo(form url.Values) object {
	c, ok := s.channels[form.Get("channel")]
	if !ok {
		return refusal("channel_not_found")
	}
	return object{"ok": true, "channel": c.wire()}
}

func (s *Server) conversationList(form url.Values) object {
	kinds := strings.Split(form.Get("types"), ",")
	var ids []string
	for id, c := range s.channels {
		kind := map[string]string{"channel": "public_channel", "group": "private_channel"}[c.Kind]
		if kind == "" {
			kind = c.Kind
		}
		if slices.Contains(kinds, kind) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	page, next := paged(ids, form)
	list := []object{}
	for _, id := range page {
		list = append(list, s.channels[id].wire())
	}
	return object{"ok": true, "channels": list, "response_metadata": object{"next_cursor": next}}
}

// conversationOpen opens the private chat with one user.
func (s *Server) conversationOpen(form url.Values) object {
	user := form.Get("users")
	if _, ok := s.users[user]; !ok {
		return refusal("user_not_found")
	}
	for _, c := range s.channels {
		if c.Kind == "im" && c.User == user {
			return object{"ok": true, "already_open": true, "channel": c.wire()}
		}
	}
	c := Channel{ID: "D" + user, Kind: "im", User: user}
	s.channels[c.ID] = c
	return object{"ok": true, "channel": c.wire()}
}

func (s *Server) userInfo(form url.Values) object {
	u, ok := s.users[form.Get("user")]
	if !ok {
		return refusal("user_not_found")
	}
	return object{"ok": true, "user": object{
		"id": u.ID, "team_id": u.Team, "name": u.Name, "real_name": u.Name, "is_bot": u.Bot,
		"is_admin": u.Admin || u.Owner || u.Primary, "is_owner": u.Owner || u.Primary, "is_primary_owner": u.Primary,
		"is_restricted": u.Guest, "profile": object{"display_name": u.Name, "real_name": u.Name},
	}}
}

func (s *Server) setStatus(form url.Values) object {
	if form.Get("thread_ts") == "" {
		return refusal("invalid_arguments")
	}
	if form.Get("status") != "" {
		s.mu.Typing()
	}
	s.statuses = append(s.statuses, form.Get("channel_id")+" "+form.Get("thread_ts")+" "+form.Get("status"))
	return object{"ok": true}
}

// paged cuts a page out of list; the cursor is where the next one begins.
func paged[T any](list []T, form url.Values) (page []T, next string) {
	begin, _ := strconv.Atoi(form.Get("cursor"))
	limit, err := strconv.Atoi(form.Get("limit"))
	if err != nil || limit < 1 || limit > 1000 {
		limit = 100
	}
	begin = min(max(begin, 0), len(list))
	end := min(begin+limit, len(list))
	if end < len(list) {
		next = strconv.Itoa(end)
	}
	return list[begin:end], next
}

func tooLong(text string) bool { return utf8.RuneCountInString(text) > maxText }
