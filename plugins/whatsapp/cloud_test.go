package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mau.fi/whatsmeow"
	"go.uber.org/goleak"

	"github.com/flynnhost/flynn/plugins/whatsapp/whatsapptest"
	"github.com/flynnhost/flynn/plugins/whatsapp/whatsapptest/linkedtest"
	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/plugintest"
)

func TestMain(m *testing.M) {
	silence()
	whatsmeow.WACertPubKey = linkedtest.Root() // only here: what users run believes WhatsApp alone
	// A frame that the library reads while it is disconnected is taken by nobody, and its reader never ends.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("go.mau.fi/whatsmeow/socket.(*FrameSocket).frameComplete"))
}

const ann = "4915112345678"

var withAnn = channel.Conversation{ID: ann, Kind: channel.DM}

// secrets are those of the fake.
func secrets() map[string]string {
	return map[string]string{
		"access_token": whatsapptest.AccessToken, "app_secret": whatsapptest.AppSecret, "verify_token": whatsapptest.VerifyToken,
	}
}

// start runs the plugin against s, subscribed. more are pairs of a key and its value.
func start(t *testing.T, s *whatsapptest.Server, more ...any) (*plugintest.Host, *plugin) {
	t.Helper()
	settings := map[string]any{"mode": "cloud", "api_url": s.URL(), "phone_number_id": whatsapptest.PhoneID, "confirm_ms": 0}
	for i := 0; i < len(more); i += 2 {
		settings[more[i].(string)] = more[i+1]
	}
	p := &plugin{}
	h := plugintest.Start(t, p, plugintest.Config{Settings: settings, Secrets: secrets(), Permissions: []string{"webhook"}})
	h.WaitStatus(channel.StateReady)
	if err := s.Subscribe(h.WebhookURL(""), whatsapptest.VerifyToken); err != nil {
		t.Fatal(err)
	}
	return h, p
}

func TestSettingsThatMakeNoSense(t *testing.T) {
	good := func(key string, v any) map[string]any {
		s := map[string]any{"mode": "cloud", "phone_number_id": "1"}
		s[key] = v
		return s
	}
	less := func(without string) map[string]string {
		s := secrets()
		delete(s, without)
		return s
	}
	for _, c := range []struct {
		name     string
		settings map[string]any
		secrets  map[string]string
		path     string
	}{
		{"no mode", nil, secrets(), "mode"},
		{"no number", good("phone_number_id", ""), secrets(), "phone_number_id"},
		{"the number itself", good("phone_number_id", "+49 151"), secrets(), "phone_number_id"},
		{"no secret of the app", good("mode", "cloud"), less("app_secret"), "secrets.app_secret"},
		{"no token", good("mode", "cloud"), less("access_token"), "secrets.access_token"},
		{"no word for the handshake", good("mode", "cloud"), less("verify_token"), "secrets.verify_token"},
		{"unencrypted", good("api_url", "http://graph.facebook.com"), secrets(), "api_url"},
		{"unknown key", good("phone", "1"), secrets(), "phone"},
		{"a device without a name", map[string]any{"mode": "linked", "device_name": ""}, nil, "device_name"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := plugintest.TryStart(t, &plugin{}, plugintest.Config{Settings: c.settings, Secrets: c.secrets})
			wrong, ok := err.(channel.FieldErrors)
			if !ok || wrong[0].Path != c.path {
				t.Errorf("error %v, want one of %s", err, c.path)
			}
		})
	}
}

func TestHandshake(t *testing.T) {
	s := whatsapptest.Start(t, whatsapptest.Config{})
	h, _ := start(t, s)
	for _, word := range []string{"", "verify-token ", "VERIFY-TOKEN"} {
		if err := s.Subscribe(h.WebhookURL(""), word); err == nil {
			t.Errorf("the word %q was taken", word)
		}
	}
	r := httptest.NewRequest(http.MethodPut, "/", nil)
	resp := h.Webhook("", r)
	resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		t.Errorf("PUT: %s", resp.Status)
	}
}

func TestSignature(t *testing.T) {
	s := whatsapptest.Start(t, whatsapptest.Config{})
	h, _ := start(t, s)
	body := []byte(`{"object":"whatsapp_business_account","entry":[{"changes":[{"field":"messages","value":{"metadata":{"phone_number_id":"` + whatsapptest.PhoneID +
		`"},"messages":[{"from":"1","id":"wamid.1","type":"text","text":{"body":"hi"}}]}}]}]}`)
	good := whatsapptest.Signature(body)
	for name, signature := range map[string]string{
		"none": "", "empty": "sha256=", "of sha1": "sha1=" + good[7:], "not hex": "sha256=zz", "cut": good[:len(good)-2], "of another body": whatsapptest.Signature([]byte("{}")),
	} {
		r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
		r.Header.Set("X-Hub-Signature-256", signature)
		resp := h.Webhook("", r)
		resp.Body.Close()
		if resp.StatusCode != http.StatusForbidden {
			t.Errorf("signature %s: %s", name, resp.Status)
		}
	}
	for _, text := range []string{"", "{", "[]", `{"object":"page"}`} { // signed, and nonsense: Meta must not repeat it for days
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(text))
		r.Header.Set("X-Hub-Signature-256", whatsapptest.Signature([]byte(text)))
		resp := h.Webhook("", r)
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%q: %s", text, resp.Status)
		}
	}
	if e, came := h.EventWithin(20 * time.Millisecond); came {
		t.Errorf("an event without a signature: %+v", e)
	}
}

func TestWhatPeopleDo(t *testing.T) {
	media := func(kind, mime string, more map[string]any) map[string]any {
		part := map[string]any{"id": "123", "mime_type": mime, "sha256": "x="}
		for k, v := range more {
			part[k] = v
		}
		return map[string]any{"type": kind, kind: part}
	}
	file := func(name, kind string) []channel.Attachment {
		return []channel.Attachment{{Handle: "123", Name: name, Type: kind}}
	}
	for _, c := range []struct {
		name   string
		fields map[string]any
		want   channel.Event
	}{
		{"text", map[string]any{"type": "text", "text": map[string]any{"body": "hello"}}, channel.Event{Text: "hello"}},
		{"answer", map[string]any{"type": "text", "text": map[string]any{"body": "yes"}, "context": map[string]any{"id": "wamid.0"}}, channel.Event{Text: "yes", ReplyTo: "wamid.0"}},
		{"picture", media("image", "image/jpeg", map[string]any{"caption": "look"}), channel.Event{Text: "look", Attachments: file("", "image/jpeg")}},
		{"document", media("document", "application/pdf", map[string]any{"filename": "a.pdf"}), channel.Event{Attachments: file("a.pdf", "application/pdf")}},
		{"voice", media("audio", "audio/ogg; codecs=opus", nil), channel.Event{Attachments: file("", "audio/ogg")}},
		{"video", media("video", "video/mp4", nil), channel.Event{Attachments: file("", "video/mp4")}},
		{"sticker", media("sticker", "image/webp", nil), channel.Event{Attachments: file("", "image/webp")}},
		{"place", map[string]any{"type": "location", "location": map[string]any{"latitude": 52.5, "longitude": 13.4, "name": "Berlin"}}, channel.Event{Text: "Location: 52.500000, 13.400000, Berlin"}},
		{"contact", map[string]any{"type": "contacts", "contacts": []any{map[string]any{"name": map[string]any{"formatted_name": "Bob"}, "phones": []any{map[string]any{"phone": "+1 2"}}}}},
			channel.Event{Text: "Contact: Bob, +1 2"}},
		{"button", map[string]any{"type": "interactive", "context": map[string]any{"id": "wamid.0"}, "interactive": map[string]any{"type": "button_reply", "button_reply": map[string]any{"id": "deny:1", "title": "No"}}},
			channel.Event{Kind: channel.EventButton, Text: "deny:1", TargetID: "wamid.0"}},
		{"button of a template", map[string]any{"type": "button", "button": map[string]any{"payload": "p", "text": "Read it"}}, channel.Event{Text: "Read it"}},
		{"reaction", map[string]any{"type": "reaction", "reaction": map[string]any{"message_id": "wamid.0", "emoji": "👍"}}, channel.Event{Kind: channel.EventReaction, Text: "👍", TargetID: "wamid.0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := whatsapptest.Start(t, whatsapptest.Config{})
			h, _ := start(t, s)
			s.SayMore(ann, "Ann", map[string]any{"type": "unsupported", "errors": []any{}}) // nothing to be told
			id := s.SayMore(ann, "Ann", c.fields)
			e := h.Event()
			if e.ID != id || e.Conversation != withAnn || e.Sender.ID != ann || e.Sender.Name != "Ann" || !e.Addressed || time.Since(e.SentAt) > time.Minute {
				t.Errorf("event %+v", e)
			}
			if e.Kind != c.want.Kind || e.Text != c.want.Text || e.TargetID != c.want.TargetID || e.ReplyTo != c.want.ReplyTo || !slices.Equal(e.Attachments, c.want.Attachments) {
				t.Errorf("event\n%+v\nwant\n%+v", e, c.want)
			}
			h.Ack()
			s.WaitDone(t)
		})
	}
}

func TestMetaHears200WhenTheHostHasTheEvent(t *testing.T) {
	s := whatsapptest.Start(t, whatsapptest.Config{RedeliverAfter: 10 * time.Millisecond, Redeliveries: 200})
	h, _ := start(t, s)
	id := s.Say(ann, "Ann", "text", map[string]any{"body": "hello"})
	h.Event()
	if hook := s.Hooks()[0]; len(hook.Answers) != 0 {
		t.Errorf("answered %v before the host had it", hook.Answers)
	}
	if err := h.Shutdown(); err != nil { // the host never said that it has it
		t.Fatal(err)
	}
	next, _ := start(t, s) // subscribes its own address
	if e := next.Event(); e.ID != id {
		t.Errorf("told again as %q, want %q", e.ID, id)
	}
	next.Ack()
	s.WaitDone(t)
	if hook := s.Hooks()[0]; slices.Contains(hook.Answers[:len(hook.Answers)-1], http.StatusOK) {
		t.Errorf("answers %v", hook.Answers)
	}
}

func TestNotificationsOfAnotherNumber(t *testing.T) {
	s := whatsapptest.Start(t, whatsapptest.Config{})
	h, _ := start(t, s)
	s.Notify(map[string]any{"metadata": map[string]any{"phone_number_id": "1"}, "messages": []any{map[string]any{"from": ann, "id": "wamid.x", "type": "text", "text": map[string]any{"body": "not for us"}}}})
	s.WaitDone(t)
	if e, came := h.EventWithin(20 * time.Millisecond); came {
		t.Errorf("event %+v", e)
	}
}

func TestSend(t *testing.T) {
	s := whatsapptest.Start(t, whatsapptest.Config{Statuses: true})
	h, _ := start(t, s, "confirm_ms", 10_000)
	began := time.Now()
	sent, err := h.Send(channel.Send{Key: "k1", Conversation: withAnn, Text: "**bold**", Markdown: true, ReplyTo: "wamid.0"})
	if err != nil || sent.Outcome != channel.OutcomeSent || time.Since(began) > 9*time.Second {
		t.Fatalf("%+v, %v after %s", sent, err, time.Since(began))
	}
	m := s.Sent()[0]
	if m.ID != sent.MessageIDs[0] || m.To != ann || m.Key != "k1" || m.ReplyTo != "wamid.0" || m.Body["body"] != "*bold*" || m.Body["preview_url"] != false {
		t.Errorf("message %+v", m)
	}
	if again, _ := h.Reconcile(channel.Reconcile{Key: "k1", Conversation: withAnn, Text: "x"}); again.Outcome != channel.OutcomeSent || again.MessageIDs[0] != m.ID {
		t.Errorf("reconciled %+v", again)
	}
}

func TestWhatBecomesOfASend(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault whatsapptest.Fault
		want  channel.Outcome
		after time.Duration
		says  string
	}{
		{"throughput", whatsapptest.Fault{Code: 130429, Message: "Rate limit hit"}, channel.OutcomeNotSent, soon, "130429"},
		{"throughput with a time", whatsapptest.Fault{Status: 429, Code: 130429, RetryAfter: 7}, channel.OutcomeNotSent, 7 * time.Second, ""},
		{"pair limit", whatsapptest.Fault{Code: 131056}, channel.OutcomeNotSent, 10 * time.Second, ""},
		{"too many, without words", whatsapptest.Fault{Status: 429}, channel.OutcomeNotSent, later, ""},
		{"service down", whatsapptest.Fault{Status: 503, Code: 131016}, channel.OutcomeNotSent, soon, ""},
		{"token expired", whatsapptest.Fault{Status: 401, Code: 190}, channel.OutcomeNotSent, permanent, "no longer valid"},
		{"24 hours", whatsapptest.Fault{Code: 131047}, channel.OutcomeNotSent, permanent, "set the key template"},
		{"not on WhatsApp", whatsapptest.Fault{Code: 131026}, channel.OutcomeNotSent, permanent, "cannot be reached"},
		{"unknown refusal", whatsapptest.Fault{Code: 99999, Message: "no"}, channel.OutcomeNotSent, permanent, "99999"},
		{"page of an error", whatsapptest.Fault{Status: 502}, channel.OutcomeUnknown, 0, "502"},
		{"carried out, then cut", whatsapptest.Fault{Late: true}, channel.OutcomeUnknown, 0, "reach meta"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := whatsapptest.Start(t, whatsapptest.Config{})
			h, _ := start(t, s)
			s.Fail(c.fault)
			sent, err := h.Send(channel.Send{Key: "k", Conversation: withAnn, Text: "hello"})
			if sent.Outcome != c.want || sent.RetryAfter != c.after || err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("outcome %v, again after %s: %v", sent.Outcome, sent.RetryAfter, err)
			}
			if err != nil && strings.Contains(err.Error(), whatsapptest.AccessToken) {
				t.Errorf("the error holds the token: %v", err)
			}
		})
	}
}

func TestAnUnclearSendIsSettledByItsStatus(t *testing.T) {
	s := whatsapptest.Start(t, whatsapptest.Config{})
	h, _ := start(t, s)
	s.Fail(whatsapptest.Fault{Late: true})
	send := channel.Send{Key: "k", Conversation: withAnn, Text: "hello"}
	if sent, _ := h.Send(send); sent.Outcome != channel.OutcomeUnknown {
		t.Fatalf("%+v", sent)
	}
	s.Tell(s.Sent()[0], "delivered", 0)
	send.PossibleDuplicate = true
	sent, err := h.Send(send)
	if err != nil || sent.Outcome != channel.OutcomeDuplicate || len(s.Sent()) != 1 {
		t.Errorf("%+v, %v, %d messages", sent, err, len(s.Sent()))
	}
	s.Tell(whatsapptest.Sent{ID: "wamid.9", To: ann, Key: "k2"}, "failed", 131026)
	s.WaitDone(t)
	if got, err := h.Reconcile(channel.Reconcile{Key: "k2", Conversation: withAnn}); err != nil || got.Outcome != channel.OutcomeNotSent {
		t.Errorf("a failed one: %+v, %v", got, err)
	}
}

func TestTemplates(t *testing.T) {
	for _, late := range []bool{false, true} {
		t.Run(fmt.Sprintf("told late %v", late), func(t *testing.T) {
			s := whatsapptest.Start(t, whatsapptest.Config{LateWindow: late})
			h, _ := start(t, s, "template", "flynn_answer", "template_language", "de", "confirm_ms", 10_000*btoi(late))
			s.CloseWindow(ann)
			sent, err := h.Send(channel.Send{Key: "k", Conversation: withAnn, Text: "one\n\n**two**", Markdown: true})
			if err != nil || sent.Outcome != channel.OutcomeSent {
				t.Fatalf("%+v, %v", sent, err)
			}
			m := s.Sent()[0]
			if text := fmt.Sprint(m.Body); m.Type != "template" || !strings.Contains(text, "one two") || !strings.Contains(text, "code:de") {
				t.Errorf("message %+v", m)
			}
		})
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func TestALateFailureWithoutATemplate(t *testing.T) {
	s := whatsapptest.Start(t, whatsapptest.Config{LateWindow: true})
	h, _ := start(t, s, "confirm_ms", 10_000)
	s.CloseWindow(ann)
	send := channel.Send{Key: "k", Conversation: withAnn, Text: "hello"}
	if sent, err := h.Send(send); sent.Outcome != channel.OutcomeNotSent || err == nil || !strings.Contains(err.Error(), "24 hours") {
		t.Errorf("%+v, %v", sent, err)
	}
	s.Say(ann, "Ann", "text", map[string]any{"body": "I am back"})
	h.Event()
	h.Ack()
	s.WaitDone(t)
	s.Fail() // none
	go func() { s.Tell(s.WaitSent(t, 1)[0], "sent", 0) }()
	if sent, err := h.Send(send); sent.Outcome != channel.OutcomeSent || err != nil {
		t.Errorf("the next try: %+v, %v", sent, err)
	}
}

func TestButtons(t *testing.T) {
	s := whatsapptest.Start(t, whatsapptest.Config{})
	h, _ := start(t, s)
	two := []channel.Button{{Text: "Yes", Value: "approve:1"}, {Text: "No", Value: "deny:1"}}
	sent, err := h.Send(channel.Send{Key: "k1", Conversation: withAnn, Text: "May I?", Buttons: two})
	if err != nil || s.Sent()[0].Type != "interactive" {
		t.Fatalf("%+v, %v", s.Sent(), err)
	}
	s.Press(ann, sent.MessageIDs[0], "deny:1", "No")
	if e := h.Event(); e.Kind != channel.EventButton || e.Text != "deny:1" || e.TargetID != sent.MessageIDs[0] {
		t.Errorf("press %+v", e)
	}
	h.Ack()
	for name, send := range map[string]channel.Send{
		"too many":    {Text: "Which?", Buttons: append(slices.Clone(two), channel.Button{Text: "Later", Value: "l"}, channel.Button{Text: "Never", Value: "n"})},
		"a long name": {Text: "Which?", Buttons: []channel.Button{{Text: "Yes, and do not ask me again", Value: "approve:1"}, {Text: "No", Value: "deny:1"}}},
		"a long text": {Text: strings.Repeat("words ", 300), Buttons: two},
	} {
		t.Run(name, func(t *testing.T) {
			send.Key, send.Conversation = name, withAnn
			sent, err := h.Send(send)
			list := s.Sent()
			m := list[len(list)-1]
			if err != nil || m.Type != "text" || !strings.Contains(fmt.Sprint(m.Body["body"]), "*2* No") {
				t.Fatalf("%+v, %v", m, err)
			}
			s.Say(ann, "Ann", "text", map[string]any{"body": "what does it mean?"})
			if e := h.Event(); e.Kind != channel.EventMessage {
				t.Errorf("another answer became %+v", e)
			}
			h.Ack()
			s.WaitDone(t)
			s.Say(ann, "Ann", "text", map[string]any{"body": " 2 "})
			if e := h.Event(); e.Kind != channel.EventButton || e.Text != "deny:1" || e.TargetID != sent.MessageIDs[0] {
				t.Errorf("press %+v", e)
			}
			h.Ack()
			s.WaitDone(t)
			s.Say(ann, "Ann", "text", map[string]any{"body": "2"})
			if e := h.Event(); e.Kind != channel.EventMessage {
				t.Errorf("a second press: %+v", e)
			}
			h.Ack()
			s.WaitDone(t)
		})
	}
}

func TestMedia(t *testing.T) {
	s := whatsapptest.Start(t, whatsapptest.Config{})
	h, p := start(t, s)
	body := []byte(strings.Repeat("0123456789", 50_000))
	in := s.AddMedia("", "image/jpeg", body)
	if got, err := h.Fetch(in.ID); err != nil || !bytes.Equal(got, body) {
		t.Errorf("%d bytes: %v", len(got), err)
	}
	for name, handle := range map[string]string{
		"elsewhere": s.AddMediaAt("image/png", "https://evil.test/x").ID, "look-alike": s.AddMediaAt("image/png", "https://evilfbsbx.com/x").ID,
		"not encrypted": s.AddMediaAt("image/png", "http://lookaside.fbsbx.com/x").ID, "unknown": "1", "no id": "../messages",
	} {
		if _, err := h.Fetch(handle); err == nil {
			t.Errorf("a medium %s was fetched", name)
		}
	}
	upload := func(name, kind string) channel.Attachment {
		t.Helper()
		id, err := p.Upload(t.Context(), channel.Media{Name: name, Type: kind, Size: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body))})
		if err != nil {
			t.Fatal(err)
		}
		if m, ok := s.Uploaded(id); !ok || !bytes.Equal(m.Body, body) || m.Name != name || m.Type != kind {
			t.Errorf("uploaded %s: %d bytes, %q, %q", name, len(m.Body), m.Name, m.Type)
		}
		return channel.Attachment{Handle: id, Name: name, Type: kind}
	}
	if _, err := p.Upload(t.Context(), channel.Media{Name: "x", Body: http.NoBody}); err == nil {
		t.Error("an empty medium was taken")
	}
	list := []channel.Attachment{upload("a.png", "image/png"), upload(`b "x".pdf`, "application/pdf")}
	s.Fail(whatsapptest.Fault{Code: 131056})
	send := channel.Send{Key: "k", Conversation: withAnn, Text: "see", Attachments: list}
	if sent, _ := h.Send(send); sent.Outcome != channel.OutcomeNotSent {
		t.Errorf("%+v", sent)
	}
	if sent, err := h.Send(send); sent.Outcome != channel.OutcomeSent || len(sent.MessageIDs) != 2 || err != nil {
		t.Errorf("%+v, %v", sent, err)
	}
	out := s.Sent()
	if len(out) != 2 || out[0].Type != "image" || out[0].Body["caption"] != "see" || out[1].Type != "document" || out[1].Body["filename"] != `b "x".pdf` || out[1].Key != "k#1" {
		t.Errorf("messages %+v", out)
	}
	voice := upload("c.ogg", "audio/ogg")
	h.Send(channel.Send{Key: "k2", Conversation: withAnn, Text: "listen", Attachments: []channel.Attachment{voice}})
	if out := s.Sent()[2:]; len(out) != 2 || out[0].Type != "text" || out[1].Type != "audio" {
		t.Errorf("messages %+v", out)
	}
}

func TestTheRestOfASendFollows(t *testing.T) {
	s := whatsapptest.Start(t, whatsapptest.Config{})
	h, _ := start(t, s)
	medium := s.AddMedia("", "audio/ogg", []byte("x"))
	send := channel.Send{Key: "k", Conversation: withAnn, Text: "listen", Attachments: []channel.Attachment{{Handle: medium.ID, Type: "audio/ogg"}, {Handle: "9", Type: "audio/ogg"}}}
	for range 2 {
		if sent, err := h.Send(send); sent.Outcome != channel.OutcomeNotSent || err == nil {
			t.Errorf("%+v, %v", sent, err)
		}
	}
	if out := s.Sent(); len(out) != 2 {
		t.Errorf("what was sent came again: %+v", out)
	}
}

func TestTypingAndReactions(t *testing.T) {
	s := whatsapptest.Start(t, whatsapptest.Config{})
	h, _ := start(t, s)
	if err := h.Typing(channel.Typing{Conversation: withAnn, On: true}); err != nil || len(s.Read()) != 0 {
		t.Errorf("before anything was said: %v, %q", err, s.Read())
	}
	id := s.Say(ann, "Ann", "text", map[string]any{"body": "hello"})
	h.Event()
	h.Ack()
	s.WaitDone(t)
	for _, on := range []bool{true, false} {
		if err := h.Typing(channel.Typing{Conversation: withAnn, On: on}); err != nil {
			t.Error(err)
		}
	}
	if got := s.Read(); len(got) != 1 || got[0] != id+" typing" {
		t.Errorf("read %q", got)
	}
	for _, remove := range []bool{false, true} {
		if err := h.React(channel.Reaction{Conversation: withAnn, MessageID: id, Reaction: "👍", Remove: remove}); err != nil {
			t.Error(err)
		}
	}
	if out := s.Sent(); len(out) != 2 || out[0].Body["emoji"] != "👍" || out[1].Body["emoji"] != "" || out[1].Body["message_id"] != id {
		t.Errorf("reactions %+v", out)
	}
}

func TestATokenThatIsRefused(t *testing.T) {
	s := whatsapptest.Start(t, whatsapptest.Config{})
	words := secrets()
	words["access_token"] = "EAAwrong"
	h := plugintest.Start(t, &plugin{}, plugintest.Config{
		Settings: map[string]any{"mode": "cloud", "api_url": s.URL(), "phone_number_id": whatsapptest.PhoneID}, Secrets: words, Permissions: []string{"webhook"},
	})
	if text := h.WaitStatus(channel.StateAuthRequired); strings.Contains(text, "EAAwrong") {
		t.Errorf("status %q", text)
	}
}

func TestAHostWithoutWebhooks(t *testing.T) {
	s := whatsapptest.Start(t, whatsapptest.Config{})
	h := plugintest.Start(t, &plugin{}, plugintest.Config{
		Settings: map[string]any{"mode": "cloud", "api_url": s.URL(), "phone_number_id": whatsapptest.PhoneID, "confirm_ms": 0}, Secrets: secrets(),
	})
	if text := h.WaitStatus(channel.StateDegraded); !strings.Contains(text, "permissions.host") {
		t.Errorf("status %q", text)
	}
	if sent, err := h.Send(channel.Send{Key: "k", Conversation: withAnn, Text: "still"}); sent.Outcome != channel.OutcomeSent || err != nil {
		t.Errorf("%+v, %v", sent, err)
	}
}

func FuzzHook(f *testing.F) {
	f.Add([]byte(`{"object":"whatsapp_business_account","entry":[{"changes":[{"field":"messages","value":{"metadata":{"phone_number_id":"1"},"contacts":[{"wa_id":"2"}],"messages":[{"from":"2","id":"w","type":"image","image":{"id":"3"}}]}}]}]}`))
	f.Add([]byte(`{"object":"whatsapp_business_account","entry":[{"changes":[{"field":"messages","value":{"metadata":{"phone_number_id":"1"},"statuses":[{"id":"w","status":"failed","errors":[{"code":1}]}]}}]}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		n, err := readHook(body)
		if err != nil {
			return
		}
		n.statuses("1")
		for _, e := range n.events("1") {
			if e.ID == "" || e.Conversation.ID == "" || e.Text == "" && len(e.Attachments) == 0 {
				t.Errorf("event %+v", e)
			}
		}
	})
}
