// Package emailtest is a mail server for tests: an IMAP server and an SMTP server on loopback, with one account, that speak the real protocols and
// fail on demand.
//
// Begin with New. Deliver puts a mail into the mailbox, Sent shows what was handed in, Next makes the next sends fail, Disconnect, RefuseLogins and
// Renumber trouble those who read. Delivering what was handed in to anybody else is not its business.
package emailtest

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapserver"
	"github.com/emersion/go-imap/v2/imapserver/imapmemserver"
	"github.com/emersion/go-message"
	"github.com/emersion/go-smtp"

	"github.com/flynnhost/flynn/sdk/plugintest/fake"
	"github.com/flynnhost/flynn/sdk/plugintest/platform"
)

// The account, and the name with which the server signs its findings about a sender.
const (
	Address    = "flynn@flynn.test"
	Password   = "secret"
	AuthservID = "mx.flynn.test"
)

// Mail is a mail that was submitted.
type Mail struct {
	From string
	To   []string
	Raw  []byte
}

// Server is the pretended mail server.
type Server struct {
	t          platform.TB
	imap, smtp *platform.Listener
	tls        *tls.Config // nil: no encryption
	ca         string
	user       *imapmemserver.User

	mu      platform.State
	refuse  bool // logins
	trouble []Trouble
	sent    []Mail
	logins  int
}

// New starts one without encryption. It ends with the test.
func New(t platform.TB) *Server {
	t.Helper()
	return start(t, nil, "")
}

// NewTLS starts a server whose SMTP requires STARTTLS and whose IMAP uses TLS.
func NewTLS(t platform.TB) *Server {
	t.Helper()
	config, ca := certificate()
	return start(t, config, ca)
}

func start(t platform.TB, config *tls.Config, ca string) *Server {
	t.Helper()
	s := &Server{t: t, tls: config, ca: ca, user: imapmemserver.NewUser(Address, Password)}
	for _, name := range []string{"INBOX", "Sent"} {
		if err := s.user.Create(name, nil); err != nil {
			t.Fatalf("make the mailbox %s: %v", name, err)
		}
	}
	s.imap, s.smtp = platform.Listen(t), platform.Listen(t)
	quiet := log.New(io.Discard, "", 0)
	in := imapserver.New(&imapserver.Options{
		NewSession: func(*imapserver.Conn) (imapserver.Session, *imapserver.GreetingData, error) {
			return &reader{imapmemserver.NewUserSession(s.user), s}, nil, nil
		},
		Caps: imap.CapSet{imap.CapIMAP4rev1: {}, imap.CapIMAP4rev2: {}}, InsecureAuth: config == nil, Logger: quiet,
	})
	out := smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) { return &sender{server: s, conn: c}, nil }))
	out.Domain, out.AllowInsecureAuth, out.TLSConfig, out.ErrorLog, out.MaxMessageBytes = "flynn.test", config == nil, config, quiet, 64<<20
	var serving sync.WaitGroup
	serving.Go(func() { _ = in.Serve(encrypted(s.imap, config)) })
	serving.Go(func() { _ = out.Serve(s.smtp) })
	t.Cleanup(func() {
		_ = in.Close()
		_ = out.Close()
		_, _ = s.imap.Close(), s.smtp.Close()
		serving.Wait()
	})
	return s
}

// Settings returns those of the plugin for this server.
func (s *Server) Settings() map[string]any {
	out := map[string]any{
		"imap": s.imap.Addr().String(), "smtp": s.smtp.Addr().String(), "address": Address, "authserv_id": AuthservID,
		"imap_tls": "none", "smtp_tls": "none", "insecure": true,
	}
	if s.tls != nil {
		out["imap_tls"], out["smtp_tls"], out["insecure"], out["ca"] = "implicit", "starttls", false, s.ca
	}
	return out
}

// Deliver adds a mail to the mailbox as if it had just arrived. Lines may end in LF.
func (s *Server) Deliver(raw string) {
	s.t.Helper()
	raw = strings.ReplaceAll(strings.ReplaceAll(raw, "\r\n", "\n"), "\n", "\r\n")
	if _, err := s.user.Append("INBOX", literal{strings.NewReader(raw)}, &imap.AppendOptions{Time: time.Now()}); err != nil {
		s.t.Fatalf("deliver a mail: %v", err)
	}
	defer s.mu.Change()()
}

// Vouched returns the header by which the server confirms that a mail comes from a domain.
func Vouched(domain string) string {
	return "Authentication-Results: " + AuthservID + ";\n dmarc=pass (p=reject) header.from=" + domain + "\n"
}

// literal is a mail as the IMAP server takes it.
type literal struct{ *strings.Reader }

// Size implements imap.LiteralReader.
func (l literal) Size() int64 { return int64(l.Len()) }

// Kept counts the mails in a mailbox.
func (s *Server) Kept(mailbox string) int {
	s.t.Helper()
	data, err := s.user.Status(mailbox, &imap.StatusOptions{NumMessages: true})
	if err != nil || data.NumMessages == nil {
		s.t.Fatalf("count the mails of %s: %v", mailbox, err)
	}
	return int(*data.NumMessages)
}

// Renumber empties the mailbox and renumbers later mails, as after a move to another server.
func (s *Server) Renumber() {
	s.t.Helper()
	s.Disconnect()
	if err := s.user.Delete("INBOX"); err != nil {
		s.t.Fatalf("make a new INBOX: %v", err)
	}
	if err := s.user.Create("INBOX", nil); err != nil {
		s.t.Fatalf("make a new INBOX: %v", err)
	}
}

// Disconnect breaks every connection.
func (s *Server) Disconnect() {
	s.imap.Drop()
	s.smtp.Drop()
}

// RefuseLogins refuses every login from now on, or no longer.
func (s *Server) RefuseLogins(yes bool) {
	defer s.mu.Change()()
	s.refuse = yes
}

// Logins counts the tries to log in.
func (s *Server) Logins() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logins
}

// Sent waits for n submitted mails, and returns those that exist when ctx ends.
func (s *Server) Sent(ctx context.Context, n int) []Mail {
	var all []Mail
	s.mu.Wait(ctx, func() bool {
		all = s.sent
		return len(all) >= n
	})
	return all
}

// Watch makes the server report what people see of Flynn.
func (s *Server) Watch(report func(fake.Report)) { s.mu.Watch(report) }

func (s *Server) record(m Mail) {
	defer s.mu.Change()()
	s.sent = append(s.sent, m)
	s.mu.Shown(plain(m.Raw))
}

// plain returns the text of a mail.
func plain(raw []byte) string {
	e, err := message.Read(bytes.NewReader(raw))
	if err != nil {
		return ""
	}
	var out string
	_ = e.Walk(func(_ []int, part *message.Entity, _ error) error {
		if kind, _, _ := part.Header.ContentType(); kind == "text/plain" && out == "" {
			text, err := io.ReadAll(part.Body)
			out = string(text)
			return err
		}
		return nil
	})
	return out
}

// login counts an attempt and reports whether it may continue.
func (s *Server) login() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logins++
	return !s.refuse
}

// reader is a session of IMAP.
type reader struct {
	*imapmemserver.UserSession
	server *Server
}

// Login implements imapserver.Session.
func (r *reader) Login(user, password string) error {
	if !r.server.login() {
		return imapserver.ErrAuthFailed
	}
	return r.UserSession.Login(user, password)
}

// Idle implements imapserver.Session. Unlike the library's it also reports mail that came between the last command and this one, as real servers do.
func (r *reader) Idle(w *imapserver.UpdateWriter, stop <-chan struct{}) error {
	for {
		came := r.server.mu.Changed()
		if err := r.Poll(w, true); err != nil {
			return err
		}
		select {
		case <-came:
		case <-stop:
			return nil
		}
	}
}

func encrypted(l net.Listener, config *tls.Config) net.Listener {
	if config == nil {
		return l
	}
	return tls.NewListener(l, config)
}

// certificate returns the one that net/http/httptest has for loopback, and its authority, which is itself, in PEM.
func certificate() (*tls.Config, string) {
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	own := &pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}
	return &tls.Config{Certificates: s.TLS.Certificates}, string(pem.EncodeToMemory(own))
}
