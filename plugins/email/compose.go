package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"strings"
	"time"

	"github.com/emersion/go-message/mail"

	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/markdown"
)

// compose writes the mail of a send. Everything that goes into a header was matched against a strict form or is encoded: no text can add a
// line there.
func (p *plugin) compose(ctx context.Context, s channel.Send, t thread, id string) ([]byte, error) {
	var out bytes.Buffer
	w, err := mail.CreateWriter(&out, p.headerOf(s, t, id))
	if err != nil {
		return nil, err
	}
	if err := writeText(w, s); err != nil {
		return nil, err
	}
	left := int64(maxAttachment)
	for _, a := range s.Attachments {
		n, err := p.attach(ctx, w, a, left)
		if err != nil {
			return nil, fmt.Errorf("attach %q: %w", oneLine(a.Name, 100), err)
		}
		left -= n
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func (p *plugin) headerOf(s channel.Send, t thread, id string) mail.Header {
	var h mail.Header
	h.SetAddressList("From", []*mail.Address{{Name: p.settings.Name, Address: p.settings.Address}})
	h.SetAddressList("To", []*mail.Address{{Address: t.To}})
	h.SetDate(time.Now())
	h.Set("Message-Id", id)
	h.Set("Mime-Version", "1.0")
	subject, automatic := "Message from "+p.settings.Name, "auto-generated"
	if t.Subject != "" {
		subject = "Re: " + t.Subject
	}
	if len(t.IDs) > 0 {
		automatic = "auto-replied"
		h.Set("In-Reply-To", answered(s.ReplyTo, t))
		h.Set("References", strings.Join(t.IDs, " "))
	}
	h.SetSubject(oneLine(subject, 300))
	h.Set("Auto-Submitted", automatic) // RFC 3834: other programs do not answer to it
	return h
}

// answered returns the mail that is answered: the one that the host names, if it is of this thread, or the last one.
func answered(replyTo string, t thread) string {
	for _, id := range t.IDs {
		if replyTo == id || strings.HasPrefix(replyTo, id+"/") {
			return id
		}
	}
	return t.IDs[len(t.IDs)-1]
}

// writeText writes the text; Markdown in both of its forms.
func writeText(w *mail.Writer, s channel.Send) error {
	text := s.Text
	if s.PossibleDuplicate {
		text = "(possibly again) " + text
	}
	both, err := w.CreateInline()
	if err != nil {
		return err
	}
	forms := []struct{ kind, text string }{{"text/plain", text}}
	if s.Markdown {
		forms[0].text = markdown.Render(text, markdown.Plain)
		page := "<!DOCTYPE html>\n<html><body>\n" + markdown.Render(text, markdown.HTML) + "\n</body></html>\n"
		forms = append(forms, struct{ kind, text string }{"text/html", page})
	}
	for _, form := range forms {
		var h mail.InlineHeader
		h.SetContentType(form.kind, map[string]string{"charset": "utf-8"})
		part, err := both.CreatePart(h)
		if err != nil {
			return err
		}
		if _, err := io.WriteString(part, strings.ReplaceAll(form.text, "\n", "\r\n")); err != nil {
			return err
		}
		if err := part.Close(); err != nil {
			return err
		}
	}
	return both.Close()
}

var errTooLarge = errors.New("the attachments of a mail may have at most 25 MiB together")

// attach copies media of the host into the mail and returns their size.
func (p *plugin) attach(ctx context.Context, w *mail.Writer, a channel.Attachment, left int64) (int64, error) {
	m, err := p.Host.OpenMedia(ctx, a.Handle)
	if err != nil {
		return 0, err
	}
	if m.Size > left {
		return 0, errTooLarge
	}
	var h mail.AttachmentHeader
	kind, _, err := mime.ParseMediaType(a.Type)
	if err != nil || !strings.Contains(kind, "/") || strings.HasPrefix(kind, "multipart/") || strings.HasPrefix(kind, "message/") {
		kind = "application/octet-stream"
	}
	h.SetContentType(kind, nil)
	name := oneLine(a.Name, 200)
	if name == "" {
		name = "file"
	}
	h.SetFilename(name)
	part, err := w.CreateAttachment(h)
	if err != nil {
		return 0, err
	}
	n, err := io.Copy(part, io.LimitReader(m.Body, left+1))
	if err != nil {
		return n, err
	}
	if n > left {
		return n, errTooLarge
	}
	return n, part.Close()
}
