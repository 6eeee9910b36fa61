package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf8"

	"github.com/flynnhost/flynn/plugins/email/emailtest"
	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/plugintest"
)

func TestVouched(t *testing.T) {
	const from = "ann@example.org"
	for _, c := range []struct {
		name    string
		headers []string
		want    bool
	}{
		{"DMARC", []string{"mx.x; dmarc=pass (p=NONE sp=NONE) header.from=example.org"}, true},
		{"DMARC in capitals, with a version and space", []string{"MX.X 1;\r\n\tDMARC = Pass header.from = Example.ORG"}, true},
		{"DMARC of another domain", []string{"mx.x; dmarc=pass header.from=evil.org"}, false},
		{"DMARC of no domain", []string{"mx.x; dmarc=pass"}, false},
		{"DMARC that failed outweighs", []string{"mx.x; dkim=pass header.d=example.org; dmarc=fail header.from=example.org"}, false},
		{"no policy, but a signature", []string{"mx.x; dmarc=none header.from=example.org; dkim=pass header.d=example.org"}, true},
		{"signature of the domain", []string{`mx.x; dkim=pass reason="good; really" header.d=example.org header.s=a`}, true},
		{"signature by its user", []string{"mx.x; dkim=pass header.i=@example.org"}, true},
		{"signature of somebody else", []string{"mx.x; dkim=pass header.d=evil.org"}, false},
		{"signature of a domain below", []string{"mx.x; dkim=pass header.d=a.example.org"}, false},
		{"signature of a domain that ends alike", []string{"mx.x; dkim=pass header.d=ple.org"}, false},
		{"signature of everything", []string{"mx.x; dkim=pass header.d=org"}, false},
		{"one signature of two is enough", []string{"mx.x; dkim=fail header.d=example.org; dkim=pass header.d=example.org"}, true},
		{"SPF of the address", []string{"mx.x; spf=pass smtp.mailfrom=bounce@example.org"}, true},
		{"SPF of a domain", []string{"mx.x; spf=pass smtp.mailfrom=example.org"}, true},
		{"SPF of somebody else", []string{"mx.x; spf=pass smtp.mailfrom=ann@example.org@evil.org"}, false},
		{"SPF that is soft", []string{"mx.x; spf=softfail smtp.mailfrom=example.org"}, false},
		{"another server", []string{"mx.evil; dmarc=pass header.from=example.org"}, false},
		{"the first one of the server counts", []string{"mx.x; dmarc=fail header.from=example.org", "mx.x; dmarc=pass header.from=example.org"}, false},
		{"below another server", []string{"relay.x; none", "mx.x; dmarc=pass header.from=example.org"}, true},
		{"below a malformed one", []string{`mx.x; dmarc="pass`, "mx.x; dmarc=pass header.from=example.org"}, false},
		{"in a comment", []string{"mx.x; (dmarc=pass header.from=example.org) none"}, false},
		{"in a quotation", []string{`mx.x; spf=fail smtp.mailfrom="x; dmarc=pass header.from=example.org"`}, false},
		{"twice the same property", []string{"mx.x; dmarc=pass header.from=evil.org header.from=example.org"}, false},
		{"a server in a comment", []string{"(mx.x;) mx.evil; dmarc=pass header.from=example.org"}, false},
		{"none", []string{"mx.x; none"}, false},
		{"nothing", nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := vouched(c.headers, "mx.x", from); got != c.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestWithoutHistory(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"nothing to cut", "a\nb", "a\nb"},
		{"answered above", "yes\n\nOn Mon, 1 Jan 2024 at 10:00, Flynn <f@x.org> wrote:\n> what?\n> more\n", "yes"},
		{"a line in two", "yes\n\nOn Mon, 1 Jan 2024 at 10:00, Flynn with a long name\n<f@x.org> wrote:\n\n> what?\n", "yes"},
		{"in German", "ja\n\nAm 1.1.2024 um 10:00 schrieb Flynn:\n> was?\n", "ja"},
		{"answered below", "On Monday Flynn wrote:\n> what?\n\nyes", "yes"},
		{"answered between", "On Monday Flynn wrote:\n> a?\nyes\n> b?\nno", "On Monday Flynn wrote:\n> a?\nyes\n> b?\nno"},
		{"Outlook", "yes\n\n-----Original Message-----\nFrom: Flynn\nwhat?", "yes"},
		{"Outlook with a line", "yes\n________________________________\nFrom: Flynn <f@x.org>\nSent: Monday\nwhat?", "yes"},
		{"signature", "yes\n-- \nAnn\nExample Inc.", "yes"},
		{"a rule is no signature", "yes\n---\nno", "yes\n---\nno"},
		{"nothing but quotation", "> only this", "> only this"},
		{"somebody wrote, in the middle", "On Monday she wrote:\nsomething else", "On Monday she wrote:\nsomething else"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := withoutHistory(c.text); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestTextOfHTML(t *testing.T) {
	for _, c := range []struct{ name, source, want string }{
		{"words and spaces", "<p>a  <b>b</b>c\nd</p>", "a bc d"},
		{"paragraphs and lines", "<p>a</p><p>b<br>c</p>", "a\n\nb\nc"},
		{"lists", "x<ul><li>a</li><li>b</li></ul>", "x\n- a\n- b"},
		{"what nobody sees", "<head><title>t</title><style>s</style></head><script>x('<p>')</script>a", "a"},
		{"quotation", "a<blockquote>b<blockquote>c</blockquote></blockquote>d", "a\n> b\n>> c\nd"},
		{"entities", "a &lt;b&gt; &amp;", "a <b> &"},
		{"cells", "<table><tr><td>a</td><td>b</td></tr></table>", "a b"},
		{"broken", "</blockquote><p>a<b", "a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := textOfHTML(c.source); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestBounds(t *testing.T) {
	nested := strings.Repeat("Content-Type: multipart/mixed; boundary=b\n\n--b\n", 50) + "Content-Type: text/plain\n\nx\n"
	var wide strings.Builder
	wide.WriteString("Content-Type: multipart/mixed; boundary=b\n\n")
	for range 500 {
		wide.WriteString("--b\nContent-Disposition: attachment; filename=x\n\ny\n")
	}
	for name, raw := range map[string]string{
		"parts in parts": nested, "many parts": wide.String(), "a long text": "Content-Type: text/plain\n\n" + strings.Repeat("x", 4*maxText),
		"many ids": "References: " + strings.Repeat("<a@b> ", 5000) + "\n\nx",
	} {
		l, err := readMail(strings.NewReader(raw))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(l.Files) > maxFiles || len(l.Text) > maxText || len(l.Thread) > maxIDs {
			t.Errorf("%s: %d files, %d bytes, %d ids", name, len(l.Files), len(l.Text), len(l.Thread))
		}
	}
	if _, err := readMail(strings.NewReader("Subject: " + strings.Repeat("x", 2*maxHeader) + "\n\nx")); err == nil {
		t.Error("a header without end was read")
	}
}

// sized is a mail of which the server says how long it is.
type sized struct {
	io.Reader
	size int64
}

// Size implements imap.LiteralReader.
func (s sized) Size() int64 { return s.size }

func TestHalfAMailIsNone(t *testing.T) {
	raw := letterOf("a", "", strings.Repeat("word ", 100))
	broken := errors.New("broken")
	for _, c := range []struct {
		name string
		from sized
		ok   bool
		want error
	}{
		{"whole", sized{strings.NewReader(raw), int64(len(raw))}, true, nil},
		{"cut off in the text", sized{strings.NewReader(raw[:len(raw)-50]), int64(len(raw))}, true, io.ErrUnexpectedEOF},
		{"broken in the header", sized{io.MultiReader(strings.NewReader(raw[:20]), iotest.ErrReader(broken)), int64(len(raw))}, false, broken},
		{"no mail at all", sized{strings.NewReader("\x00\n\n"), 3}, false, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if l, err := readWhole(c.from); (l != nil) != c.ok || !errors.Is(err, c.want) {
				t.Errorf("%+v, %v", l, err)
			}
		})
	}
}

func TestRemembered(t *testing.T) {
	var th thread
	for i := range 3 * maxIDs {
		th.add(fmt.Sprintf("<%d@x>", i))
	}
	if len(th.IDs) != maxIDs || th.IDs[0] != "<0@x>" || th.IDs[maxIDs-1] != fmt.Sprintf("<%d@x>", 3*maxIDs-1) {
		t.Errorf("ids %v", th.IDs)
	}
	p := &plugin{}
	server := emailtest.New(t)
	plugintest.Start(t, p, plugintest.Config{Settings: server.Settings(), Secrets: map[string]string{"password": emailtest.Password}, Permissions: []string{"kv"}}).
		WaitStatus(channel.StateReady)
	for i := range 30 {
		if err := p.threads.put(t.Context(), fmt.Sprint("c", i), thread{At: time.Unix(int64(i), 0)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.threads.forget(t.Context(), 20); err != nil {
		t.Fatal(err)
	}
	for i := range 30 {
		if _, found, err := p.threads.get(t.Context(), fmt.Sprint("c", i)); err != nil || found != (i >= 12) {
			t.Errorf("conversation %d: %v, %v", i, found, err)
		}
	}
}

func FuzzMail(f *testing.F) {
	f.Add([]byte(letterOf("a", "Subject: =?utf-8?q?x?=\nReferences: <a@b> <c@d>\n", "hello\n> x")))
	f.Add([]byte("From: =?iso-8859-1?q?=E9?= <a@b.c>\nContent-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: text/html; charset=utf-16\n\n<p>x\n--b\nContent-Type: image/png; name=\"a\xff\"\nContent-Transfer-Encoding: base64\n\nAAEC\n--b--"))
	f.Add([]byte("From: a@b.c\nContent-Type: multipart/alternative; boundary=\"\"\nContent-Transfer-Encoding: x\n\n--\n\n--\n"))
	s := settings{Address: emailtest.Address, AuthservID: emailtest.AuthservID, RequireAuthenticated: true}
	f.Fuzz(func(t *testing.T, raw []byte) {
		l, err := readMail(strings.NewReader(string(raw)))
		if err != nil {
			return
		}
		e, ok := s.event(l, position{Validity: 1, UID: 1})
		if !ok {
			return
		}
		words := []string{e.ID, e.Conversation.ID, e.Sender.ID, e.Sender.Name, e.Text, e.ReplyTo}
		for _, a := range e.Attachments {
			if _, err := parseHandle(a.Handle); err != nil {
				t.Errorf("handle %q", a.Handle)
			}
			words = append(words, a.Name, a.Type)
		}
		for _, word := range words {
			if !utf8.ValidString(word) || strings.Contains(word, "\x00") {
				t.Errorf("%q is no text", word)
			}
		}
		if sender, thread := splitConversation(e.Conversation.ID); sender != e.Sender.ID || thread == "" || len(e.Conversation.ID) > 256 || len(e.ID) > 256 {
			t.Errorf("conversation %q, event %q", e.Conversation.ID, e.ID)
		}
		if !e.Sender.Self && e.Sender.ID[0] != '?' && !strings.Contains(string(raw), emailtest.AuthservID) && !strings.Contains(strings.ToLower(string(raw)), emailtest.AuthservID) {
			t.Errorf("%s is believed", e.Sender.ID)
		}
	})
}

func FuzzResults(f *testing.F) {
	f.Add(`mx.x 1; dmarc=pass (p=NONE (x)) header.from=example.org; dkim/1=pass reason="a;\"b" header.i=@x`)
	f.Add("mx.x; none")
	f.Add(`a = = "b`)
	f.Fuzz(func(t *testing.T, header string) {
		r, err := parseResults(header)
		if err == nil && len(r.found) >= maxResults {
			t.Errorf("%d results", len(r.found))
		}
		// Text in a quotation or a comment proves nothing.
		inert := strings.NewReplacer(`"`, "", `\`, "", "(", "", ")", "").Replace(header)
		for _, hidden := range []string{`mx.x; spf=none smtp.mailfrom="` + inert + `"`, "mx.x; none (" + inert + ")"} {
			if vouched([]string{hidden}, "mx.x", "ann@example.org") {
				t.Errorf("%q is believed", hidden)
			}
		}
	})
}

func FuzzQuote(f *testing.F) {
	f.Add("yes\n\nOn Monday Flynn wrote:\n> what?\n-- \nAnn")
	f.Add("On Monday Flynn wrote:\n> what?\n\nyes")
	f.Add("<p>a<blockquote>b</blockquote><li>c")
	f.Fuzz(func(t *testing.T, text string) {
		short := withoutHistory(text)
		if len(short) > len(text) || strings.TrimSpace(text) != "" && short == "" {
			t.Errorf("%q became %q", text, short)
		}
		lines := map[string]bool{}
		for line := range strings.SplitSeq(strings.ReplaceAll(text, "\r\n", "\n"), "\n") {
			lines[strings.TrimSpace(line)] = true
		}
		for line := range strings.SplitSeq(short, "\n") {
			if !lines[strings.TrimSpace(line)] && !lines[strings.TrimSpace(strings.ReplaceAll(line, "\r", ""))] {
				t.Errorf("%q was not there", line)
			}
		}
		_ = clean(textOfHTML(text), maxText)
	})
}
