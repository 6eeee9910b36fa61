package main

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/flynnhost/flynn/sdk/channel"
)

func testDecoder() decoder {
	return decoder{me: "U0BOT", name: func(id string) string {
		return map[string]string{"U1": "ann", "U0BOT": "flynn"}[id]
	}}
}

func TestDecode(t *testing.T) {
	for _, c := range []struct {
		name, source, want string
		entities           []channel.Entity
		mentioned          bool
	}{
		{"plain", "hello", "hello", nil, false},
		{"escaped once, not twice", "a &lt;b&gt; &amp;lt; c", "a <b> &lt; c", nil, false},
		{"somebody", "ask <@U1> please", "ask @ann please", []channel.Entity{{Kind: "mention", Offset: 4, Length: 4, Value: "U1"}}, false},
		{"somebody with a label", "<@U7|carl>!", "@carl!", []channel.Entity{{Kind: "mention", Offset: 0, Length: 5, Value: "U7"}}, false},
		{"somebody unknown", "<@U9>", "@U9", []channel.Entity{{Kind: "mention", Offset: 0, Length: 3, Value: "U9"}}, false},
		{"the address goes", "<@U0BOT>: do it", "do it", nil, true},
		{"flynn in the middle", "is <@U0BOT> there?", "is @flynn there?", []channel.Entity{{Kind: "mention", Offset: 3, Length: 6, Value: "U0BOT"}}, true},
		{"another whose id begins like flynn's", "<@U0BOTX> hi", "@U0BOTX hi", []channel.Entity{{Kind: "mention", Offset: 0, Length: 7, Value: "U0BOTX"}}, false},
		{"channel", "see <#C1|general>", "see #general", []channel.Entity{{Kind: "channel", Offset: 4, Length: 8, Value: "C1"}}, false},
		{"link with text", "<https://a.test/?x=1&amp;y=2|the page>", "the page", []channel.Entity{{Kind: "link", Offset: 0, Length: 8, Value: "https://a.test/?x=1&y=2"}}, false},
		{"bare link", "<https://a.test/>", "https://a.test/", []channel.Entity{{Kind: "link", Offset: 0, Length: 15, Value: "https://a.test/"}}, false},
		{"everybody", "<!here> <!channel> <!subteam^S1|@ops>", "@here @channel @ops", nil, false},
		{"date", "<!date^1392734382^{date}|18 February 2014>", "18 February 2014", nil, false},
		{"not closed", "a <b", "a <b", nil, false},
		{"empty", "a <> b", "a <> b", nil, false},
		{"umlaut before a mark", "für <@U1>", "für @ann", []channel.Entity{{Kind: "mention", Offset: 5, Length: 4, Value: "U1"}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			text, list, mentioned := testDecoder().decode(c.source)
			if text != c.want || !slices.Equal(list, c.entities) || mentioned != c.mentioned {
				t.Errorf("got %q %+v %v", text, list, mentioned)
			}
		})
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range []string{"<@U1> &lt;", "<<<>>>", "<|>", "<!date^|>", "<#C1|x><http://a|b", "\xff<@U0BOT|", "&amp;lt;"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, source string) {
		text, list, _ := testDecoder().decode(source)
		if !utf8.ValidString(text) {
			t.Errorf("%q becomes invalid %q", source, text)
		}
		for _, e := range list {
			if e.Offset < 0 || e.Length <= 0 || e.Offset+e.Length > len(text) {
				t.Errorf("entity %+v outside of %q", e, text)
			}
		}
		// A text that is written and read again is unchanged.
		if back, _, _ := testDecoder().decode(escape(text)); back != text {
			t.Errorf("%q comes back as %q", text, back)
		}
	})
}

func TestNothingCallsAWholeChannel(t *testing.T) {
	for _, marked := range []bool{true, false} {
		for _, text := range []string{"hi <!channel>", "hi <@U1>", "<!subteam^S1>", "`<!here>`", "```\n<!everyone>\n```", "[<!here>](https://a.test)"} {
			if got := dialect(text, marked); strings.Contains(got, "<!") || strings.Contains(got, "<@") {
				t.Errorf("%q (marked %v) becomes %q", text, marked, got)
			}
		}
	}
}

func TestSectionsFit(t *testing.T) {
	for _, text := range []string{"short", strings.Repeat("word & word\n", 1000), strings.Repeat("x", 9000), "```go\n" + strings.Repeat("a := 1 < 2\n", 600) + "```"} {
		for _, marked := range []bool{true, false} {
			list := sections(text, marked)
			if len(list) == 0 || len(list) > maxSections {
				t.Fatalf("%d sections", len(list))
			}
			for _, s := range list {
				if n := utf8.RuneCountInString(s); n == 0 || n > maxSection {
					t.Errorf("a section of %d characters", n)
				}
			}
		}
	}
}
