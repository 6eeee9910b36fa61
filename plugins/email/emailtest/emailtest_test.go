package emailtest

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"
	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// submit hands one mail in and closes the connection.
func submit(t *testing.T, s *Server) error {
	t.Helper()
	conn, err := net.Dial("tcp", s.Settings()["smtp"].(string))
	if err != nil {
		t.Fatal(err)
	}
	c := smtp.NewClient(conn)
	defer c.Close()
	if err := c.Auth(sasl.NewPlainClient("", Address, Password)); err != nil {
		return err
	}
	return c.SendMail(Address, []string{"ann@example.test"}, strings.NewReader("Subject: x\r\n\r\n.\r\n"))
}

func TestSubmission(t *testing.T) {
	s := New(t)
	s.Next(Trouble{At: AtLogin, Code: 535}, Trouble{At: AtSender, Code: 452}, Trouble{At: AtRecipient, Code: 550}, Trouble{At: AtData, HangUp: true}, Trouble{At: AtEnd, HangUp: true})
	for i, want := range []int{535, 452, 550, 0, 0} {
		err := submit(t, s)
		refusal := (*smtp.SMTPError)(nil)
		if err == nil || errors.As(err, &refusal) != (want != 0) || want != 0 && refusal.Code != want {
			t.Errorf("send %d: %v, want %d", i, err, want)
		}
	}
	if err := submit(t, s); err != nil {
		t.Fatal(err)
	}
	all := s.Sent(t.Context(), 2) // the one whose connection broke after it, and the last
	if len(all) != 2 || all[0].From != Address || all[1].To[0] != "ann@example.test" || !bytes.HasSuffix(all[1].Raw, []byte("\r\n\r\n.\r\n")) {
		t.Errorf("sent %q", all)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if n := len(s.Sent(ended, 9)); n != 2 {
		t.Errorf("%d were handed in", n)
	}
}

// read logs in and opens the mailbox. news hears of mail.
func read(t *testing.T, s *Server, news chan<- struct{}) (*imapclient.Client, error) {
	t.Helper()
	conn, err := net.Dial("tcp", s.Settings()["imap"].(string))
	if err != nil {
		t.Fatal(err)
	}
	c := imapclient.New(conn, &imapclient.Options{UnilateralDataHandler: &imapclient.UnilateralDataHandler{
		Mailbox: func(*imapclient.UnilateralDataMailbox) { news <- struct{}{} },
	}})
	t.Cleanup(func() { _ = c.Close() })
	if err := c.Login(Address, Password).Wait(); err != nil {
		return nil, err
	}
	return c, nil
}

func TestReading(t *testing.T) {
	s := New(t)
	s.RefuseLogins(true)
	if _, err := read(t, s, nil); err == nil {
		t.Fatal("a login that was to be refused went through")
	}
	s.RefuseLogins(false)
	news := make(chan struct{}, 8)
	c, err := read(t, s, news)
	if err != nil {
		t.Fatal(err)
	}
	before, err := c.Select("INBOX", nil).Wait()
	if err != nil {
		t.Fatal(err)
	}
	s.Deliver("Subject: between two commands\n\nx\n")
	idle, err := c.Idle()
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		select {
		case <-news:
		case <-time.After(time.Minute):
			t.Fatalf("mail %d was not told", i)
		}
		if i == 0 {
			s.Deliver("Subject: while waiting\n\nx\n")
		}
	}
	if err := errors.Join(idle.Close(), idle.Wait()); err != nil {
		t.Fatal(err)
	}
	got, err := c.Fetch(imap.UIDSetNum(2), &imap.FetchOptions{Envelope: true}).Collect()
	if err != nil || len(got) != 1 || got[0].Envelope.Subject != "while waiting" || s.Kept("INBOX") != 2 {
		t.Errorf("fetched %+v, %v", got, err)
	}
	s.Renumber()
	select {
	case <-c.Closed():
	case <-time.After(time.Minute):
		t.Error("the connection was not broken")
	}
	if c, err = read(t, s, news); err != nil {
		t.Fatal(err)
	}
	after, err := c.Select("INBOX", nil).Wait()
	if err != nil || after.UIDValidity == before.UIDValidity || after.NumMessages != 0 || s.Logins() != 3 {
		t.Errorf("%+v, %v; %d logins", after, err, s.Logins())
	}
}

func TestEncryption(t *testing.T) {
	s := NewTLS(t)
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(s.Settings()["ca"].(string))) {
		t.Fatal("no certificate")
	}
	config := &tls.Config{RootCAs: pool, ServerName: "127.0.0.1"}
	in, err := imapclient.DialTLS(s.Settings()["imap"].(string), &imapclient.Options{TLSConfig: config})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := smtp.DialStartTLS(s.Settings()["smtp"].(string), config)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if err := errors.Join(in.Login(Address, Password).Wait(), out.Auth(sasl.NewPlainClient("", Address, Password))); err != nil {
		t.Error(err)
	}
}
