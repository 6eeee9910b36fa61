package emailtest

import (
	"io"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
)

// Stage is a step of a mail on its way out.
type Stage string

// The stages.
const (
	AtLogin     Stage = "login"
	AtSender    Stage = "sender"    // MAIL FROM
	AtRecipient Stage = "recipient" // RCPT TO
	AtData      Stage = "data"      // the mail is on its way, and does not arrive
	AtEnd       Stage = "end"       // it has arrived
)

// Trouble happens to one send.
type Trouble struct {
	At     Stage
	Code   int  // the answer
	HangUp bool // instead of an answer
}

// Next lets the next sends fail, each in one of these ways; then all is well again.
func (s *Server) Next(list ...Trouble) {
	defer s.mu.Change()()
	s.trouble = append(s.trouble, list...)
}

// next takes the trouble that is due at a stage.
func (s *Server) next(at Stage) (Trouble, bool) {
	defer s.mu.Change()()
	if len(s.trouble) == 0 || s.trouble[0].At != at {
		return Trouble{}, false
	}
	t := s.trouble[0]
	s.trouble = s.trouble[1:]
	return t, true
}

// sender is a session of SMTP.
type sender struct {
	server *Server
	conn   *smtp.Conn
	known  bool
	mail   Mail
}

// fail makes the trouble that is due.
func (s *sender) fail(at Stage) error {
	t, ok := s.server.next(at)
	switch {
	case !ok:
		return nil
	case t.HangUp:
		_ = s.conn.Conn().Close()
	}
	code := t.Code
	if code == 0 {
		code = 451
	}
	return &smtp.SMTPError{Code: code, EnhancedCode: smtp.EnhancedCode{code / 100, 0, 0}, Message: "as the test wants it"}
}

// AuthMechanisms implements smtp.AuthSession.
func (s *sender) AuthMechanisms() []string { return []string{sasl.Plain} }

// Auth implements smtp.AuthSession.
func (s *sender) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if err := s.fail(AtLogin); err != nil {
			return err
		}
		if !s.server.login() || user != Address || password != Password {
			return smtp.ErrAuthFailed
		}
		s.known = true
		return nil
	}), nil
}

// Mail implements smtp.Session.
func (s *sender) Mail(from string, _ *smtp.MailOptions) error {
	if !s.known {
		return smtp.ErrAuthRequired
	}
	s.mail = Mail{From: from}
	return s.fail(AtSender)
}

// Rcpt implements smtp.Session.
func (s *sender) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.mail.To = append(s.mail.To, to)
	return s.fail(AtRecipient)
}

// Data implements smtp.Session.
func (s *sender) Data(r io.Reader) error {
	if err := s.fail(AtData); err != nil {
		return err
	}
	raw, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	s.mail.Raw = raw
	s.server.record(s.mail)
	return s.fail(AtEnd)
}

// Reset implements smtp.Session.
func (s *sender) Reset() { s.mail = Mail{} }

// Logout implements smtp.Session.
func (s *sender) Logout() error { return nil }
