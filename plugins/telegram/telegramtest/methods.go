package telegramtest

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Limits of the real server.
const (
	maxText    = 4096
	maxCaption = 1024
	maxData    = 64 // bytes of a button's value
)

// target returns the chat of a call, or why the bot cannot write there.
func (s *Server) target(c Call) (*Chat, *apiError) {
	chat := s.lookup(c.Params["chat_id"])
	switch {
	case chat == nil:
		return nil, badRequest("chat not found")
	case chat.migrateTo != 0:
		return nil, &apiError{Code: 400, Description: "Bad Request: group chat was upgraded to a supergroup chat", MigrateTo: chat.migrateTo}
	case chat.blocked != "":
		code := 403
		if strings.HasPrefix(chat.blocked, "Bad Request") {
			code = 400
		}
		return nil, &apiError{Code: code, Description: chat.blocked}
	}
	return chat, nil
}

func (s *Server) lookup(id string) *Chat {
	if name, ok := strings.CutPrefix(id, "@"); ok {
		for _, chat := range s.chats {
			if strings.EqualFold(chat.Username, name) && chat.Type != "private" {
				return chat
			}
		}
		return nil
	}
	n, err := strconv.ParseInt(id, 10, 64)
	if err != nil {
		return nil
	}
	return s.chats[n]
}

// visible turns text as it was sent into text as it shows, within a limit.
func visible(text, mode string, limit int, long string) (string, *apiError) {
	plain := text
	if strings.EqualFold(mode, "HTML") {
		var err error
		if plain, err = parseHTML(text); err != nil {
			return "", badRequest("%v", err)
		}
	} else if mode != "" {
		return "", badRequest("unsupported parse_mode")
	}
	plain = strings.TrimSpace(plain)
	if units(plain) > limit {
		return "", badRequest("%s", long)
	}
	return plain, nil
}

// text returns the text of a call as it shows, and checks the buttons.
func (c Call) text(long string) (string, *apiError) {
	text, failure := visible(c.Params["text"], c.Params["parse_mode"], maxText, long)
	if failure == nil && text == "" {
		failure = badRequest("message text is empty")
	}
	if failure == nil {
		failure = keyboard(c.Params["reply_markup"])
	}
	return text, failure
}

// keyboard checks a reply_markup.
func keyboard(markup string) *apiError {
	if markup == "" {
		return nil
	}
	var board struct {
		Rows [][]struct {
			Text string `json:"text"`
			Data string `json:"callback_data"`
		} `json:"inline_keyboard"`
	}
	if err := json.Unmarshal([]byte(markup), &board); err != nil {
		return badRequest("can't parse reply keyboard markup JSON object")
	}
	for _, row := range board.Rows {
		for _, b := range row {
			if b.Text == "" {
				return badRequest("can't parse inline keyboard button: Text buttons are unallowed in the inline keyboard")
			}
			if len(b.Data) == 0 || len(b.Data) > maxData {
				return badRequest("BUTTON_DATA_INVALID")
			}
		}
	}
	return nil
}

// The methods below, and those in files.go and updates.go but getUpdates, are called with s.mu held.

func (s *Server) sendMessage(c Call) (any, *apiError) {
	chat, failure := s.target(c)
	if failure != nil {
		return nil, failure
	}
	text, failure := c.text("message is too long")
	if failure != nil {
		return nil, failure
	}
	return s.show(chat, c, Message{Text: text, Markup: c.Params["text"]}, Fields{"text": text})
}

// show adds a message of the bot to a chat and returns it as the API does.
func (s *Server) show(chat *Chat, c Call, m Message, fields Fields) (any, *apiError) {
	if failure := m.reply(chat, c.Params["reply_parameters"]); failure != nil {
		return nil, failure
	}
	m.Thread, _ = strconv.ParseInt(c.Params["message_thread_id"], 10, 64)
	if m.Thread != 0 && !chat.IsForum {
		return nil, badRequest("message thread not found")
	}
	chat.last++
	m.ID, m.FromBot, m.Mode, m.Keyboard = chat.last, true, c.Params["parse_mode"], c.Params["reply_markup"]
	m.fields = Fields{"message_id": m.ID, "chat": chat.ChatInfo, "date": time.Now().Unix(), "from": Bot()}
	if m.Thread != 0 {
		m.fields["message_thread_id"], m.fields["is_topic_message"] = m.Thread, true
	}
	if m.Keyboard != "" {
		m.fields["reply_markup"] = json.RawMessage(m.Keyboard)
	}
	maps.Copy(m.fields, fields)
	chat.messages = append(chat.messages, &m)
	s.mu.Shown(m.Text)
	return m.fields, nil
}

// reply parses the reference to the answered message.
func (m *Message) reply(chat *Chat, parameters string) *apiError {
	if parameters == "" {
		return nil
	}
	var p struct {
		ID    int64 `json:"message_id"`
		Allow bool  `json:"allow_sending_without_reply"`
	}
	if err := json.Unmarshal([]byte(parameters), &p); err != nil {
		return badRequest("can't parse reply parameters JSON object")
	}
	if chat.find(p.ID) == nil {
		if p.Allow {
			return nil
		}
		return badRequest("message to be replied not found")
	}
	m.ReplyTo = p.ID
	return nil
}

// own finds a message of the bot.
func (s *Server) own(c Call, missing string) (*Chat, *Message, *apiError) {
	chat, failure := s.target(c)
	if failure != nil {
		return nil, nil, failure
	}
	id, _ := strconv.ParseInt(c.Params["message_id"], 10, 64)
	m := chat.find(id)
	if m == nil {
		return nil, nil, badRequest("%s", missing)
	}
	return chat, m, nil
}

func (s *Server) editMessageText(c Call) (any, *apiError) {
	_, m, failure := s.own(c, "message to edit not found")
	if failure != nil {
		return nil, failure
	}
	if !m.FromBot {
		return nil, badRequest("message can't be edited")
	}
	if m.Media != "" {
		return nil, badRequest("there is no text in the message to edit")
	}
	text, failure := c.text("MESSAGE_TOO_LONG")
	if failure != nil {
		return nil, failure
	}
	if c.Params["text"] == m.Markup && c.Params["reply_markup"] == m.Keyboard && c.Params["parse_mode"] == m.Mode {
		return nil, badRequest("message is not modified: specified new message content and reply markup are exactly the same " +
			"as a current content and reply markup of the message")
	}
	m.Text, m.Markup, m.Mode, m.Keyboard = text, c.Params["text"], c.Params["parse_mode"], c.Params["reply_markup"]
	m.Edits++
	m.fields = maps.Clone(m.fields)
	m.fields["text"], m.fields["edit_date"] = text, time.Now().Unix()
	s.mu.Edited(text)
	return m.fields, nil
}

func (s *Server) deleteMessage(c Call) (any, *apiError) {
	chat, m, failure := s.own(c, "message to delete not found")
	if failure != nil {
		return nil, failure
	}
	chat.messages = slices.DeleteFunc(chat.messages, func(one *Message) bool { return one == m })
	return true, nil
}

// setReaction takes the few emoji that tests use; the real server has a list of about seventy.
func (s *Server) setReaction(c Call) (any, *apiError) {
	_, m, failure := s.own(c, "message to react not found")
	if failure != nil {
		return nil, failure
	}
	var list []struct{ Type, Emoji string }
	if text := c.Params["reaction"]; text != "" {
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			return nil, badRequest("can't parse reaction types JSON object")
		}
	}
	m.Reaction = ""
	for _, r := range list {
		if !strings.Contains("👍👎❤🔥👀🎉🤔", r.Emoji) {
			return nil, badRequest("REACTION_INVALID")
		}
		m.Reaction = r.Emoji
	}
	return true, nil
}

func (s *Server) chatAction(c Call) (any, *apiError) {
	if _, failure := s.target(c); failure != nil {
		return nil, failure
	}
	if c.Params["action"] == "" {
		return nil, badRequest("wrong parameter action in request")
	}
	if c.Params["action"] == "typing" {
		s.mu.Typing()
	}
	return true, nil
}

func (s *Server) answerCallback(c Call) (any, *apiError) {
	id := c.Params["callback_query_id"]
	if !s.queries[id] {
		return nil, badRequest("query is too old and response timeout expired or query ID is invalid")
	}
	delete(s.queries, id)
	return true, nil
}

func (s *Server) getChat(c Call) (any, *apiError) {
	chat := s.lookup(c.Params["chat_id"])
	if chat == nil {
		return nil, badRequest("chat not found")
	}
	return chat.ChatInfo, nil
}
