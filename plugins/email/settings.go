package main

import (
	"crypto/tls"
	"crypto/x509"
	_ "embed"
	"net"
	"regexp"
	"strings"
	"time"

	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/webapi"
)

// settingsSchema is the JSON Schema by which the host checks the settings before it starts the plugin. A test generates it from settings.
//
//go:embed settings.schema.json
var settingsSchema []byte

// settings are the keys of [channels.NAME] that this plugin knows.
type settings struct {
	IMAP     string `json:"imap" doc:"The server that mails come from, as host:port."`
	SMTP     string `json:"smtp" doc:"The server that mails go to, as host:port."`
	IMAPTLS  string `json:"imap_tls" doc:"How the connection is encrypted; missing, it is by the port." enum:"implicit,starttls,none"`
	SMTPTLS  string `json:"smtp_tls" doc:"The same for the server that mails go to." enum:"implicit,starttls,none"`
	Insecure bool   `json:"insecure" doc:"Let none be chosen for a server on this machine." default:"false"`
	CA       string `json:"ca" doc:"PEM text of the authorities to trust instead of those of the system."`
	User     string `json:"user" doc:"The login; missing, it is the address."`
	Address  string `json:"address" doc:"The address of this Flynn, such as flynn@example.org."`
	Name     string `json:"name" doc:"The name that is shown beside it."`
	Mailbox  string `json:"mailbox" doc:"The mailbox that is read."`
	// SentMailbox is the mailbox for copies of sent mails; none by default.
	SentMailbox string `json:"sent_mailbox" doc:"The mailbox for copies of sent mails; none if empty."`
	PollSeconds int    `json:"poll_seconds" doc:"The longest time between two looks at the mailbox."`
	// RequireAuthenticated marks the ids of senders whom the receiving server did not confirm.
	RequireAuthenticated bool   `json:"require_authenticated" doc:"Mark the ids of senders whom the receiving server did not confirm."`
	AuthservID           string `json:"authserv_id" doc:"The name by which the receiving server signs its Authentication-Results."`

	password, smtpPassword string
	greet                  time.Duration // a server has for its first line
	tls                    *tls.Config
}

// The ways to a server.
const (
	tlsImplicit = "implicit"
	tlsStart    = "starttls"
	tlsNone     = "none"
)

// mailAddress is what an address may look like here: RFC 5322's dot-atom in ASCII, without quoted names. It may stand in a header and in an
// SMTP command as it is.
var mailAddress = regexp.MustCompile("^[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,126}[A-Za-z0-9])?$")

var authservID = regexp.MustCompile(`^[A-Za-z0-9._/:-]{1,200}$`)

func newSettings(c channel.Config) (settings, error) {
	s := settings{Name: "Flynn", Mailbox: "INBOX", PollSeconds: 300, RequireAuthenticated: true, greet: 10 * time.Second}
	if err := c.Decode(&s); err != nil {
		return s, err
	}
	s.password, s.smtpPassword = c.Secrets["password"], c.Secrets["smtp_password"]
	if s.smtpPassword == "" {
		s.smtpPassword = s.password
	}
	if s.User == "" {
		s.User = s.Address
	}
	s.Address = strings.ToLower(s.Address)
	var errs channel.FieldErrors
	errs.AddIf(!serverAddress(s.IMAP), "imap", `must be host:port, such as "imap.example.org:993"`)
	errs.AddIf(!serverAddress(s.SMTP), "smtp", `must be host:port, such as "smtp.example.org:465"`)
	s.IMAPTLS, s.SMTPTLS = mode(s.IMAPTLS, s.IMAP, "993"), mode(s.SMTPTLS, s.SMTP, "465")
	for _, way := range []struct{ path, mode, server string }{{"imap_tls", s.IMAPTLS, s.IMAP}, {"smtp_tls", s.SMTPTLS, s.SMTP}} {
		known := way.mode == tlsImplicit || way.mode == tlsStart || way.mode == tlsNone
		errs.AddIf(!known, way.path, `must be "implicit", "starttls" or "none"`)
		errs.AddIf(way.mode == tlsNone && !(s.Insecure && loopback(way.server)), way.path,
			"the password would go over the network unencrypted: none is only for a server on loopback, with insecure = true")
	}
	errs.AddIf(!mailAddress.MatchString(s.Address), "address", `must be Flynn's own address, such as "flynn@example.org"`)
	errs.AddIf(s.Name != oneLine(s.Name, 100), "name", "must be at most 100 characters on one line")
	errs.AddIf(s.Mailbox == "", "mailbox", `must be the name of a mailbox, such as "INBOX"`)
	errs.AddIf(s.PollSeconds < 1 || s.PollSeconds > 1500, "poll_seconds", "must be 1 to 1500")
	errs.AddIf(s.password == "", "secrets.password", "missing: write password_env or password_file")
	errs.AddIf(s.RequireAuthenticated && !authservID.MatchString(s.AuthservID), "authserv_id",
		"missing: write the first word of Authentication-Results in a mail that has come to this mailbox; see the README")
	s.tls = &tls.Config{MinVersion: tls.VersionTLS12}
	if s.CA != "" {
		s.tls.RootCAs = x509.NewCertPool()
		errs.AddIf(!s.tls.RootCAs.AppendCertsFromPEM([]byte(s.CA)), "ca",
			"must be certificates in PEM, from -----BEGIN CERTIFICATE----- on: the text itself, since the plugin reads no files of the machine")
	}
	return s, errs.Err()
}

// mode returns the way to a server where none was chosen.
func mode(chosen, server, implicitPort string) string {
	_, port, _ := net.SplitHostPort(server)
	switch {
	case chosen != "":
		return chosen
	case port == implicitPort:
		return tlsImplicit
	}
	return tlsStart
}

func serverAddress(s string) bool {
	host, port, err := net.SplitHostPort(s)
	return err == nil && host != "" && port != ""
}

func loopback(server string) bool {
	host, _, _ := net.SplitHostPort(server)
	return webapi.Loopback(host)
}

func (s settings) poll() time.Duration { return time.Duration(s.PollSeconds) * time.Second }

// domain returns that of an address.
func domain(address string) string {
	_, d, _ := strings.Cut(address, "@")
	return d
}
