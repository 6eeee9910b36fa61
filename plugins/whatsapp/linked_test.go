package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mau.fi/whatsmeow"
	"go.mau.fi/whatsmeow/proto/waAdv"
	"go.mau.fi/whatsmeow/proto/waCommon"
	"go.mau.fi/whatsmeow/proto/waE2E"
	"go.mau.fi/whatsmeow/types"
	"go.mau.fi/whatsmeow/types/events"
	"google.golang.org/protobuf/proto"

	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/plugintest"
)

var (
	ownNumber = types.NewJID("4930111", types.DefaultUserServer)
	ownHidden = types.NewJID("900", types.HiddenUserServer)
	annNumber = types.NewJID(ann, types.DefaultUserServer)
	annHidden = types.NewJID("901", types.HiddenUserServer)
	family    = types.NewJID("120363-1", types.GroupServer)
)

// fakeAccount stands for the library.
type fakeAccount struct {
	mu      sync.Mutex
	linked  bool
	handler func(any) bool
	opened  int
	closed  int
	fail    []error // of the next sends
	sent    []sentMessage
	seen    []string
	media   map[string][]byte // by path
	changed chan struct{}
}

type sentMessage struct {
	to types.JID
	id string
	m  *waE2E.Message
}

func newFakeAccount(linked bool) *fakeAccount {
	return &fakeAccount{linked: linked, media: map[string][]byte{}, changed: make(chan struct{})}
}

func (a *fakeAccount) lock() func() {
	a.mu.Lock()
	return func() {
		close(a.changed)
		a.changed = make(chan struct{})
		a.mu.Unlock()
	}
}

func (a *fakeAccount) Own() (number, hidden types.JID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.linked {
		return number, hidden
	}
	return ownNumber, ownHidden
}

func (a *fakeAccount) Handle(f func(any) bool) {
	defer a.lock()()
	a.handler = f
}

func (a *fakeAccount) Connect(context.Context) error {
	defer a.lock()()
	a.opened++
	return nil
}

func (a *fakeAccount) Send(_ context.Context, to types.JID, m *waE2E.Message, id string) error {
	defer a.lock()()
	if len(a.fail) > 0 {
		err := a.fail[0]
		a.fail = a.fail[1:]
		if err != nil {
			return err
		}
	}
	a.sent = append(a.sent, sentMessage{to, id, m})
	return nil
}

func (a *fakeAccount) Upload(_ context.Context, f *os.File, _ whatsmeow.MediaType) (whatsmeow.UploadResponse, error) {
	defer a.lock()()
	body, err := io.ReadAll(f)
	a.media["/v/t1"] = body
	return whatsmeow.UploadResponse{
		URL: "https://mmg.whatsapp.net/v/t1", DirectPath: "/v/t1", MediaKey: make([]byte, 32), FileEncSHA256: make([]byte, 32), FileSHA256: make([]byte, 32), FileLength: uint64(len(body)),
	}, err
}

func (a *fakeAccount) Download(_ context.Context, m whatsmeow.DownloadableMessage, to *os.File) error {
	defer a.lock()()
	body, ok := a.media[m.GetDirectPath()]
	if !ok {
		return errors.New("gone")
	}
	_, err := to.Write(body)
	return err
}

func (a *fakeAccount) Seen(_ context.Context, m ref, typing bool) error {
	defer a.lock()()
	a.seen = append(a.seen, m.id+map[bool]string{true: " typing", false: ""}[typing])
	return nil
}

func (a *fakeAccount) Close() {
	defer a.lock()()
	a.closed++
	a.handler = nil
}

// await waits until ok.
func (a *fakeAccount) await(t *testing.T, ok func() bool) {
	t.Helper()
	timeout := time.After(10 * time.Second)
	for {
		a.mu.Lock()
		done, changed := ok(), a.changed
		a.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			t.Fatal("it does not happen")
		}
	}
}

// tell gives the plugin an event, as the library does.
func (a *fakeAccount) tell(event any) bool {
	a.mu.Lock()
	f := a.handler
	a.mu.Unlock()
	return f(event)
}

// onFake is the plugin with a fake account.
type onFake struct {
	plugin
	account *fakeAccount
}

// Configure implements channel.Channel.
func (p *onFake) Configure(ctx context.Context, c channel.Config) error {
	if err := p.plugin.Configure(ctx, c); err != nil {
		return err
	}
	p.line.(*linked).open = func(context.Context) (account, error) { return p.account, nil }
	return nil
}

func startLinked(t *testing.T, more map[string]any) (*plugintest.Host, *fakeAccount, *onFake) {
	t.Helper()
	a := newFakeAccount(true)
	p := &onFake{account: a}
	settings := map[string]any{"mode": "linked"}
	for k, v := range more {
		settings[k] = v
	}
	h := plugintest.Start(t, p, plugintest.Config{Settings: settings})
	a.await(t, func() bool { return a.opened == 1 })
	a.tell(&events.Connected{})
	if text := h.WaitStatus(channel.StateReady); !strings.Contains(text, ownNumber.User) {
		t.Errorf("status %q", text)
	}
	return h, a, p
}

// from is a message of somebody.
func from(chat, sender, alt types.JID, id string, m *waE2E.Message) *events.Message {
	return &events.Message{Message: m, Info: types.MessageInfo{
		MessageSource: types.MessageSource{Chat: chat, Sender: sender, SenderAlt: alt, IsGroup: chat.Server == types.GroupServer},
		ID:            id, PushName: "Ann", Timestamp: time.Unix(1_700_000_000, 0),
	}}
}

func saying(text string) *waE2E.Message { return &waE2E.Message{Conversation: proto.String(text)} }

func TestWhatALinkedDeviceHears(t *testing.T) {
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

func TestWhatsAppIsAckedWhenTheHostHasTheMessage(t *testing.T) {
	h, a, _ := startLinked(t, nil)
	answer := make(chan bool, 1)
	var done sync.WaitGroup
	done.Go(func() { answer <- a.tell(from(annNumber, annNumber, types.JID{}, "A1", saying("hello"))) })
	h.Event()
	select {
	case <-answer:
		t.Fatal("acked before the host had it")
	default:
	}
	h.Ack()
	if !<-answer {
		t.Error("not acked though the host has it")
	}
	done.Go(func() { answer <- a.tell(from(annNumber, annNumber, types.JID{}, "A2", saying("again"))) })
	h.Event() // and never acked
	if err := h.Shutdown(); err != nil {
		t.Fatal(err)
	}
	if <-answer {
		t.Error("acked though the host never had it")
	}
	done.Wait()
}

func TestLinkedSend(t *testing.T) {
	h, a, _ := startLinked(t, nil)
	send := channel.Send{Key: "k1", Conversation: withAnn, Text: "**bold**", Markdown: true, ReplyTo: ann + "/A1/" + ann}
	a.fail = []error{whatsmeow.ErrMessageTimedOut}
	if sent, err := h.Send(send); sent.Outcome != channel.OutcomeUnknown || err == nil {
		t.Errorf("no answer: %+v, %v", sent, err)
	}
	send.PossibleDuplicate = true
	sent, err := h.Send(send)
	if err != nil || sent.Outcome != channel.OutcomeSent {
		t.Fatalf("%+v, %v", sent, err)
	}
	m := a.sent[0]
	if m.to != annNumber || m.id != idOf("k1") || m.m.GetExtendedTextMessage().GetText() != "*bold*" || m.m.GetExtendedTextMessage().GetContextInfo() != nil {
		t.Errorf("message %+v", m)
	}
	if sent.MessageIDs[0] != ann+"/"+m.id+"/4930111" {
		t.Errorf("ids %q", sent.MessageIDs)
	}
	group := channel.Conversation{ID: "120363-1@g.us"}
	h.Send(channel.Send{Key: "k2", Conversation: group, Text: "yes", ReplyTo: "120363-1@g.us/A1/" + ann})
	if c := a.sent[1].m.GetExtendedTextMessage().GetContextInfo(); a.sent[1].to != family || c.GetStanzaID() != "A1" || c.GetParticipant() != annNumber.String() {
		t.Errorf("answer in a group %+v", a.sent[1])
	}
	for _, c := range []struct {
		err   error
		to    string
		want  channel.Outcome
		after time.Duration
	}{
		{whatsmeow.ErrNotConnected, ann, channel.OutcomeNotSent, soon},
		{errors.Join(whatsmeow.ErrServerReturnedError), ann, channel.OutcomeNotSent, later},
		{errors.New("broken pipe"), ann, channel.OutcomeUnknown, 0},
		{nil, "somebody", channel.OutcomeRefused, 0},
		{nil, "1@example.com", channel.OutcomeRefused, 0},
	} {
		a.fail = []error{c.err}
		if sent, _ := h.Send(channel.Send{Key: "k3", Conversation: channel.Conversation{ID: c.to}, Text: "x"}); sent.Outcome != c.want || sent.RetryAfter != c.after {
			t.Errorf("%v to %s: %+v", c.err, c.to, sent)
		}
	}
	a.fail = nil
	a.tell(&events.Disconnected{})
	if sent, _ := h.Send(channel.Send{Key: "k4", Conversation: withAnn, Text: "x"}); sent.Outcome != channel.OutcomeNotSent {
		t.Errorf("without a connection: %+v", sent)
	}
}

func TestAReceiptSettlesASend(t *testing.T) {
	h, a, _ := startLinked(t, nil)
	a.tell(&events.Receipt{MessageIDs: []string{idOf("k1")}, Type: types.ReceiptTypeDelivered})
	got, err := h.Reconcile(channel.Reconcile{Key: "k1", Conversation: withAnn, Text: "x"})
	if err != nil || got.Outcome != channel.OutcomeSent || len(got.MessageIDs) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	a.tell(&events.Receipt{MessageIDs: []string{idOf("k2")}, Type: types.ReceiptTypeRetry})
	if got, _ := h.Reconcile(channel.Reconcile{Key: "k2", Conversation: withAnn, Text: "x"}); got.Outcome != channel.OutcomeUnknown {
		t.Errorf("a phone that could not read it: %+v", got)
	}
}

func TestLinkedMedia(t *testing.T) {
	h, a, p := startLinked(t, nil)
	body := []byte(strings.Repeat("0123456789", 50_000))
	handle, err := p.Upload(t.Context(), channel.Media{Name: "a.pdf", Type: "application/pdf", Size: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body))})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := h.Fetch(handle); err != nil || !bytes.Equal(got, body) {
		t.Errorf("%d bytes: %v", len(got), err)
	}
	sent, err := h.Send(channel.Send{Key: "k", Conversation: withAnn, Text: "see", Attachments: []channel.Attachment{{Handle: handle, Name: "a.pdf", Type: "application/pdf"}}})
	if d := a.sent[0].m.GetDocumentMessage(); err != nil || len(sent.MessageIDs) != 1 || d.GetFileName() != "a.pdf" || d.GetCaption() != "see" || d.GetFileLength() != uint64(len(body)) {
		t.Errorf("%+v, %v: %+v", sent, err, d)
	}
	var answered sync.WaitGroup
	answered.Go(func() { a.tell(from(annNumber, annNumber, types.JID{}, "A1", a.sent[0].m)) })
	e := h.Event()
	if e.Text != "see" || len(e.Attachments) != 1 || e.Attachments[0].Name != "a.pdf" || e.Attachments[0].Size != int64(len(body)) {
		t.Errorf("event %+v", e)
	}
	h.Ack()
	answered.Wait()
	if got, err := h.Fetch(e.Attachments[0].Handle); err != nil || !bytes.Equal(got, body) {
		t.Errorf("%d bytes of what came: %v", len(got), err)
	}
	if left, _ := filepath.Glob(filepath.Join(p.line.(*linked).dir, "medium-*")); len(left) != 0 {
		t.Errorf("left behind: %q", left)
	}
	if _, err := p.Upload(t.Context(), channel.Media{Name: "x", Body: io.NopCloser(strings.NewReader(""))}); err == nil {
		t.Error("an empty medium was taken")
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

func TestChoicesOfALinkedDevice(t *testing.T) {
	h, a, _ := startLinked(t, nil)
	sent, _ := h.Send(channel.Send{Key: "k", Conversation: withAnn, Text: "May I?", Buttons: []channel.Button{{Text: "Yes", Value: "approve:1"}, {Text: "No", Value: "deny:1"}}})
	if text := a.sent[0].m.GetExtendedTextMessage().GetText(); !strings.Contains(text, "*2* No") {
		t.Errorf("text %q", text)
	}
	var answered sync.WaitGroup
	answered.Go(func() { a.tell(from(annNumber, annNumber, types.JID{}, "A1", saying("no"))) })
	if e := h.Event(); e.Kind != channel.EventButton || e.Text != "deny:1" || e.TargetID != sent.MessageIDs[0] {
		t.Errorf("press %+v", e)
	}
	h.Ack()
	answered.Wait()
	if err := h.Typing(channel.Typing{Conversation: withAnn, On: true}); err != nil || !slices.Equal(a.seen, []string{"A1 typing"}) {
		t.Errorf("seen %q, %v", a.seen, err)
	}
	if err := h.React(channel.Reaction{Conversation: withAnn, MessageID: ann + "/A1/" + ann, Reaction: "👍"}); err != nil {
		t.Fatal(err)
	}
	r := a.sent[1].m.GetReactionMessage()
	if r.GetText() != "👍" || r.GetKey().GetID() != "A1" || r.GetKey().GetFromMe() || r.GetKey().GetRemoteJID() != annNumber.String() {
		t.Errorf("reaction %+v", r)
	}
}

// screen is an Inbox that shows states and codes.
type screen struct {
	channel.Inbox
	shown chan string
}

func (s screen) Status(state channel.State, text string) {
	s.shown <- map[channel.State]string{1: "connecting", 2: "ready", 3: "degraded", 4: "auth"}[state] + ": " + text
}

func (s screen) LoginCode(code, _ string) { s.shown <- "code: " + code }

func TestLinking(t *testing.T) {
	a := newFakeAccount(false)
	l := newLinked(settings{Mode: "linked"}, channel.Config{Log: slog.New(slog.DiscardHandler), StateDir: t.TempDir()})
	l.open = func(context.Context) (account, error) { return a, nil }
	s := screen{shown: make(chan string, 32)}
	ctx, stop := context.WithCancel(t.Context())
	var run sync.WaitGroup
	run.Go(func() { _ = l.Run(ctx, s) })
	expect := func(prefix string) {
		t.Helper()
		for {
			select {
			case got := <-s.shown:
				if strings.HasPrefix(got, prefix) {
					return
				}
			case <-time.After(10 * time.Second):
				t.Fatalf("%q was not shown", prefix)
			}
		}
	}
	a.await(t, func() bool { return a.opened == 1 && a.handler != nil })
	a.tell(&events.QR{Codes: []string{"one", "two"}})
	expect("code: one")
	a.tell(&events.Disconnected{}) // nobody scanned
	expect("auth: nobody has scanned")
	a.await(t, func() bool { return a.opened == 2 && a.handler != nil })
	a.tell(&events.QR{Codes: []string{"three"}})
	expect("code: three")
	unlock := a.lock()
	a.linked = true
	unlock()
	a.tell(&events.PairSuccess{ID: ownNumber})
	expect("connecting: linked")
	a.tell(&events.Connected{})
	expect("ready: linked to 4930111")
	a.tell(&events.Disconnected{}) // the library reconnects
	expect("connecting: reconnecting")
	a.tell(&events.Connected{})
	expect("ready")
	a.tell(&events.LoggedOut{})
	expect("auth: the phone has removed")
	a.await(t, func() bool { return a.opened == 3 && a.handler != nil })
	a.tell(&events.ClientOutdated{})
	expect("degraded: WhatsApp no longer takes this version")
	stop()
	run.Wait()
	if a.closed != a.opened {
		t.Errorf("opened %d times, closed %d times", a.opened, a.closed)
	}
}

func TestASessionOutlivesTheProcess(t *testing.T) {
	dir, log := t.TempDir(), slog.New(slog.DiscardHandler)
	a, err := openDevice(t.Context(), dir, "Flynn", log)
	if err != nil {
		t.Fatal(err)
	}
	if number, _ := a.Own(); !number.IsEmpty() {
		t.Errorf("a new device belongs to %s", number)
	}
	d := a.(*device)
	id := types.NewADJID(ownNumber.User, 0, 7)
	d.client.Store.ID, d.client.Store.LID = &id, types.NewADJID(ownHidden.User, types.LIDDomain, 7)
	d.client.Store.Account = &waAdv.ADVSignedDeviceIdentity{
		Details: []byte("x"), AccountSignature: make([]byte, 64), AccountSignatureKey: make([]byte, 32), DeviceSignature: make([]byte, 64),
	}
	if err := d.client.Store.Save(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.Close()
	again, err := openDevice(t.Context(), dir, "Flynn", log)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if number, _ := again.Own(); number != ownNumber {
		t.Errorf("the session belongs to %s, want %s", number, ownNumber)
	}
	info, err := os.Stat(filepath.Join(dir, sessionFile))
	if err != nil || info.Mode().Perm() != 0o600 || info.Size() == 0 {
		t.Errorf("session file: %+v, %v", info, err)
	}
	if err := again.Send(t.Context(), annNumber, saying("x"), "ID"); !errors.Is(err, whatsmeow.ErrNotConnected) {
		t.Errorf("send without a connection: %v", err)
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
