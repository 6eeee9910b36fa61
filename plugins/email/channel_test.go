package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/mail"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-message"
	"go.uber.org/goleak"

	"github.com/flynnhost/flynn/plugins/email/emailtest"
	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/plugintest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// site is a mail server with an account that a plugin reads.
type site struct {
	*emailtest.Server
	t        *testing.T
	host     *plugintest.Host
	kept     *plugintest.Services
	settings map[string]any
}

func newSite(t *testing.T, server *emailtest.Server) *site {
	t.Helper()
	s := &site{Server: server, t: t, kept: plugintest.NewServices(), settings: server.Settings()}
	s.settings["sent_mailbox"], s.settings["poll_seconds"] = "Sent", 1
	s.Deliver(letterOf("old", "", "written before Flynn came"))
	s.start()
	return s
}

func (s *site) start() {
	s.t.Helper()
	s.host = plugintest.Start(s.t, &plugin{}, s.config())
	s.host.WaitStatus(channel.StateReady)
}

func (s *site) config() plugintest.Config {
	return plugintest.Config{
		Settings: s.settings, Secrets: map[string]string{"password": emailtest.Password}, Permissions: []string{"kv", "media"}, Services: s.kept,
	}
}

// letterOf is a mail of Ann's that the server vouches for. more are further header lines.
func letterOf(id, more, text string) string {
	return emailtest.Vouched("example.test") + "Message-ID: <" + id + "@example.test>\nFrom: Ann Example <Ann@Example.test>\nTo: Flynn <" + emailtest.Address + ">\n" +
		more + "Mime-Version: 1.0\n" + map[bool]string{true: "", false: "Content-Type: text/plain; charset=utf-8\n"}[strings.Contains(more, "Content-Type")] + "\n" + text + "\n"
}

func (s *site) next() channel.Event {
	s.t.Helper()
	e := s.host.Event()
	s.host.Ack()
	return e
}

func TestEvents(t *testing.T) {
	s := newSite(t, emailtest.New(t))
	const mixed = "Content-Type: multipart/mixed; boundary=b\n"
	for _, c := range []struct {
		name, raw string
		check     func(e channel.Event) bool
	}{
		{"a first mail has its subject in front", letterOf("a", "Subject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\n", "hello"), func(e channel.Event) bool {
			return strings.HasPrefix(e.ID, "<a@example.test>/") && e.Text == "Grüße\n\nhello" && e.Sender.ID == "ann@example.test" && e.Sender.Name == "Ann Example" &&
				e.Conversation.Kind == channel.DM && e.Addressed && !e.Sender.Bot && !e.SentAt.IsZero()
		}},
		{"an answer has none, and no quotation", letterOf("b", "Subject: Re: x\nIn-Reply-To: <a@example.test>\n", "yes\n\nOn Monday, Flynn <f@x> wrote:\n> what\n"), func(e channel.Event) bool {
			return e.Text == "yes" && e.ReplyTo == "<a@example.test>"
		}},
		{"forged", strings.Replace(letterOf("c", "", "x"), "dmarc=pass", "dmarc=fail", 1), func(e channel.Event) bool {
			return e.Sender.ID == "?ann(at)example.test?" && strings.HasPrefix(e.Conversation.ID, e.Sender.ID)
		}},
		{"vouched for by a server that nobody knows", strings.Replace(letterOf("d", "", "x"), emailtest.AuthservID, "mx.evil.test", 1), func(e channel.Event) bool {
			return e.Sender.ID[0] == '?'
		}},
		{"vouched for below what the server says", emailtest.Vouched("other.test") + letterOf("e", "", "x"), func(e channel.Event) bool { return e.Sender.ID[0] == '?' }},
		{"two senders in two lines", "From: Eve <eve@evil.test>\n" + letterOf("f0", "", "dropped") + "", nil},
		{"an automatic answer", letterOf("f", "Auto-Submitted: auto-replied\n", "I am away"), func(e channel.Event) bool { return e.Sender.Bot }},
		{"a mailing list", letterOf("g", "List-Id: <a.b>\n", "x"), func(e channel.Event) bool { return e.Sender.Bot }},
		{"a bounce", letterOf("h", "Return-Path: <>\n", "x"), func(e channel.Event) bool { return e.Sender.Bot }},
		{"a copy for somebody else", strings.Replace(letterOf("i", "", "x"), "To: Flynn <"+emailtest.Address+">", "To: bob@x.test", 1), func(e channel.Event) bool { return !e.Addressed }},
		{"another charset", letterOf("j", "Content-Type: text/plain; charset=iso-8859-1\nContent-Transfer-Encoding: quoted-printable\n", "caf=E9"), func(e channel.Event) bool { return e.Text == "café" }},
		{"HTML alone", letterOf("k", "Content-Type: text/html\n", "<style>p{}</style><p>one<br>two</p><blockquote>old</blockquote>"), func(e channel.Event) bool { return e.Text == "one\ntwo" }},
		{"both forms", letterOf("l", "Content-Type: multipart/alternative; boundary=b\n", "--b\nContent-Type: text/plain\n\nplain\n--b\nContent-Type: text/html\n\n<b>web</b>\n--b--"), func(e channel.Event) bool { return e.Text == "plain" }},
		{"a file", letterOf("m", mixed, "--b\nContent-Type: text/plain\n\nlook\n--b\nContent-Type: image/png; name=a.png\nContent-Transfer-Encoding: base64\n\nAAEC\n--b--"), func(e channel.Event) bool {
			body, err := s.host.Fetch(e.Attachments[0].Handle)
			return e.Text == "look" && e.Attachments[0].Name == "a.png" && e.Attachments[0].Type == "image/png" && e.Attachments[0].Size == 3 && bytes.Equal(body, []byte{0, 1, 2}) && err == nil
		}},
		{"a file alone", letterOf("n", "Content-Type: application/pdf\nContent-Disposition: attachment; filename=\"a.pdf\"\nReferences: <a@example.test>\n", "PDF"), func(e channel.Event) bool {
			body, err := s.host.Fetch(e.Attachments[0].Handle)
			return e.Text == "" && strings.TrimSpace(string(body)) == "PDF" && err == nil
		}},
		{"without an id", strings.Replace(letterOf("o", "", "x"), "Message-ID", "X-Message-ID", 1), func(e channel.Event) bool { return !strings.Contains(e.ID, "@") && strings.Contains(e.ID, ":") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s.Deliver(c.raw)
			if c.check == nil {
				return // the next case proves that nothing came of it
			}
			if e := s.next(); !c.check(e) {
				t.Errorf("event %+v", e)
			}
		})
	}
	for _, handle := range []string{"", "1/2/3", "1/2/0/plain", "1/0/1/plain", "1/2/1/../plain", "1/999999/1/plain", "7/1/1/plain", "99999999999/1/1/plain"} {
		if _, err := s.host.Fetch(handle); err == nil {
			t.Errorf("the handle %q was fetched", handle)
		}
	}
}

func TestNothingIsLostAndNothingComesAgain(t *testing.T) {
	s := newSite(t, emailtest.New(t))
	s.Deliver(letterOf("zero", "", "zero"))
	s.next()
	s.Deliver(letterOf("one", "", "one"))
	if e := s.host.Event(); e.Text != "one" {
		t.Fatalf("event %+v", e)
	}
	s.Deliver(letterOf("two", "", "two"))
	if e := s.host.Event(); e.Text != "two" { // although the first is not acked
		t.Fatalf("event %+v", e)
	}
	// They are not acked: the next process has to bring them again.
	if err := s.host.Shutdown(); err != nil {
		t.Fatal(err)
	}
	for i := range 53 {
		s.Deliver(letterOf(fmt.Sprint("away", i), "", fmt.Sprint("away ", i)))
	}
	s.start()
	want := []string{"one", "two"}
	for i := range 53 {
		want = append(want, fmt.Sprint("away ", i))
	}
	for _, text := range want {
		if e := s.next(); e.Text != text {
			t.Fatalf("%q came, want %q", e.Text, text)
		}
	}
	s.Disconnect()
	s.Deliver(letterOf("last", "", "last"))
	if e := s.next(); e.Text != "last" {
		t.Errorf("%q came, want what is new", e.Text)
	}
}

func TestMailboxThatIsNumberedAnew(t *testing.T) {
	s := newSite(t, emailtest.New(t))
	s.Deliver(letterOf("one", "", "one"))
	before := s.next()
	s.Renumber()
	s.Deliver(letterOf("one", "", "one"))
	s.Deliver(letterOf("two", "", "two"))
	// Mail that is still in the mailbox comes again under the same id, which the host recognises, and nothing is lost.
	if e := s.next(); e.ID != before.ID {
		t.Errorf("event %+v, want the id %q", e, before.ID)
	}
	if e := s.next(); e.Text != "two" {
		t.Errorf("event %+v", e)
	}
}

// talk starts a conversation and returns it.
func (s *site) talk() channel.Event {
	s.t.Helper()
	s.Deliver(letterOf("start", "Subject: Re: AW: the plan\nReferences: <root@example.test>\n", "what now?"))
	return s.next()
}

func TestSends(t *testing.T) {
	for _, c := range []struct {
		name    string
		trouble emailtest.Trouble
		want    channel.Outcome
		retry   time.Duration
		arrived int
	}{
		{"sent", emailtest.Trouble{}, channel.OutcomeSent, 0, 1},
		{"the login is refused", emailtest.Trouble{At: emailtest.AtLogin, Code: 535}, channel.OutcomeNotSent, pause, 0},
		{"not now", emailtest.Trouble{At: emailtest.AtRecipient, Code: 451}, channel.OutcomeNotSent, pause, 0},
		{"never", emailtest.Trouble{At: emailtest.AtRecipient, Code: 550}, channel.OutcomeRefused, 0, 0},
		{"the sender is refused", emailtest.Trouble{At: emailtest.AtSender, Code: 553}, channel.OutcomeRefused, 0, 0},
		{"the mail is refused", emailtest.Trouble{At: emailtest.AtData, Code: 554}, channel.OutcomeRefused, 0, 0},
		{"cut off before", emailtest.Trouble{At: emailtest.AtRecipient, HangUp: true}, channel.OutcomeNotSent, 0, 0},
		{"cut off on the way", emailtest.Trouble{At: emailtest.AtData, HangUp: true}, channel.OutcomeUnknown, 0, 0},
		{"cut off after", emailtest.Trouble{At: emailtest.AtEnd, HangUp: true}, channel.OutcomeUnknown, 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t, emailtest.New(t))
			e := s.talk()
			if c.trouble.At != "" {
				s.Next(c.trouble)
			}
			send := channel.Send{Key: "k/0", Conversation: e.Conversation, ReplyTo: e.ID, Text: "**hi**\nBcc: x@evil.test", Markdown: true}
			got, err := s.host.Send(send)
			if got.Outcome != c.want || got.RetryAfter != c.retry || (err == nil) != (c.want == channel.OutcomeSent) {
				t.Fatalf("%+v, %v", got, err)
			}
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			if n := len(s.Sent(ended, 99)); n != c.arrived {
				t.Fatalf("%d arrived, want %d", n, c.arrived)
			}
			reconciled, err := s.host.Reconcile(channel.Reconcile{Key: send.Key, Conversation: send.Conversation})
			if want := map[bool]channel.Outcome{true: channel.OutcomeSent, false: channel.OutcomeUnknown}[c.want == channel.OutcomeSent]; err != nil || reconciled.Outcome != want {
				t.Errorf("reconciled %+v, %v", reconciled, err)
			}
			if got, err = s.host.Send(send); err != nil {
				t.Fatal(err)
			}
			all := s.Sent(t.Context(), 1)
			for _, m := range all { // a second copy has the same id, by which mail programs recognise it
				checkMail(t, m, got.MessageIDs[0])
			}
			if n := s.Kept("Sent"); n != 1 {
				t.Errorf("%d copies in Sent", n)
			}
		})
	}
}

// checkMail looks at the answer that TestSends sends.
func checkMail(t *testing.T, m emailtest.Mail, id string) {
	t.Helper()
	if m.From != emailtest.Address || fmt.Sprint(m.To) != "[ann@example.test]" {
		t.Errorf("envelope %s to %v", m.From, m.To)
	}
	got, err := mail.ReadMessage(bytes.NewReader(m.Raw))
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"Message-Id": id, "In-Reply-To": "<start@example.test>", "References": "<root@example.test> <start@example.test>", "Subject": "Re: the plan",
		"Auto-Submitted": "auto-replied", "To": "<ann@example.test>", "From": `"Flynn" <flynn@flynn.test>`, "Bcc": "", "Mime-Version": "1.0",
	} {
		if got.Header.Get(key) != want {
			t.Errorf("%s: %q, want %q", key, got.Header.Get(key), want)
		}
	}
	parts := partsOf(t, m.Raw)
	if parts["text/plain"] != "hi\r\nBcc: x@evil.test" || !strings.Contains(parts["text/html"], "<strong>hi</strong>") {
		t.Errorf("parts %q", parts)
	}
}

// partsOf are the parts of a mail by type.
func partsOf(t *testing.T, raw []byte) map[string]string {
	t.Helper()
	e, err := message.Read(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	if err := e.Walk(func(_ []int, part *message.Entity, err error) error {
		kind, _, _ := part.Header.ContentType()
		if err != nil || strings.HasPrefix(kind, "multipart/") {
			return err
		}
		body, err := io.ReadAll(part.Body)
		out[kind] = string(body)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestPossibleDuplicates(t *testing.T) {
	s := newSite(t, emailtest.New(t))
	e := s.talk()
	s.Next(emailtest.Trouble{At: emailtest.AtEnd, HangUp: true})
	send := channel.Send{Key: "k/0", Conversation: e.Conversation, Text: "hi"}
	if got, _ := s.host.Send(send); got.Outcome != channel.OutcomeUnknown {
		t.Fatalf("%+v", got)
	}
	send.PossibleDuplicate = true
	if got, err := s.host.Send(send); got.Outcome != channel.OutcomeSent {
		t.Fatalf("%+v, %v", got, err)
	}
	if parts := partsOf(t, s.Sent(t.Context(), 2)[1].Raw); parts["text/plain"] != "(possibly again) hi" {
		t.Errorf("parts %q", parts)
	}
	if err := s.host.Shutdown(); err != nil {
		t.Fatal(err)
	}
	s.start() // a new process knows from the host, or from Sent, what went out
	if got, err := s.host.Send(send); got.Outcome != channel.OutcomeDuplicate {
		t.Errorf("%+v, %v", got, err)
	}
	for key := range s.kept.Values() {
		if strings.HasPrefix(key, threadPrefix) {
			s.kept.SetValue(key, []byte(`{"to":"ann@example.test"}`))
		}
	}
	if got, err := s.host.Reconcile(channel.Reconcile{Key: send.Key, Conversation: send.Conversation}); got.Outcome != channel.OutcomeSent {
		t.Errorf("by the copy in Sent: %+v, %v", got, err)
	}
}

func TestThreads(t *testing.T) {
	s := newSite(t, emailtest.New(t))
	first := s.talk()
	sent, err := s.host.Send(channel.Send{Key: "k", Conversation: first.Conversation, Text: "this"})
	if err != nil {
		t.Fatal(err)
	}
	s.Deliver(letterOf("again", "In-Reply-To: "+sent.MessageIDs[0]+"\n", "and now?"))
	if e := s.next(); e.Conversation != first.Conversation {
		t.Errorf("an answer without References is in %+v, want %+v", e.Conversation, first.Conversation)
	}
	eve := strings.ReplaceAll(strings.ReplaceAll(letterOf("evil", "References: <root@example.test> "+sent.MessageIDs[0]+"\n", "tell me"), "Ann@Example.test", "eve@evil.test"), "header.from=example.test", "header.from=evil.test")
	s.Deliver(eve)
	if e := s.next(); e.Sender.ID != "eve@evil.test" || e.Conversation == first.Conversation {
		t.Errorf("somebody else came into the conversation: %+v", e)
	}
	if _, err := s.host.Send(channel.Send{Key: "l", Conversation: first.Conversation, Text: "secret"}); err != nil {
		t.Fatal(err)
	}
	if to := s.Sent(t.Context(), 2)[1].To; fmt.Sprint(to) != "[ann@example.test]" {
		t.Errorf("went to %v", to)
	}
}

func TestAttachmentsOnTheWayOut(t *testing.T) {
	s := newSite(t, emailtest.New(t))
	e := s.talk()
	handle, err := s.host.Upload(channel.Media{Name: "a.bin", Type: "application/x-a"}, []byte("bytes"))
	if err != nil {
		t.Fatal(err)
	}
	send := channel.Send{Key: "k", Conversation: e.Conversation, Text: "look", Attachments: []channel.Attachment{{Handle: handle, Name: "a\r\nX-Evil: 1.bin", Type: "application/x-a", Size: 5}}}
	if _, err := s.host.Send(send); err != nil {
		t.Fatal(err)
	}
	raw := s.Sent(t.Context(), 1)[0].Raw
	if parts := partsOf(t, raw); parts["application/x-a"] != "bytes" || parts["text/plain"] != "look" {
		t.Errorf("parts %q", parts)
	}
	if bytes.Contains(raw, []byte("\nX-Evil")) {
		t.Error("a name wrote a header")
	}
	send.Key, send.Attachments[0].Handle = "l", strings.Repeat("0", 64)
	if got, err := s.host.Send(send); got.Outcome != channel.OutcomeNotSent || err == nil {
		t.Errorf("media that are gone: %+v, %v", got, err)
	}
}

func TestConversationsOfOthers(t *testing.T) {
	s := newSite(t, emailtest.New(t))
	for name, id := range map[string]string{
		"none": "x", "unproven": "?ann(at)example.test?/0123456789abcdef", "two lines": "a@b.test\r\nRCPT TO:<x@y>/0123456789abcdef",
	} {
		got, err := s.host.Send(channel.Send{Key: name, Conversation: channel.Conversation{ID: id, Kind: channel.DM}, Text: "x"})
		if got.Outcome != channel.OutcomeNotSent || err == nil {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	// One that was forgotten is answered by its id.
	got, err := s.host.Send(channel.Send{Key: "k", Conversation: channel.Conversation{ID: "bob@example.test/0123456789abcdef", Kind: channel.DM}, Text: "x"})
	if err != nil || got.Outcome != channel.OutcomeSent {
		t.Errorf("%+v, %v", got, err)
	}
	m := s.Sent(t.Context(), 1)[0]
	if fmt.Sprint(m.To) != "[bob@example.test]" || !bytes.Contains(m.Raw, []byte("auto-generated")) {
		t.Errorf("to %v: %s", m.To, m.Raw)
	}
}

func TestTLS(t *testing.T) {
	s := newSite(t, emailtest.NewTLS(t))
	e := s.talk()
	if _, err := s.host.Send(channel.Send{Key: "k", Conversation: e.Conversation, Text: "x"}); err != nil {
		t.Fatal(err)
	}
	t.Run("a certificate that nobody vouches for", func(t *testing.T) {
		server := emailtest.NewTLS(t)
		other := &site{Server: server, t: t, kept: plugintest.NewServices(), settings: server.Settings()}
		other.settings["ca"] = s.settings["ca"]
		other.host = plugintest.Start(t, &plugin{}, other.config())
		if text := other.host.WaitStatus(channel.StateDegraded); !strings.Contains(text, "certificate") {
			t.Errorf("says %q", text)
		}
		if server.Logins() != 0 {
			t.Error("the password was sent")
		}
	})
}

func TestTrouble(t *testing.T) {
	t.Run("a password that is refused", func(t *testing.T) {
		s := newSite(t, emailtest.New(t))
		s.RefuseLogins(true)
		s.Disconnect()
		text := s.host.WaitStatus(channel.StateAuthRequired)
		if !strings.Contains(text, "login") || strings.Contains(text, emailtest.Password) {
			t.Errorf("says %q", text)
		}
		s.RefuseLogins(false)
		s.host.WaitStatus(channel.StateReady)
	})
	t.Run("the way out alone", func(t *testing.T) {
		s := newSite(t, emailtest.New(t))
		e := s.talk()
		s.Next(emailtest.Trouble{At: emailtest.AtLogin, Code: 535})
		if got, _ := s.host.Send(channel.Send{Key: "k", Conversation: e.Conversation, Text: "x"}); got.Outcome != channel.OutcomeNotSent {
			t.Errorf("%+v", got)
		}
		s.host.WaitStatus(channel.StateAuthRequired)
		if got, err := s.host.Send(channel.Send{Key: "k", Conversation: e.Conversation, Text: "x"}); got.Outcome != channel.OutcomeSent {
			t.Errorf("%+v, %v", got, err)
		}
		s.host.WaitStatus(channel.StateReady)
	})
}

func TestSettingsThatAreRefused(t *testing.T) {
	good := map[string]any{"imap": "imap.x.test:993", "smtp": "smtp.x.test:587", "address": "a@x.test", "authserv_id": "mx.x.test"}
	for _, c := range []struct {
		name, key string
		value     any
		path      string
	}{
		{"no server", "imap", "", "imap"},
		{"no port", "smtp", "smtp.x.test", "smtp"},
		{"unencrypted", "imap_tls", "none", "imap_tls"},
		{"a way that there is not", "smtp_tls", "ssl", "smtp_tls"},
		{"an address with a name", "address", "A <a@x.test>", "address"},
		{"a name with a line", "name", "a\nb", "name"},
		{"nobody who vouches", "authserv_id", "", "authserv_id"},
		{"no certificate", "ca", "x", "ca"},
		{"too seldom", "poll_seconds", 4000, "poll_seconds"},
		{"unknown", "room", "x", "room"},
	} {
		t.Run(c.name, func(t *testing.T) {
			settings := map[string]any{c.key: c.value}
			for k, v := range good {
				if k != c.key {
					settings[k] = v
				}
			}
			_, err := plugintest.TryStart(t, &plugin{}, plugintest.Config{Settings: settings, Secrets: map[string]string{"password": "x"}})
			wrong, ok := errors.AsType[channel.FieldErrors](err)
			if !ok || wrong[0].Path != c.path {
				t.Errorf("got %v", err)
			}
		})
	}
	t.Run("unencrypted to another machine, insecure or not", func(t *testing.T) {
		settings := map[string]any{"imap_tls": "none", "insecure": true}
		for k, v := range good {
			settings[k] = v
		}
		_, err := plugintest.TryStart(t, &plugin{}, plugintest.Config{Settings: settings, Secrets: map[string]string{"password": "x"}})
		if wrong, ok := errors.AsType[channel.FieldErrors](err); !ok || wrong[0].Path != "imap_tls" {
			t.Errorf("got %v", err)
		}
	})
}

// TestTheOtherWayToAServer: a server that begins with TLS where the plugin waits for its greeting, and one that does not where it begins with
// TLS, are named with the setting that they would take.
func TestTheOtherWayToAServer(t *testing.T) {
	server := emailtest.NewTLS(t) // IMAP begins with TLS, SMTP does not
	given := server.Settings()
	given["imap_tls"], given["smtp_tls"] = "starttls", "implicit"
	s, err := newSettings(channel.Config{Settings: given, Secrets: map[string]string{"password": emailtest.Password}})
	if err != nil {
		t.Fatal(err)
	}
	s.greet = 200 * time.Millisecond
	if _, err := s.imap(t.Context(), nil); err == nil || !strings.Contains(err.Error(), `begins with TLS: write imap_tls = "implicit"`) {
		t.Errorf("IMAP: %v", err)
	}
	if _, _, err := s.smtp(t.Context()); err == nil || !strings.Contains(err.Error(), `does not begin with TLS: write smtp_tls = "starttls"`) {
		t.Errorf("SMTP: %v", err)
	}
	given["ca"] = "/etc/ssl/ca.pem"
	_, err = newSettings(channel.Config{Settings: given, Secrets: map[string]string{"password": emailtest.Password}})
	if err == nil || !strings.Contains(err.Error(), "the text itself") {
		t.Errorf("a path for ca: %v", err)
	}
}
