package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/flynnhost/flynn/sdk/channel"
)

// notification is what Meta posts to the webhook.
type notification struct {
	Object string `json:"object"`
	Entry  []struct {
		Changes []struct {
			Field string    `json:"field"`
			Value hookValue `json:"value"`
		} `json:"changes"`
	} `json:"entry"`
}

type hookValue struct {
	Metadata struct {
		PhoneNumberID string `json:"phone_number_id"`
	} `json:"metadata"`
	Contacts []struct {
		WaID    string `json:"wa_id"`
		Profile struct {
			Name string `json:"name"`
		} `json:"profile"`
	} `json:"contacts"`
	Messages []hookMessage `json:"messages"`
	Statuses []hookStatus  `json:"statuses"`
}

// hookMessage is a message of a person. Of the parts, the one that Type names is there.
type hookMessage struct {
	From      string `json:"from"`
	ID        string `json:"id"`
	Timestamp string `json:"timestamp"`
	Type      string `json:"type"`
	Context   struct {
		ID string `json:"id"`
	} `json:"context"`
	Text struct {
		Body string `json:"body"`
	} `json:"text"`
	Image    *hookMedia `json:"image"`
	Document *hookMedia `json:"document"`
	Audio    *hookMedia `json:"audio"`
	Video    *hookMedia `json:"video"`
	Sticker  *hookMedia `json:"sticker"`
	Location struct {
		Latitude  float64 `json:"latitude"`
		Longitude float64 `json:"longitude"`
		Name      string  `json:"name"`
		Address   string  `json:"address"`
	} `json:"location"`
	Contacts []struct {
		Name struct {
			Formatted string `json:"formatted_name"`
		} `json:"name"`
		Phones []struct {
			Phone string `json:"phone"`
		} `json:"phones"`
	} `json:"contacts"`
	Interactive struct {
		ButtonReply hookReply `json:"button_reply"`
		ListReply   hookReply `json:"list_reply"`
	} `json:"interactive"`
	Button struct {
		Payload string `json:"payload"`
		Text    string `json:"text"`
	} `json:"button"`
	Reaction struct {
		MessageID string `json:"message_id"`
		Emoji     string `json:"emoji"`
	} `json:"reaction"`
}

type hookMedia struct {
	ID       string `json:"id"`
	Mime     string `json:"mime_type"`
	Caption  string `json:"caption"`
	Filename string `json:"filename"`
}

type hookReply struct {
	ID    string `json:"id"`
	Title string `json:"title"`
}

// hookStatus is the status of one of our messages.
type hookStatus struct {
	ID     string       `json:"id"`
	Status string       `json:"status"`
	Errors []graphError `json:"errors"`
	Key    string       `json:"biz_opaque_callback_data"`
}

func readHook(body []byte) (notification, error) {
	var n notification
	if err := json.Unmarshal(body, &n); err != nil {
		return n, err
	}
	if n.Object != "whatsapp_business_account" {
		return n, errors.New("its object is not whatsapp_business_account")
	}
	return n, nil
}

// values returns the changes that concern our number. An app may have several numbers, each with its own instance.
func (n notification) values(phone string) (out []hookValue) {
	for _, e := range n.Entry {
		for _, c := range e.Changes {
			if c.Field == "messages" && c.Value.Metadata.PhoneNumberID == phone {
				out = append(out, c.Value)
			}
		}
	}
	return out
}

func (n notification) statuses(phone string) (out []hookStatus) {
	for _, v := range n.values(phone) {
		out = append(out, v.Statuses...)
	}
	return out
}

func (n notification) events(phone string) (out []channel.Event) {
	for _, v := range n.values(phone) {
		names := map[string]string{}
		for _, c := range v.Contacts {
			names[c.WaID] = c.Profile.Name
		}
		for _, m := range v.Messages {
			if e, ok := m.event(names[m.From]); ok {
				out = append(out, e)
			}
		}
	}
	return out
}

// event turns a message into an event. Its id is WhatsApp's own, the same in each redelivery.
func (m hookMessage) event(name string) (channel.Event, bool) {
	if m.ID == "" || m.From == "" {
		return channel.Event{}, false
	}
	e := channel.Event{
		ID: m.ID, Sender: channel.Sender{ID: m.From, Name: name}, Conversation: channel.Conversation{ID: m.From, Kind: channel.DM},
		Addressed: true, ReplyTo: m.Context.ID,
	}
	if seconds, err := strconv.ParseInt(m.Timestamp, 10, 64); err == nil && seconds > 0 {
		e.SentAt = time.Unix(seconds, 0)
	}
	switch m.Type {
	case "text":
		e.Text = m.Text.Body
	case "image", "document", "audio", "video", "sticker":
		return m.withMedia(e)
	case "location":
		e.Text = m.location()
	case "contacts":
		e.Text = m.contacts()
	case "interactive":
		reply := m.Interactive.ButtonReply
		if reply.ID == "" {
			reply = m.Interactive.ListReply
		}
		e.Kind, e.Text, e.TargetID, e.ReplyTo = channel.EventButton, reply.ID, m.Context.ID, ""
	case "button": // of a template
		e.Text = m.Button.Text
	case "reaction":
		e.Kind, e.Text, e.TargetID = channel.EventReaction, m.Reaction.Emoji, m.Reaction.MessageID
	}
	return e, e.Text != ""
}

// withMedia adds the one medium of a message.
func (m hookMessage) withMedia(e channel.Event) (channel.Event, bool) {
	media := map[string]*hookMedia{"image": m.Image, "document": m.Document, "audio": m.Audio, "video": m.Video, "sticker": m.Sticker}[m.Type]
	if media == nil || !digits(media.ID) {
		return e, false
	}
	kind, _, _ := strings.Cut(media.Mime, ";") // "audio/ogg; codecs=opus"
	e.Text = media.Caption
	e.Attachments = []channel.Attachment{{Handle: media.ID, Name: media.Filename, Type: strings.TrimSpace(kind)}}
	return e, true
}

func (m hookMessage) location() string {
	l := m.Location
	text := fmt.Sprintf("Location: %.6f, %.6f", l.Latitude, l.Longitude)
	for _, more := range []string{l.Name, l.Address} {
		if more != "" {
			text += ", " + more
		}
	}
	return text
}

func (m hookMessage) contacts() string {
	var lines []string
	for _, c := range m.Contacts {
		line := "Contact: " + c.Name.Formatted
		for _, p := range c.Phones {
			line += ", " + p.Phone
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}
