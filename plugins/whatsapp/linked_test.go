package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mau.fi/whatsmeow/proto/waCommon"
	"go.mau.fi/whatsmeow/proto/waE2E"
	"go.mau.fi/whatsmeow/types"
	"google.golang.org/protobuf/proto"

	"github.com/flynnhost/flynn/plugins/whatsapp/whatsapptest/linkedtest"
	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/plugintest"
)

// reaching makes the devices of l find the fake in place of WhatsApp.
func reaching(l *linked, s *linkedtest.Server) *linked {
	open := l.open
	l.open = func(ctx context.Context) (*device, error) {
		d, err := open(ctx)
		if err == nil {
			d.client.SetPreLoginHTTPClient(s.HTTPClient())
			d.client.SetWebsocketHTTPClient(s.HTTPClient())
			d.client.SetMediaHTTPClient(s.HTTPClient())
		}
		return d, err
	}
	return l
}

// onServer is the plugin with the fake for WhatsApp, whose phone scans every code at once.
type onServer struct {
	plugin
	server *linkedtest.Server
}

// Configure implements channel.Channel.
func (p *onServer) Configure(ctx context.Context, c channel.Config) error {
	if err := p.plugin.Configure(ctx, c); err != nil {
		return err
	}
	reaching(p.line.(*linked), p.server)
	return nil
}

// Run implements channel.Channel.
func (p *onServer) Run(ctx context.Context, in channel.Inbox) error {
	return p.plugin.Run(ctx, scanner{in, p.server})
}

// scanner is an Inbox whose codes are scanned.
type scanner struct {
	channel.Inbox
	server *linkedtest.Server
}

func (s scanner) LoginCode(code, _ string) {
	if err := s.server.Scan(code); err != nil {
		s.Status(channel.StateAuthRequired, err.Error())
	}
}

// world is a fake with Ann, and a host with the plugin linked to it.
type world struct {
	*linkedtest.Server
	*plugintest.Host
	plugin *onServer
	ann    *linkedtest.Person
	dir    string // the plugin's state
}

func startLinked(t *testing.T) *world {
	t.Helper()
	w := &world{Server: linkedtest.Start(t), dir: t.TempDir()}
	w.ann = w.Person(ann, "901", "Ann")
	w.start(t)
	return w
}

// start starts the plugin, once more if need be.
func (w *world) start(t *testing.T) {
	t.Helper()
	w.plugin = &onServer{server: w.Server}
	w.Host = plugintest.Start(t, w.plugin, plugintest.Config{Settings: map[string]any{"mode": "linked"}, StateDir: w.dir, Timeout: time.Minute})
	if text := w.WaitStatus(channel.StateReady); !strings.Contains(text, linkedtest.Number) {
		t.Errorf("status %q", text)
	}
	w.Await("the login", w.Online)
}

// drop cuts the connection and waits for the next one.
func (w *world) drop() {
	before := w.Logins()
	w.Drop()
	w.Await("the next login", func() bool { return w.Logins() > before && w.Online() })
}

// has reports whether the linked device has confirmed a message of Ann.
func (w *world) has(id string) bool {
	return slices.Contains(w.ann.Receipts(), linkedtest.Receipt{ID: id, Type: "inactive"})
}

func TestWhatALinkedDeviceHears(t *testing.T) {
	w := startLinked(t)
	bob := w.Person("4915100000002", "902", "Bob")
	bob.WriteByHidden(false)
	eve := w.Person("4915100000003", "903", "Eve")
	eve.WriteByHidden(true)
	group := w.Group("120363-1", w.ann, bob)
	nobody := types.JID{}
	inGroup := func(text string, c *waE2E.ContextInfo) *waE2E.Message {
		return &waE2E.Message{ExtendedTextMessage: &waE2E.ExtendedTextMessage{Text: &text, ContextInfo: c}}
	}
	key := func(id string, own bool) *waCommon.MessageKey { return &waCommon.MessageKey{ID: &id, FromMe: &own} }
	for _, c := range []struct {
		name string
		from *linkedtest.Person
		to   types.JID
		m    *waE2E.Message
		want channel.Event // without the part of ids that the message's id makes
	}{
		{"the first message", w.ann, nobody, saying("hello"), channel.Event{Conversation: withAnn, Text: "hello", Addressed: true}},
		{"the next one", w.ann, nobody, saying("and hello"), channel.Event{Conversation: withAnn, Text: "and hello", Addressed: true}},
		{"by hidden id with the number beside it", bob, nobody, saying("hello"),
			channel.Event{Conversation: channel.Conversation{ID: bob.Number.User, Kind: channel.DM}, Text: "hello", Addressed: true}},
		{"by hidden id alone", eve, nobody, saying("hello"),
			channel.Event{Conversation: channel.Conversation{ID: "903@lid", Kind: channel.DM}, Text: "hello", Addressed: true}},
		{"in a group", w.ann, group, saying("hello all"), channel.Event{Conversation: channel.Conversation{ID: "120363-1@g.us"}, Text: "hello all"}},
		{"a mention", bob, group, inGroup("@900 what is up?", &waE2E.ContextInfo{MentionedJID: []string{"900@lid"}}),
			channel.Event{Conversation: channel.Conversation{ID: "120363-1@g.us"}, Text: "what is up?", Addressed: true, Mentioned: true}},
		{"an answer to Flynn", w.ann, group, inGroup("why?", &waE2E.ContextInfo{StanzaID: proto.String("F1"), Participant: proto.String("900@lid")}),
			channel.Event{Conversation: channel.Conversation{ID: "120363-1@g.us"}, Text: "why?", Addressed: true, ReplyTo: "120363-1@g.us/F1/4930111"}},
		{"a reaction to Flynn", w.ann, nobody, &waE2E.Message{ReactionMessage: &waE2E.ReactionMessage{Key: key("F1", false), Text: proto.String("👍")}},
			channel.Event{Kind: channel.EventReaction, Conversation: withAnn, Text: "👍", TargetID: ann + "/F1/4930111"}},
		{"an edit", w.ann, nobody, linkedtest.Edited("A1", "better"),
			channel.Event{Kind: channel.EventEdit, Conversation: withAnn, Text: "better", TargetID: ann + "/A1/" + ann, Addressed: true}},
		{"a deletion", w.ann, nobody, &waE2E.Message{ProtocolMessage: &waE2E.ProtocolMessage{Type: waE2E.ProtocolMessage_REVOKE.Enum(), Key: key("A1", true)}},
			channel.Event{Kind: channel.EventDelete, Conversation: withAnn, TargetID: ann + "/A1/" + ann}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.Phone().Send(c.from.Number, saying("what the owner writes himself")) // comes first, and is no event
			id := c.from.Send(c.to, c.m)
			e := w.Event()
			w.Ack()
			sender := nameOf(c.from.Number)
			if c.from == eve {
				sender = nameOf(eve.Hidden)
			}
			if e.ID != c.want.Conversation.ID+"/"+id+"/"+sender || e.Sender.ID != sender || e.Sender.Name != c.from.Name || time.Since(e.SentAt) > time.Minute {
				t.Errorf("event %q of %+v, %s", e.ID, e.Sender, e.SentAt)
			}
			if e.Kind != c.want.Kind || e.Conversation != c.want.Conversation || e.Text != c.want.Text || e.Addressed != c.want.Addressed ||
				e.Mentioned != c.want.Mentioned || e.ReplyTo != c.want.ReplyTo || e.TargetID != c.want.TargetID {
				t.Errorf("event\n%+v\nwant\n%+v", e, c.want)
			}
		})
	}
	id := w.ann.Garble("clear in the end")
	if e := w.Event(); e.Text != "clear in the end" || !slices.Contains(w.ann.Receipts(), linkedtest.Receipt{ID: id, Type: "retry"}) {
		t.Errorf("what could not be read at first: %+v; receipts %v", e, w.ann.Receipts())
	}
	w.Ack()
	w.Await("the receipt of all", func() bool { return w.Waiting() == 0 })
}

func TestWhatsAppIsAckedWhenTheHostHasTheMessage(t *testing.T) {
	w := startLinked(t)
	id := w.ann.Say("hello")
	first := w.Event()
	if w.has(id) || w.Waiting() != 1 {
		t.Fatal("confirmed before the host had it")
	}
	w.drop()
	if again := w.Event(); again.ID != first.ID || again.Text != "hello" || w.Waiting() != 1 {
		t.Errorf("after a new connection %+v came, %d messages wait", again, w.Waiting())
	}
	if err := w.Shutdown(); err != nil {
		t.Fatal(err)
	}
	if w.Waiting() != 1 {
		t.Fatal("confirmed though the host never had it")
	}
	w.start(t)
	if again := w.Event(); again.ID != first.ID || again.Text != "hello" {
		t.Errorf("after a new start: %+v", again)
	}
	w.Ack()
	w.Await("the receipt", func() bool { return w.has(id) && w.Waiting() == 0 })
	w.drop()
	last := w.ann.Say("only this")
	if e := w.Event(); !strings.Contains(e.ID, last) {
		t.Errorf("what was confirmed came again: %+v", e)
	}
}

func TestASessionOutlivesTheProcess(t *testing.T) {
	w := startLinked(t)
	if err := w.Shutdown(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(w.dir, sessionFile))
	if err != nil || info.Mode().Perm() != 0o600 || info.Size() == 0 {
		t.Errorf("session file: %+v, %v", info, err)
	}
	w.ann.Say("are you there?")
	w.start(t) // its codes would be scanned, too; but then what waits would be lost
	if e := w.Event(); e.Text != "are you there?" {
		t.Errorf("what waited meanwhile: %+v", e)
	}
	w.Ack()
	if n := w.Logins(); n != 2 {
		t.Errorf("%d logins, want 2", n)
	}
}

func TestLinkedSend(t *testing.T) {
	w := startLinked(t)
	w.ann.AddDevice(4)
	send := channel.Send{Key: "k1", Conversation: withAnn, Text: "**bold**", Markdown: true, ReplyTo: ann + "/A1/" + ann}
	sent, err := w.Send(send)
	if err != nil || sent.Outcome != channel.OutcomeSent || !slices.Equal(sent.MessageIDs, []string{ann + "/" + idOf("k1") + "/4930111"}) {
		t.Fatalf("%+v, %v", sent, err)
	}
	if again, err := w.plugin.Send(t.Context(), send); err != nil || again.Outcome != channel.OutcomeSent || !slices.Equal(again.MessageIDs, sent.MessageIDs) {
		t.Errorf("again, as after a restart: %+v, %v", again, err)
	}
	got := w.ann.Got()
	if len(got) != 2 || got[0].Device == got[1].Device {
		t.Fatalf("her two devices got %+v", got)
	}
	for _, g := range got {
		if x := g.Message.GetExtendedTextMessage(); g.ID != idOf("k1") || x.GetText() != "*bold*" || x.GetContextInfo() != nil {
			t.Errorf("message %+v", g)
		}
	}
	if own := w.Phone().Got(); len(own) != 1 || own[0].Message.GetDeviceSentMessage().GetMessage().GetExtendedTextMessage().GetText() != "*bold*" {
		t.Errorf("the phone got %+v", own)
	}
	for _, code := range []int{463, 479} {
		w.Refuse(code)
		sent, err := w.Send(channel.Send{Key: "k3", Conversation: withAnn, Text: "x"})
		if sent.Outcome != channel.OutcomeNotSent || sent.RetryAfter != later || err == nil {
			t.Errorf("refused with %d: %+v, %v", code, sent, err)
		}
	}
	for _, to := range []string{"somebody", "1@example.com"} {
		if sent, _ := w.Send(channel.Send{Key: "k4", Conversation: channel.Conversation{ID: to}, Text: "x"}); sent.Outcome != channel.OutcomeRefused {
			t.Errorf("to %s: %+v", to, sent)
		}
	}
}

func TestAGroupOfALinkedDevice(t *testing.T) {
	w := startLinked(t)
	bob := w.Person("4915100000002", "902", "Bob")
	group := w.Group("120363-1", w.ann, bob)
	for _, text := range []string{"one", "two"} { // the first carries the key, the second uses it
		send := channel.Send{Key: text, Conversation: channel.Conversation{ID: "120363-1@g.us"}, Text: text, ReplyTo: "120363-1@g.us/A1/" + ann}
		if sent, err := w.Send(send); err != nil {
			t.Fatalf("%+v, %v", sent, err)
		}
	}
	for _, p := range []*linkedtest.Person{w.ann, bob} {
		got := p.Got()
		if len(got) != 2 {
			t.Fatalf("%s got %+v", p.Name, got)
		}
		x := got[1].Message.GetExtendedTextMessage()
		if got[1].Chat != group || x.GetText() != "two" || x.GetContextInfo().GetStanzaID() != "A1" || x.GetContextInfo().GetParticipant() != w.ann.Hidden.String() {
			t.Errorf("%s got %+v", p.Name, got[1])
		}
	}
	id := bob.Send(group, saying("hello all"))
	e := w.Event()
	w.Ack()
	w.Await("all receipts", func() bool { return w.Waiting() == 0 })
	if err := w.Host.Typing(channel.Typing{Conversation: e.Conversation, On: true}); err != nil {
		t.Fatal(err)
	}
	w.Await("the receipt of a reader", func() bool { return slices.Contains(bob.Receipts(), linkedtest.Receipt{ID: id, Type: "read"}) })
	if err := w.React(channel.Reaction{Conversation: e.Conversation, MessageID: e.ID, Reaction: "👍"}); err != nil {
		t.Fatal(err)
	}
	if k := bob.Got()[2].Message.GetReactionMessage().GetKey(); k.GetID() != id || k.GetParticipant() != bob.Hidden.String() || k.GetFromMe() {
		t.Errorf("reaction to %+v", k)
	}
	if _, err := w.Send(channel.Send{Key: "k", Conversation: channel.Conversation{ID: "7-7@g.us"}, Text: "x"}); err == nil {
		t.Error("sent to a group that there is not")
	}
}

// TestAnAnswerThatIsLost is about a message that WhatsApp has, while the device does not know it.
func TestAnAnswerThatIsLost(t *testing.T) {
	w := startLinked(t)
	send := channel.Send{Key: "k", Conversation: withAnn, Text: "once"}
	w.Swallow()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var sending sync.WaitGroup
	sending.Go(func() {
		if sent, err := w.plugin.Send(ctx, send); sent.Outcome != channel.OutcomeUnknown || err == nil {
			t.Errorf("without an answer: %+v, %v", sent, err)
		}
	})
	w.Await("the message", func() bool { return len(w.ann.Got()) == 1 })
	stop()
	sending.Wait()
	if sent, err := w.Send(send); err != nil || sent.Outcome != channel.OutcomeSent || len(w.ann.Got()) != 1 {
		t.Errorf("sent again: %+v, %v; she got %+v", sent, err, w.ann.Got())
	}
	w.Await("all receipts", func() bool { return w.Waiting() == 0 })
	if got, err := w.Reconcile(channel.Reconcile{Key: "k", Conversation: withAnn, Text: "once"}); err != nil || got.Outcome != channel.OutcomeSent {
		t.Errorf("reconciled: %+v, %v", got, err)
	}
}

// TestAConnectionThatEndsWithinASend: the library sends once more over the next one.
func TestAConnectionThatEndsWithinASend(t *testing.T) {
	if raced {
		t.Skip("the library's two waits for its reconnection set the same field (go.mau.fi/util/exsync.Event.GetChan)")
	}
	w := startLinked(t)
	w.Swallow()
	var sending sync.WaitGroup
	sending.Go(func() {
		if sent, err := w.plugin.Send(t.Context(), channel.Send{Key: "k", Conversation: withAnn, Text: "once"}); err != nil || sent.Outcome != channel.OutcomeSent {
			t.Errorf("%+v, %v", sent, err)
		}
	})
	w.Await("the message", func() bool { return len(w.ann.Got()) == 1 })
	w.Drop()
	sending.Wait()
	if n := len(w.ann.Got()); n != 1 {
		t.Errorf("she got it %d times", n)
	}
	w.Await("the next login", w.Online)
}

func TestAReceiptSettlesASend(t *testing.T) {
	w := startLinked(t)
	w.ann.Off()
	if _, err := w.Send(channel.Send{Key: "k", Conversation: withAnn, Text: "x"}); err != nil {
		t.Fatal(err)
	}
	w.ann.On()
	w.Await("the receipt", func() bool { return w.Waiting() == 0 })
	got, err := w.Reconcile(channel.Reconcile{Key: "k", Conversation: withAnn, Text: "x"})
	if err != nil || got.Outcome != channel.OutcomeSent || !slices.Equal(got.MessageIDs, []string{ann + "/" + idOf("k") + "/4930111"}) {
		t.Errorf("%+v, %v", got, err)
	}
	w.ann.AskAgain(idOf("k"))
	w.Await("the message once more", func() bool {
		got := w.ann.Got()
		return len(got) == 2 && got[1].ID == idOf("k") && got[1].Retry == 1 && got[1].Message.GetExtendedTextMessage().GetText() == "x"
	})
}

// TestHiddenIDs: once WhatsApp has moved the account, a person is written to by the hidden id, and known to the host by the number.
func TestHiddenIDs(t *testing.T) {
	w := startLinked(t)
	w.Phone().ShareHiddenIDs(w.ann)
	w.Await("the receipt", func() bool { return w.Waiting() == 0 })
	sent, err := w.Send(channel.Send{Key: "k", Conversation: withAnn, Text: "hello"})
	if err != nil || sent.MessageIDs[0] != ann+"/"+idOf("k")+"/4930111" {
		t.Fatalf("%+v, %v", sent, err)
	}
	if got := w.ann.Got(); len(got) != 1 || got[0].Chat != w.ann.Hidden {
		t.Errorf("she got %+v", got)
	}
	w.ann.Say("and back")
	if e := w.Event(); e.Conversation != withAnn {
		t.Errorf("event %+v", e)
	}
	w.Ack()
}

func TestLinkedMedia(t *testing.T) {
	w := startLinked(t)
	body := []byte(strings.Repeat("0123456789", 50_000))
	handle, err := w.Upload(channel.Media{Name: "a.pdf", Type: "application/pdf"}, body)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := w.Fetch(handle); err != nil || !bytes.Equal(got, body) {
		t.Errorf("%d bytes: %v", len(got), err)
	}
	pdf := []channel.Attachment{{Handle: handle, Name: "a.pdf", Type: "application/pdf"}}
	sent, err := w.Send(channel.Send{Key: "k", Conversation: withAnn, Text: "see", Attachments: pdf})
	if err != nil || len(sent.MessageIDs) != 1 {
		t.Fatalf("%+v, %v", sent, err)
	}
	d := w.ann.Got()[0].Message.GetDocumentMessage()
	got, err := w.ann.Open(d)
	if err != nil || !bytes.Equal(got, body) || d.GetFileName() != "a.pdf" || d.GetCaption() != "see" || d.GetFileLength() != uint64(len(body)) {
		t.Errorf("she opens %d bytes of %+v: %v", len(got), d, err)
	}
	w.ann.Send(types.JID{}, w.ann.Attach("b.pdf", "application/pdf", "and this", body))
	e := w.Event()
	w.Ack()
	if e.Text != "and this" || len(e.Attachments) != 1 || e.Attachments[0].Name != "b.pdf" || e.Attachments[0].Size != int64(len(body)) {
		t.Fatalf("event %+v", e)
	}
	if got, err := w.Fetch(e.Attachments[0].Handle); err != nil || !bytes.Equal(got, body) {
		t.Errorf("%d bytes of what came: %v", len(got), err)
	}
	w.MediaFails(http.StatusGone)
	if _, err := w.Fetch(e.Attachments[0].Handle); err == nil {
		t.Error("fetched what is gone")
	}
	if left, _ := filepath.Glob(filepath.Join(w.dir, "medium-*")); len(left) != 0 {
		t.Errorf("left behind: %q", left)
	}
	if _, err := w.plugin.Upload(t.Context(), channel.Media{Name: "x", Body: io.NopCloser(strings.NewReader(""))}); err == nil {
		t.Error("an empty medium was taken")
	}
}

func TestChoicesOfALinkedDevice(t *testing.T) {
	w := startLinked(t)
	buttons := []channel.Button{{Text: "Yes", Value: "approve:1"}, {Text: "No", Value: "deny:1"}}
	sent, err := w.Send(channel.Send{Key: "k", Conversation: withAnn, Text: "May I?", Buttons: buttons})
	if err != nil || !strings.Contains(w.ann.Got()[0].Message.GetExtendedTextMessage().GetText(), "*2* No") {
		t.Fatalf("%+v, %v: %+v", sent, err, w.ann.Got())
	}
	id := w.ann.Say("no")
	e := w.Event()
	if e.Kind != channel.EventButton || e.Text != "deny:1" || e.TargetID != sent.MessageIDs[0] {
		t.Errorf("press %+v", e)
	}
	w.Ack()
	w.Await("the receipt", func() bool { return w.has(id) })
	if err := w.Host.Typing(channel.Typing{Conversation: withAnn, On: true}); err != nil {
		t.Fatal(err)
	}
	w.Await("what she sees", func() bool {
		return slices.Contains(w.ann.Receipts(), linkedtest.Receipt{ID: id, Type: "read"}) && slices.Equal(w.Server.Typing(), []string{ann + " composing"})
	})
	if err := w.React(channel.Reaction{Conversation: withAnn, MessageID: e.ID, Reaction: "👍"}); err != nil {
		t.Fatal(err)
	}
	r := w.ann.Got()[1].Message.GetReactionMessage()
	if r.GetText() != "👍" || r.GetKey().GetID() != id || r.GetKey().GetFromMe() || r.GetKey().GetRemoteJID() != annNumber.String() {
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

// showing runs a linked device and returns what it shows: expect waits for what begins with prefix and returns the rest.
func showing(t *testing.T, s *linkedtest.Server, change func(*linked)) (expect func(prefix string) string) {
	t.Helper()
	c := channel.Config{Log: slog.New(slog.DiscardHandler), StateDir: t.TempDir()}
	l := reaching(newLinked(settings{Mode: "linked", DeviceName: "Flynn", ReadReceipts: true, Groups: true}, c), s)
	change(l)
	on := screen{shown: make(chan string, 64)}
	ctx, stop := context.WithCancel(t.Context())
	var run sync.WaitGroup
	run.Go(func() { _ = l.Run(ctx, on) })
	t.Cleanup(func() {
		stop()
		run.Wait()
	})
	return func(prefix string) string {
		t.Helper()
		timeout := time.After(time.Minute)
		for {
			select {
			case got := <-on.shown:
				if rest, ok := strings.CutPrefix(got, prefix); ok {
					return rest
				}
			case <-timeout:
				t.Fatalf("%q was not shown", prefix)
			}
		}
	}
}

func asItIs(*linked) {}

func TestLinking(t *testing.T) {
	s := linkedtest.Start(t)
	expect := showing(t, s, asItIs)
	expect("code: ")
	s.ExpireCodes()
	expect("auth: nobody has scanned")
	if err := s.ScanOther(expect("code: ")); err != nil {
		t.Fatal(err)
	}
	expect("auth: the phone could not be linked")
	if err := s.Scan(expect("code: ")); err != nil {
		t.Fatal(err)
	}
	expect("connecting: linked to 4930111")
	expect("ready: linked to 4930111")
	s.Await("the login", s.Online)
	s.Restart()
	expect("connecting: reconnecting")
	expect("ready")
	s.Await("the login", s.Online)
}

func TestWhatEndsASession(t *testing.T) {
	turnedAway := func(reason int, more map[string]any) func(*linkedtest.Server) {
		return func(s *linkedtest.Server) {
			s.TurnAway(reason, more)
			s.Drop()
		}
	}
	for name, c := range map[string]struct {
		end         func(*linkedtest.Server)
		shown, then string
	}{
		"removed by the phone": {(*linkedtest.Server).Remove, "auth: the phone has removed", "code: "},
		"removed meanwhile":    {turnedAway(401, nil), "auth: the phone has removed", "code: "},
		"a refusal":            {turnedAway(409, map[string]any{"message": "bad user agent"}), "degraded: WhatsApp refuses: 409", "ready"},
		"a ban":                {turnedAway(402, map[string]any{"code": 101, "expire": 7200}), "degraded: ", ""}, // for two hours
		"another program":      {(*linkedtest.Server).Replace, "degraded: another program uses the same session", ""},
		"an old version": {func(s *linkedtest.Server) {
			s.Oldest(3, 0, 0)
			s.Drop()
		}, "degraded: WhatsApp no longer takes this version", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := linkedtest.Start(t)
			expect := showing(t, s, asItIs)
			if err := s.Scan(expect("code: ")); err != nil {
				t.Fatal(err)
			}
			expect("ready")
			s.Await("the login", s.Online)
			c.end(s)
			expect(c.shown)
			if c.then != "" {
				expect(c.then)
			}
			if c.then == "ready" {
				s.Await("the login", s.Online)
			}
		})
	}
}

// TestALinkThatEndsAbruptly: the library waits for the word to come back, which is lost.
func TestALinkThatEndsAbruptly(t *testing.T) {
	s := linkedtest.Start(t)
	s.LinkAbruptly()
	expect := showing(t, s, func(l *linked) { l.login = 2 * time.Second })
	if err := s.Scan(expect("code: ")); err != nil {
		t.Fatal(err)
	}
	expect("connecting: linked; logging in once more")
	expect("ready: linked to 4930111")
	s.Await("the login", s.Online)
}
