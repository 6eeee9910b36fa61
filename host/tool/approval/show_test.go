package approval

import (
	"encoding/json"
	"html"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/flynnhost/flynn/host/tool/consent"
	"github.com/flynnhost/flynn/sdk/markdown"
	"github.com/flynnhost/flynn/sdk/plugintest/rude"
)

func requestOf(args string) consent.Approval {
	return consent.Approval{
		ID: "ABC", Agent: "coder", Requester: "irc:bob", Tool: "shell.exec", Where: "host", Dir: "/work", Args: []byte(args), Reach: ReachShell,
		Reasons: []string{"guard: commands ask"}, Expires: time.Now().Add(15 * time.Minute),
	}
}

func TestTextShowsTheWholeCall(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		name, args string
		has, lack  []string
	}{
		{"everything", `{"command":"ls -l"}`, []string{"`ls -l`", "coder", "irc:bob", "on the host", "`/approve ABC`", "`/deny ABC`", "15 minutes", "`/show ABC`"}, []string{"{", "guard"}},
		{"operators", `{"command":"a \u0026\u0026 b \u003c c \u003e d"}`, []string{"`a && b < c > d`"}, []string{`\u`}},
		{"two lines", `{"command":"echo a\necho b"}`, []string{"`echo a ⏎ echo b`"}, nil},
		{"other arguments", `{"command":"ls","cwd":"sub","timeout":5000}`, []string{"`ls  # with cwd: sub, timeout: 5000`"}, nil},
		{"a tool without a command", `{"page":"a & b","tags":["<x>"]}`, []string{"`page: a & b, tags: [\"<x>\"]`"}, []string{`\u`}},
		{"backticks", "{\"command\":\"echo `id` ```\"}", []string{"```` echo `id` ``` ````"}, nil},
		{"characters that hide", "{\"command\":\"ls \u202e\u200b\\u001b[2K\"}", []string{`⟨U+202E⟩⟨U+200B⟩⟨U+001B⟩[2K`}, []string{"\u202e", "\x1b"}},
		{"the notation itself", "{\"command\":\"a ⏎ ⟨U+202E⟩\"}", []string{"a ⟨U+23CE⟩ ⟨U+27E8⟩U+202E⟩"}, []string{"⏎"}},
		{"longer than a notice", `{"command":"` + strings.Repeat(`echo x\n`, 100) + `"}`, []string{"more lines (700 bytes in all) are not shown", "`/show ABC`", "`/deny ABC`"}, []string{"/approve"}},
		{"one long line", `{"command":"` + strings.Repeat(`é`, 400) + `"}`, []string{"500 more bytes are not shown"}, []string{"/approve", "\ufffd"}},
		{"too long for a chat", `{"command":"` + strings.Repeat("x", 5000) + `"}`, []string{"flynn approvals show ABC", "web page", "`/deny ABC`"}, []string{"/approve", "/show"}},
		{"no object", `[1]`, []string{"`[1]`"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := Text(requestOf(c.args), Offer{}, now)
			for _, s := range c.has {
				if !strings.Contains(text, s) {
					t.Errorf("%q is not in\n%s", s, text)
				}
			}
			for _, s := range c.lack {
				if strings.Contains(text, s) {
					t.Errorf("%q is in\n%s", s, text)
				}
			}
		})
	}
	a := requestOf(`{"command":"ls"}`)
	a.Requester = "irc:[x](http://evil)`\nb"
	if text := Text(a, Offer{}, now); !strings.Contains(text, `\[x](http://evil)' ⏎ b`) {
		t.Errorf("markup in a name gives\n%s", text)
	}
}

// TestANoticeIsShortAndHidesNothing holds every rude command and text against what a notice promises.
func TestANoticeIsShortAndHidesNothing(t *testing.T) {
	for _, v := range rude.Texts() {
		t.Run(v.Name, func(t *testing.T) {
			command := strings.ToValidUTF8(v.Text, "\ufffd")
			args, err := json.Marshal(map[string]any{"command": command, "cwd": command})
			if err != nil {
				t.Fatal(err)
			}
			if len(command) > 1000 {
				args, _ = json.Marshal(map[string]any{"command": command})
			}
			a := requestOf(string(args))
			o := Offer{Session: true, Standing: true, SessionShell: "x", Unshown: []string{command}}
			text := Text(a, o, time.Now())
			if lines := strings.Split(text, "\n"); len(lines) > 4 {
				t.Errorf("it has %d lines:\n%.2000s", len(lines), text)
			}
			if len(text) > 4*maxBrief {
				t.Errorf("it has %d bytes", len(text))
			}
			for _, c := range text + Call(a.Args) {
				if c != '\n' && !unicode.IsPrint(c) {
					t.Errorf("it has %U", c)
				}
			}
			if approvable := strings.Contains(text, "`/approve ABC`"); approvable != Brief(a) {
				t.Errorf("it can be approved: %v, and it is shown whole: %v", approvable, Brief(a))
			}
			if Brief(a) && !strings.Contains(text, strings.ReplaceAll(visible(command), "\n", " ⏎ ")) {
				t.Errorf("the command is not in\n%s", text)
			}
			if got := Call(a.Args); !strings.HasPrefix(got, visible(command)) || strings.Contains(got, `\u0026`) && !strings.Contains(command, `\u0026`) {
				t.Errorf("the call is shown as\n%.2000s", got)
			}
			if details := Details(a, o, time.Now()); Showable(a) && !strings.Contains(details, Call(a.Args)) {
				t.Errorf("the details are\n%.2000s", details)
			}
		})
	}
}

// TestDifferentCallsLookDifferent: a person tells apart what a program would tell apart.
func TestDifferentCallsLookDifferent(t *testing.T) {
	seen := map[string]string{}
	for _, v := range append(rude.Texts(), rude.Value{Name: "as_escaped", Text: "a⟨U+202E⟩gnp.exe⟨U+202C⟩ ⟨U+2066⟩isolated⟨U+2069⟩ ⟨U+200F⟩mark"}) {
		if !json.Valid([]byte(`"` + v.Text + `"`)) {
			v.Text = strings.ToValidUTF8(v.Text, "\ufffd")
		}
		args, _ := json.Marshal(map[string]string{"command": v.Text})
		if other, ok := seen[brief(args)]; ok && other != v.Text {
			t.Errorf("%s is shown like another text", v.Name)
		}
		seen[brief(args)] = v.Text
	}
}

// TestANoticeInEveryChat: what a platform shows of a notice has four lines at most, and the command in it, whatever the platform's own markup is.
func TestANoticeInEveryChat(t *testing.T) {
	for _, d := range []markdown.Dialect{markdown.Plain, markdown.HTML, markdown.Discord, markdown.Slack, markdown.TelegramHTML, markdown.WhatsApp} {
		for _, v := range rude.Commands() {
			args, _ := json.Marshal(map[string]string{"command": v.Text})
			a := requestOf(string(args))
			text := Text(a, Offer{Session: true, Standing: true, Unshown: []string{"Makefile (make)"}}, time.Now())
			got := markdown.Render(text, d)
			lines := strings.FieldsFunc(strings.ReplaceAll(got, "<br/>\n", "\n"), func(c rune) bool { return c == '\n' })
			if len(lines) > 4 {
				t.Errorf("%v, %s: %d lines:\n%s", d, v.Name, len(lines), got)
			}
			if v.Name == "and" && !strings.Contains(html.UnescapeString(lines[0]), "echo a && echo b") {
				t.Errorf("%v shows %q", d, lines[0])
			}
		}
	}
}
