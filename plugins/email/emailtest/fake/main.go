// Command fake runs the mail server of emailtest for flynn plugin conform.
package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/emersion/go-message"

	"github.com/flynnhost/flynn/plugins/email/emailtest"
	"github.com/flynnhost/flynn/sdk/plugintest/fake"
	"github.com/flynnhost/flynn/sdk/plugintest/fake/standalone"
)

func main() {
	fake.Main(func(report func(fake.Report)) (fake.Ready, fake.Platform, error) {
		t := standalone.New()
		p := &platform{t: t, server: emailtest.New(t), report: report}
		p.watching.Go(p.watch)
		return fake.Ready{Settings: p.server.Settings(), Secrets: map[string]string{"password": emailtest.Password}}, p, nil
	})
}

type platform struct {
	t        *standalone.TB
	server   *emailtest.Server
	report   func(fake.Report)
	watching sync.WaitGroup
}

// Post implements fake.Platform.
func (p *platform) Post(m fake.Post) error {
	head := emailtest.Vouched("example.test") + "From: Ann <ann@example.test>\nTo: " + emailtest.Address + "\nMessage-Id: <" + m.ID + "@example.test>\n" +
		"References: <thread@example.test>\nMime-Version: 1.0\n"
	if m.Media == 0 {
		p.server.Deliver(head + "Content-Type: text/plain; charset=utf-8\n\n" + m.Text + "\n")
		return nil
	}
	body := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", m.Media)))
	var lines strings.Builder
	for len(body) > 76 {
		fmt.Fprintln(&lines, body[:76])
		body = body[76:]
	}
	p.server.Deliver(head + "Content-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: text/plain\n\n" + m.Text +
		"\n--b\nContent-Type: application/octet-stream\nContent-Disposition: attachment; filename=conform.bin\nContent-Transfer-Encoding: base64\n\n" +
		lines.String() + body + "\n--b--\n")
	return nil
}

// Disconnect implements fake.Platform.
func (p *platform) Disconnect() { p.server.Disconnect() }

// Close implements fake.Platform.
func (p *platform) Close() {
	p.t.Close()
	p.watching.Wait()
}

// watch reports what Flynn sends.
func (p *platform) watch() {
	for n := 0; p.t.Context().Err() == nil; {
		all := p.server.Sent(p.t.Context(), n+1)
		for ; n < len(all); n++ {
			p.report(fake.Report{Shown: &fake.Shown{Text: plain(all[n].Raw)}})
		}
	}
}

// plain is the text of a mail.
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
