package main

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode"

	"github.com/emersion/go-message"
	_ "github.com/emersion/go-message/charset" // the charsets of the world, for message.Read
	"github.com/emersion/go-message/mail"

	"github.com/flynnhost/flynn/sdk/cut"
)

// The bounds of a mail on its way in.
const (
	maxMail    = 48 << 20  // bytes that are fetched of one
	maxHeader  = 256 << 10 // bytes
	maxText    = 256 << 10 // bytes of one part, before quotations are taken away
	maxParts   = 100
	maxNesting = 8
	maxFiles   = 32
	maxIDs     = 20 // message ids stored for a thread
)

// letter is the part of a mail that this plugin uses.
type letter struct {
	ID         string   // the Message-ID as "<a@b>", or empty
	Thread     []string // the ids of References and In-Reply-To, oldest first
	AnswerTo   string   // the id of In-Reply-To
	From       string   // address in lower case; empty when there is not exactly one that this plugin takes
	Name       string
	To         []string // the addresses of To and Cc, in lower case
	Subject    string
	Results    []string // the Authentication-Results headers, topmost first
	Automatic  bool     // written by a program that expects no answer
	Text       string   // without quotations and signature
	Files      []file
	plain, web strings.Builder
}

// file is a part that is no text.
type file struct {
	Part     string // "1.2", as IMAP counts
	Encoding string // base64, quoted-printable, plain
	Name     string
	Type     string
	Size     int64 // decoded
}

// readMail reads a mail to its end, and fails if its header is malformed. If the body breaks off, the part before is used.
func readMail(r io.Reader) (*letter, error) {
	whole, err := message.ReadWithOptions(r, &message.ReadOptions{MaxHeaderBytes: maxHeader})
	if whole == nil {
		return nil, fmt.Errorf("read mail: %w", err)
	}
	l := &letter{}
	l.header(mail.Header{Header: whole.Header})
	parts := 0
	_ = whole.Walk(func(path []int, e *message.Entity, _ error) error {
		if parts++; parts > maxParts || len(path) > maxNesting {
			return errors.New("too many parts")
		}
		if e.MultipartReader() == nil {
			l.part(path, e)
		}
		return nil
	})
	l.Text = clean(l.plain.String(), maxText)
	if strings.TrimSpace(l.Text) == "" {
		l.Text = clean(textOfHTML(l.web.String()), maxText)
	}
	l.Text = withoutHistory(l.Text)
	return l, nil
}

// part takes one part that holds no others.
func (l *letter) part(path []int, e *message.Entity) {
	kind, params, _ := e.Header.ContentType()
	disposition, more, _ := e.Header.ContentDisposition()
	name := more["filename"]
	if name == "" {
		name = params["name"]
	}
	if disposition != "attachment" && name == "" {
		switch kind {
		case "text/plain", "":
			take(&l.plain, e.Body)
			return
		case "text/html":
			take(&l.web, e.Body)
			return
		}
	}
	if len(l.Files) == maxFiles {
		return
	}
	size, _ := io.Copy(io.Discard, e.Body)
	l.Files = append(l.Files, file{
		Part: partNumber(path), Encoding: encoding(e.Header.Get("Content-Transfer-Encoding")), Name: oneLine(name, 200), Type: oneLine(kind, 100), Size: size,
	})
}

func take(to *strings.Builder, body io.Reader) {
	if to.Len() >= maxText {
		return
	}
	if to.Len() > 0 {
		to.WriteString("\n")
	}
	_, _ = io.Copy(to, io.LimitReader(body, maxText)) // the part before an error is used
}

// partNumber returns the path as IMAP counts.
func partNumber(path []int) string {
	if len(path) == 0 {
		return "1"
	}
	var out []string
	for _, n := range path {
		out = append(out, fmt.Sprint(n+1))
	}
	return strings.Join(out, ".")
}

func encoding(name string) string {
	switch name = strings.ToLower(strings.TrimSpace(name)); name {
	case "base64", "quoted-printable":
		return name
	}
	return "plain"
}

// header reads the header fields.
func (l *letter) header(h mail.Header) {
	if ids := messageIDs(h.Get("Message-Id")); len(ids) == 1 {
		l.ID = ids[0]
	}
	if ids := messageIDs(h.Get("In-Reply-To")); len(ids) > 0 {
		l.AnswerTo = ids[0]
	}
	l.Thread = messageIDs(h.Get("References"))
	if len(l.Thread) == 0 && l.AnswerTo != "" {
		l.Thread = []string{l.AnswerTo}
	}
	l.from(h)
	for _, key := range []string{"To", "Cc"} {
		list, _ := h.AddressList(key)
		for _, a := range list {
			l.To = append(l.To, strings.ToLower(a.Address))
		}
	}
	subject, _ := h.Subject()
	l.Subject = oneLine(subject, 300)
	for fields := h.FieldsByKey("Authentication-Results"); fields.Next(); {
		l.Results = append(l.Results, fields.Value())
	}
	l.Automatic = automatic(h, l.From)
}

// from takes the sender. A mail with several, or with several From lines, has none: programs show different ones of them.
func (l *letter) from(h mail.Header) {
	fields := 0
	for f := h.FieldsByKey("From"); f.Next(); {
		fields++
	}
	list, err := h.AddressList("From")
	if err != nil || fields != 1 || len(list) != 1 || !mailAddress.MatchString(list[0].Address) {
		return
	}
	l.From, l.Name = strings.ToLower(list[0].Address), oneLine(list[0].Name, 100)
}

// automatic reports whether a program wrote the mail, in which case an answer could begin a loop (RFC 3834, and earlier conventions).
func automatic(h mail.Header, from string) bool {
	if v := strings.ToLower(strings.TrimSpace(h.Get("Auto-Submitted"))); v != "" && v != "no" {
		return true
	}
	switch strings.ToLower(strings.TrimSpace(h.Get("Precedence"))) {
	case "bulk", "list", "junk", "auto_reply":
		return true
	}
	for _, key := range []string{"List-Id", "List-Post", "X-Autoreply", "X-Autorespond", "X-Failed-Recipients"} {
		if h.Has(key) {
			return true
		}
	}
	if strings.TrimSpace(h.Get("Return-Path")) == "<>" {
		return true
	}
	kind, _, _ := h.ContentType()
	name, _, _ := strings.Cut(from, "@")
	switch name {
	case "mailer-daemon", "postmaster", "noreply", "no-reply", "donotreply", "do-not-reply":
		return true
	}
	return kind == "multipart/report"
}

var messageID = regexp.MustCompile(`<[!#-'*+\-./0-9=?A-Z^-~]{1,120}@[A-Za-z0-9.:\[\]_-]{1,80}>`)

// messageIDs returns the well-formed ids of a header: the first, which began the thread, and the last ones.
func messageIDs(header string) []string {
	all := messageID.FindAllString(header, -1)
	if len(all) > maxIDs {
		all = append(all[:1:1], all[len(all)-maxIDs+1:]...)
	}
	return all
}

// clean makes text valid for the host: without control characters except tabs and line breaks, and of at most limit bytes.
func clean(s string, limit int) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	return cut.Head(s, limit)
}

// oneLine returns clean text for a header: white space is one space.
func oneLine(s string, limit int) string {
	return clean(strings.Join(strings.Fields(clean(s, 4*limit)), " "), limit)
}
