// Command fake runs the mail server of emailtest for flynn plugin dev conform.
package main

import (
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/flynnhost/flynn/plugins/email/emailtest"
	"github.com/flynnhost/flynn/sdk/plugintest/fake"
	"github.com/flynnhost/flynn/sdk/plugintest/platform"
)

func main() { platform.Main(start) }

func start(t platform.TB, report func(fake.Report)) platform.Fake {
	s := emailtest.New(t)
	s.Watch(report)
	return platform.Fake{
		Ready: fake.Ready{Settings: s.Settings(), Secrets: map[string]string{"password": emailtest.Password}},
		Post: func(m fake.Post) error {
			s.Deliver(mail(m))
			return nil
		},
		Disconnect: s.Disconnect,
	}
}

// mail returns a mail by Ann.
func mail(m fake.Post) string {
	head := emailtest.Vouched("example.test") + "From: Ann <ann@example.test>\nTo: " + emailtest.Address + "\nMessage-Id: <" + m.ID + "@example.test>\n" +
		"References: <thread@example.test>\nMime-Version: 1.0\n"
	if m.Media == 0 {
		return head + "Content-Type: text/plain; charset=utf-8\n\n" + m.Text + "\n"
	}
	body := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", m.Media)))
	var lines strings.Builder
	for len(body) > 76 {
		fmt.Fprintln(&lines, body[:76])
		body = body[76:]
	}
	return head + "Content-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: text/plain\n\n" + m.Text +
		"\n--b\nContent-Type: application/octet-stream\nContent-Disposition: attachment; filename=conform.bin\nContent-Transfer-Encoding: base64\n\n" +
		lines.String() + body + "\n--b--\n"
}
