package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"
	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
)

const (
	dialTimeout   = 30 * time.Second
	submitTimeout = 2 * time.Minute // from the end of a mail to the server's word about it
)

// authError is a server that does not take the password.
type authError struct {
	server string
	err    error
}

func (e *authError) Error() string {
	return fmt.Sprintf("%s refuses the login: %.200s", e.server, clean(e.err.Error(), 200))
}
func (e *authError) Unwrap() error { return e.err }

// dial connects to a server: with TLS, or without where TLS begins later or never.
func (s settings) dial(ctx context.Context, server, mode string) (net.Conn, *tls.Config, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	config := s.tls.Clone()
	config.ServerName, _, _ = net.SplitHostPort(server)
	if mode == tlsImplicit {
		conn, err := (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", server)
		return conn, config, err
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", server)
	return conn, config, err
}

// otherwise names the encryption that the server would support, if it does not support the configured one.
func (s settings) otherwise(ctx context.Context, server, key, mode string, err error) error {
	switch {
	case ctx.Err() != nil:
	case mode == tlsImplicit && errors.As(err, new(tls.RecordHeaderError)):
		return fmt.Errorf("%s does not begin with TLS: write %s = %q (%w)", server, key, tlsStart, err)
	case mode == tlsStart:
		conn, _, failed := s.dial(ctx, server, tlsImplicit)
		if failed == nil {
			_ = conn.Close()
		}
		if failed == nil || errors.As(failed, new(*tls.CertificateVerificationError)) {
			return fmt.Errorf("%s begins with TLS: write %s = %q (%w)", server, key, tlsImplicit, err)
		}
	}
	return err
}

// session is a connection to the IMAP server that ends with its context.
type session struct {
	*imapclient.Client
	conn    net.Conn
	release func() bool
}

// end closes the connection. A fetch must have been read to its end or an error before, because the client waits for that.
func (s *session) end() {
	s.release()
	_ = s.conn.Close()
	_ = s.Client.Close()
}

// within limits the following calls to d, until the returned function is called: the connection is closed after that time.
func (s *session) within(d time.Duration) (done func() bool) {
	return time.AfterFunc(d, func() { _ = s.conn.Close() }).Stop
}

// imap connects and logs in. news is called at each change of the mailbox; it may be nil.
func (s settings) imap(ctx context.Context, news func()) (*session, error) {
	conn, config, err := s.dial(ctx, s.IMAP, s.IMAPTLS)
	if err != nil {
		return nil, fmt.Errorf("reach the IMAP server: %w", s.otherwise(ctx, s.IMAP, "imap_tls", s.IMAPTLS, err))
	}
	options := &imapclient.Options{TLSConfig: config}
	if news != nil {
		options.UnilateralDataHandler = &imapclient.UnilateralDataHandler{
			Mailbox: func(*imapclient.UnilateralDataMailbox) { news() },
		}
	}
	release := context.AfterFunc(ctx, func() { _ = conn.Close() })
	client := (*imapclient.Client)(nil)
	if s.IMAPTLS == tlsStart {
		_ = conn.SetDeadline(time.Now().Add(s.greet))
		client, err = imapclient.NewStartTLS(conn, options)
		_ = conn.SetDeadline(time.Time{})
	} else {
		client = imapclient.New(conn, options)
	}
	if err != nil {
		release()
		_ = conn.Close()
		return nil, fmt.Errorf("begin TLS with the IMAP server: %w", s.otherwise(ctx, s.IMAP, "imap_tls", s.IMAPTLS, err))
	}
	out := &session{client, conn, release}
	done := out.within(dialTimeout)
	err = s.login(client)
	done()
	if err != nil {
		out.end()
		return nil, err
	}
	return out, nil
}

func (s settings) login(c *imapclient.Client) error {
	if err := c.WaitGreeting(); err != nil {
		return fmt.Errorf("reach the IMAP server: %w", err)
	}
	var err error
	if c.Caps().Has(imap.AuthCap("PLAIN")) {
		err = c.Authenticate(sasl.NewPlainClient("", s.User, s.password))
	} else {
		err = c.Login(s.User, s.password).Wait()
	}
	refused := (*imap.Error)(nil)
	if errors.As(err, &refused) && refused.Type == imap.StatusResponseTypeNo && refused.Code != imap.ResponseCodeUnavailable {
		return &authError{s.IMAP, err}
	}
	if err != nil {
		return fmt.Errorf("log in to the IMAP server: %w", err)
	}
	return nil
}

// smtp connects and logs in; the connection ends with ctx. The caller must call end.
func (s settings) smtp(ctx context.Context) (client *smtp.Client, end func(), err error) {
	conn, config, err := s.dial(ctx, s.SMTP, s.SMTPTLS)
	if err != nil {
		return nil, nil, fmt.Errorf("reach the SMTP server: %w", s.otherwise(ctx, s.SMTP, "smtp_tls", s.SMTPTLS, err))
	}
	release := context.AfterFunc(ctx, func() { _ = conn.Close() })
	end = func() {
		release()
		_ = conn.Close()
	}
	_ = conn.SetDeadline(time.Now().Add(s.greet)) // each command has its own
	if s.SMTPTLS == tlsStart {
		if client, err = smtp.NewClientStartTLS(conn, config); err != nil {
			err = s.otherwise(ctx, s.SMTP, "smtp_tls", s.SMTPTLS, err)
		}
	} else {
		client = smtp.NewClient(conn)
	}
	if err == nil {
		client.CommandTimeout, client.SubmissionTimeout = dialTimeout, submitTimeout
		err = s.smtpLogin(client)
	}
	if err != nil {
		end()
		return nil, nil, err
	}
	return client, end, nil
}

func (s settings) smtpLogin(c *smtp.Client) error {
	if ok, _ := c.Extension("AUTH"); !ok {
		return errors.New("the SMTP server offers no login: is this its port for submission?")
	}
	way := sasl.NewPlainClient("", s.User, s.smtpPassword)
	if !c.SupportsAuth(sasl.Plain) && c.SupportsAuth(sasl.Login) {
		way = sasl.NewLoginClient(s.User, s.smtpPassword)
	}
	err := c.Auth(way)
	if refused := (*smtp.SMTPError)(nil); errors.As(err, &refused) && refused.Code/100 == 5 {
		return &authError{s.SMTP, err}
	}
	return err
}
