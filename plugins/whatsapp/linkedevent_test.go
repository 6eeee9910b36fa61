package main

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.mau.fi/whatsmeow"
	"go.mau.fi/whatsmeow/proto/waCommon"
	"go.mau.fi/whatsmeow/proto/waE2E"
	"go.mau.fi/whatsmeow/types"
	"go.mau.fi/whatsmeow/types/events"
	"google.golang.org/protobuf/proto"

	"github.com/flynnhost/flynn/plugins/whatsapp/whatsapptest/linkedtest"
	"github.com/flynnhost/flynn/sdk/channel"
)

var (
	ownNumber = types.NewJID(linkedtest.Number, types.DefaultUserServer)
	ownHidden = types.NewJID(linkedtest.Hidden, types.HiddenUserServer)
	annNumber = types.NewJID(ann, types.DefaultUserServer)
	annHidden = types.NewJID("901", types.HiddenUserServer)
	family    = types.NewJID("120363-1", types.GroupServer)
)

func saying(text string) *waE2E.Message { return &waE2E.Message{Conversation: proto.String(text)} }

// from is a message of somebody.
func from(chat, sender, alt types.JID, id string, m *waE2E.Message) *events.Message {
	return &events.Message{Message: m, Info: types.MessageInfo{
		MessageSource: types.MessageSource{Chat: chat, Sender: sender, SenderAlt: alt, IsGroup: chat.Server == types.GroupServer},
		ID:            id, PushName: "Ann", Timestamp: time.Unix(1_700_000_000, 0),
	}}
}

func TestEventsOfALinkedDevice(t *testing.T) {
	key := func(id, participant string, own bool) *waCommon.MessageKey {
		k := &waCommon.MessageKey{ID: proto.String(id), FromMe: proto.Bool(own)}
		if participant != "" {
			k.Participant = proto.String(participant)
		}
		return k
	}
	inGroup := func(text string, c *waE2E.ContextInfo) *waE2E.Message {
		return &waE2E.Message{ExtendedTextMessage: &waE2E.ExtendedTextMessage{Text: &text, ContextInfo: c}}
	}
	for _, c := range []struct {
		name string
		m    *events.Message
		want channel.Event
	}{
		{"private", from(annNumber, annNumber, types.JID{}, "A1", saying("hello")),
			channel.Event{ID: ann + "/A1/" + ann, Conversation: withAnn, Text: "hello", Addressed: true}},
		{"private, by hidden id with the number beside it", from(annHidden, annHidden, annNumber, "A1", saying("hello")),
			channel.Event{ID: ann + "/A1/" + ann, Conversation: withAnn, Text: "hello", Addressed: true}},
		{"private, by hidden id alone", from(annHidden, annHidden, types.JID{}, "A1", saying("hello")),
			channel.Event{ID: "901@lid/A1/901@lid", Conversation: channel.Conversation{ID: "901@lid", Kind: channel.DM}, Text: "hello", Addressed: true}},
		{"in a group", from(family, annHidden, annNumber, "A1", saying("hello all")),
			channel.Event{ID: "120363-1@g.us/A1/" + ann, Conversation: channel.Conversation{ID: "120363-1@g.us"}, Text: "hello all"}},
		{"a mention by hidden id", from(family, annNumber, types.JID{}, "A1", inGroup("@900 what is up?", &waE2E.ContextInfo{MentionedJID: []string{"900@lid"}})),
			channel.Event{ID: "120363-1@g.us/A1/" + ann, Conversation: channel.Conversation{ID: "120363-1@g.us"}, Text: "what is up?", Addressed: true, Mentioned: true}},
		{"a mention of somebody else", from(family, annNumber, types.JID{}, "A1", inGroup("@7 what is up?", &waE2E.ContextInfo{MentionedJID: []string{"7@s.whatsapp.net"}})),
			channel.Event{ID: "120363-1@g.us/A1/" + ann, Conversation: channel.Conversation{ID: "120363-1@g.us"}, Text: "@7 what is up?"}},
		{"an answer to Flynn", from(family, annNumber, types.JID{}, "A2", inGroup("why?", &waE2E.ContextInfo{StanzaID: proto.String("F1"), Participant: proto.String(ownNumber.String())})),
			channel.Event{ID: "120363-1@g.us/A2/" + ann, Conversation: channel.Conversation{ID: "120363-1@g.us"}, Text: "why?", Addressed: true, ReplyTo: "120363-1@g.us/F1/4930111"}},
		{"a reaction to Flynn", from(annNumber, annNumber, types.JID{}, "A3", &waE2E.Message{ReactionMessage: &waE2E.ReactionMessage{Key: key("F1", "", false), Text: proto.String("👍")}}),
			channel.Event{ID: ann + "/A3/" + ann, Kind: channel.EventReaction, Conversation: withAnn, Text: "👍", TargetID: ann + "/F1/4930111"}},
		{"an edit", from(annNumber, annNumber, types.JID{}, "A4", &waE2E.Message{ProtocolMessage: &waE2E.ProtocolMessage{
			Type: waE2E.ProtocolMessage_MESSAGE_EDIT.Enum(), Key: key("A1", "", true), EditedMessage: saying("better")}}),
			channel.Event{ID: ann + "/A4/" + ann, Kind: channel.EventEdit, Conversation: withAnn, Text: "better", TargetID: ann + "/A1/" + ann, Addressed: true}},
		{"a deletion", from(annNumber, annNumber, types.JID{}, "A5", &waE2E.Message{ProtocolMessage: &waE2E.ProtocolMessage{
			Type: waE2E.ProtocolMessage_REVOKE.Enum(), Key: key("A1", "", true)}}),
			channel.Event{ID: ann + "/A5/" + ann, Kind: channel.EventDelete, Conversation: withAnn, TargetID: ann + "/A1/" + ann}},
		{"a place", from(annNumber, annNumber, types.JID{}, "A6", &waE2E.Message{LocationMessage: &waE2E.LocationMessage{DegreesLatitude: proto.Float64(52.5), DegreesLongitude: proto.Float64(13.4)}}),
			channel.Event{ID: ann + "/A6/" + ann, Conversation: withAnn, Text: "Location: 52.500000, 13.400000", Addressed: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, r, ok := eventOf(c.m, ownNumber, ownHidden, true)
			if !ok || e.Sender.Name != "Ann" || e.SentAt.Unix() != 1_700_000_000 || e.Sender.ID != nameOf(r.sender) {
				t.Fatalf("%v %+v", ok, e)
			}
			e.Sender, e.SentAt = channel.Sender{}, time.Time{}
			if e.ID != c.want.ID || e.Kind != c.want.Kind || e.Conversation != c.want.Conversation || e.Text != c.want.Text || e.Addressed != c.want.Addressed ||
				e.Mentioned != c.want.Mentioned || e.ReplyTo != c.want.ReplyTo || e.TargetID != c.want.TargetID {
				t.Errorf("event\n%+v\nwant\n%+v", e, c.want)
			}
			if back, ok := parseRef(e.ID); !ok || back.chat != r.chat || back.sender != r.sender || back.id != r.id {
				t.Errorf("%q is read as %+v", e.ID, back)
			}
		})
	}
}

func TestWhatIsNoEvent(t *testing.T) {
	own := from(annNumber, ownNumber, types.JID{}, "A1", saying("own"))
	own.Info.IsFromMe = true
	for name, m := range map[string]*events.Message{
		"own":           own,
		"broadcast":     from(types.NewJID("status", types.BroadcastServer), annNumber, types.JID{}, "A1", saying("x")),
		"newsletter":    from(types.NewJID("1", types.NewsletterServer), annNumber, types.JID{}, "A1", saying("x")),
		"a group":       from(family, annNumber, types.JID{}, "A1", saying("x")),
		"empty":         from(annNumber, annNumber, types.JID{}, "A1", &waE2E.Message{}),
		"nothing":       from(annNumber, annNumber, types.JID{}, "A1", nil),
		"a hostile id":  from(annNumber, annNumber, types.JID{}, "A1/4930111", saying("x")),
		"a long id":     from(annNumber, annNumber, types.JID{}, strings.Repeat("A", 101), saying("x")),
		"housekeeping":  from(annNumber, annNumber, types.JID{}, "A1", &waE2E.Message{ProtocolMessage: &waE2E.ProtocolMessage{Type: waE2E.ProtocolMessage_EPHEMERAL_SETTING.Enum()}}),
		"taken back":    from(annNumber, annNumber, types.JID{}, "A1", &waE2E.Message{ReactionMessage: &waE2E.ReactionMessage{Key: &waCommon.MessageKey{ID: proto.String("F1")}, Text: proto.String("")}}),
		"bot of a user": from(annNumber, types.NewJID("a/b", types.DefaultUserServer), types.JID{}, "A1", saying("x")),
	} {
		if e, _, ok := eventOf(m, ownNumber, ownHidden, false); ok {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

func TestHandlesOfOthers(t *testing.T) {
	good := whatsmeow.UploadResponse{DirectPath: "/v/t1?x=1", MediaKey: make([]byte, 32), FileEncSHA256: make([]byte, 32), FileSHA256: make([]byte, 32)}
	if _, err := handleOf(medium("image", "image/jpeg", "", good)); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(u *whatsmeow.UploadResponse){
		"elsewhere":           func(u *whatsmeow.UploadResponse) { u.URL = "https://evil.test/" },
		"no path":             func(u *whatsmeow.UploadResponse) { u.DirectPath = "" },
		"a host for a path":   func(u *whatsmeow.UploadResponse) { u.DirectPath = ".evil.test/" },
		"a user for a host":   func(u *whatsmeow.UploadResponse) { u.DirectPath = "/@evil.test/" },
		"a short key":         func(u *whatsmeow.UploadResponse) { u.MediaKey = u.MediaKey[:31] },
		"no hash":             func(u *whatsmeow.UploadResponse) { u.FileSHA256 = nil },
		"a path without end":  func(u *whatsmeow.UploadResponse) { u.DirectPath = "/" + strings.Repeat("x", 2000) },
		"an unencrypted host": func(u *whatsmeow.UploadResponse) { u.URL = "http://mmg.whatsapp.net/x" },
	} {
		u := good
		change(&u)
		if handle, err := handleOf(medium("image", "image/jpeg", "", u)); err == nil {
			t.Errorf("%s: %s", name, handle)
		}
	}
}

func TestTheLibrarySaysLittle(t *testing.T) {
	var out bytes.Buffer
	q := quiet{slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))}.Sub("x")
	q.Debugf("code %s", "secret")
	q.Infof("code %s", "secret")
	q.Warnf("odd %d", 1)
	if strings.Contains(out.String(), "secret") || !strings.Contains(out.String(), "odd 1") {
		t.Errorf("log %q", out.String())
	}
}

func FuzzRef(f *testing.F) {
	f.Add("4915/A1/4915")
	f.Add("1-2@g.us/A1/9@lid")
	f.Add("@g.us//")
	f.Fuzz(func(t *testing.T, s string) {
		r, ok := parseRef(s)
		if ok && r.String() != s {
			t.Errorf("%q comes back as %q", s, r.String())
		}
	})
}

func FuzzHandle(f *testing.F) {
	good, _ := handleOf(medium("document", "text/plain", "a", whatsmeow.UploadResponse{DirectPath: "/x", MediaKey: make([]byte, 32), FileEncSHA256: make([]byte, 32), FileSHA256: make([]byte, 32)}))
	f.Add(good)
	f.Add("")
	f.Fuzz(func(t *testing.T, s string) {
		m, err := parseHandle(s)
		if err != nil {
			return
		}
		if k, _, _ := mediumOf(m); k == nil || !strings.HasPrefix(k.GetDirectPath(), "/") {
			t.Errorf("%q is taken", s)
		}
	})
}

func TestWhatAnErrorMeansForASend(t *testing.T) {
	for _, c := range []struct {
		err   error
		want  channel.Outcome
		after time.Duration
	}{
		{whatsmeow.ErrNotConnected, channel.OutcomeNotSent, soon},
		{whatsmeow.ErrNotLoggedIn, channel.OutcomeNotSent, soon},
		{fmt.Errorf("%w 479", whatsmeow.ErrServerReturnedError), channel.OutcomeNotSent, later},
		{whatsmeow.ErrMessageTimedOut, channel.OutcomeUnknown, 0},
		{errors.New("broken pipe"), channel.OutcomeUnknown, 0},
	} {
		if sent, err := outcomeOf(c.err); sent.Outcome != c.want || sent.RetryAfter != c.after || err == nil {
			t.Errorf("%v: %+v, %v", c.err, sent, err)
		}
	}
}
