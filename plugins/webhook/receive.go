package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/flynnhost/flynn/sdk/channel"
)

// inbound is a message as a system posts it.
type inbound struct {
	Text         string  `json:"text"`
	Conversation string  `json:"conversation"` // "default"
	Kind         string  `json:"kind"`         // "dm" (default) or "group"
	Sender       sender  `json:"sender"`
	Addressed    *bool   `json:"addressed"` // true; false is a message of a group that is not for Flynn
	ReplyTo      string  `json:"reply_to"`
	SentAt       float64 `json:"sent_at"` // Unix seconds
}

type sender struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// maxBody bounds one request, in bytes. The host has the same limit.
const maxBody = 256 << 10

// parse parses a body strictly: an unknown key may be a mistake that changes the meaning of the message.
func parse(body []byte) (inbound, error) {
	m := inbound{Conversation: "default", Kind: "dm"}
	if !utf8.Valid(body) {
		return m, errors.New("it is not valid UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		return m, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return m, errors.New("data after the JSON object")
	}
	switch {
	case m.Text == "":
		return m, errors.New("text is missing")
	case m.Sender.ID == "":
		return m, errors.New("sender.id is missing")
	case m.Kind != "dm" && m.Kind != "group":
		return m, fmt.Errorf("kind is %.20q, must be dm or group", m.Kind)
	case m.Conversation == "":
		return m, errors.New("conversation is empty")
	case strings.ContainsRune(m.Sender.ID+m.Conversation+m.ReplyTo, utf8.RuneError): // half a surrogate pair, which JSON's reader replaces
		return m, errors.New("an id has half of a surrogate pair")
	case m.SentAt < 0 || m.SentAt > 1e11:
		return m, errors.New("sent_at is not in Unix seconds")
	}
	return m, nil
}

// event returns the message as an event. The system that signed it vouches for the sender.
func (m inbound) event(id string) channel.Event {
	e := channel.Event{
		ID: id, Text: m.Text, ReplyTo: m.ReplyTo, Conversation: channel.Conversation{ID: m.Conversation, Kind: channel.DM},
		Sender:    channel.Sender{ID: m.Sender.ID, Name: m.Sender.Name},
		Addressed: m.Addressed == nil || *m.Addressed,
	}
	if m.Kind == "group" {
		e.Conversation.Kind = channel.Group
	}
	if m.SentAt > 0 {
		e.SentAt = time.UnixMilli(int64(m.SentAt * 1000))
	}
	return e
}

// receiver handles the requests to the path.
type receiver struct {
	secret []byte
	in     channel.Inbox
	now    func() time.Time
}

// ServeHTTP receives one message. 202 means that the host has it on disk; after any other status, the same webhook-id may be sent again.
func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	if q.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		say(w, http.StatusMethodNotAllowed, "post a message")
		return
	}
	body, err := io.ReadAll(io.LimitReader(q.Body, maxBody+1))
	if err != nil || len(body) > maxBody {
		say(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("a message may have at most %d bytes", maxBody))
		return
	}
	id, err := verify(r.secret, q.Header, body, r.now())
	if err != nil {
		say(w, http.StatusUnauthorized, err.Error())
		return
	}
	m, err := parse(body)
	if err != nil {
		say(w, http.StatusBadRequest, err.Error())
		return
	}
	err = r.in.Deliver(q.Context(), m.event(id))
	switch {
	case errors.Is(err, channel.ErrMalformed):
		say(w, http.StatusBadRequest, err.Error())
	case err != nil:
		w.Header().Set("Retry-After", "1")
		say(w, http.StatusServiceUnavailable, "not taken; send it again")
	default:
		say(w, http.StatusAccepted, "taken")
	}
}

func say(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"message": text})
}
