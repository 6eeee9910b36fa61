package markdown_test

import (
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/flynnhost/flynn/sdk/markdown"
)

func TestSplit(t *testing.T) {
	for _, c := range []struct {
		name   string
		source string
		limit  int
		want   []string
	}{
		{"nothing", " \n", 10, nil},
		{"fits", "one two", 10, []string{"one two"}},
		{"at an empty line", "one two\nthree\n\nfour five six", 22, []string{"one two\nthree", "four five six"}},
		{"at a line", "one two three\nfour five six\nseven", 30, []string{"one two three\nfour five six", "seven"}},
		{"at a sentence", "One two. Three four five six seven", 20, []string{"One two.", "Three four five six", "seven"}},
		{"at a word", "aaaa bbbb cccc dddd", 10, []string{"aaaa bbbb", "cccc dddd"}},
		{"within a word", "aaaabbbbcccc", 4, []string{"aaaa", "bbbb", "cccc"}},
		{"not within a letter", "a👩‍👩‍👧b👩‍👩‍👧", 6, []string{"a👩‍👩‍👧", "b👩‍👩‍👧"}},
		{
			"code is kept whole", "text before the code\n```go\nf()\n```\nafter", 30,
			[]string{"text before the code", "```go\nf()\n```\nafter"},
		},
		{
			"code that has to be cut", "```go\none()\ntwo()\nthree()\nfour()\n```", 26,
			[]string{"```go\none()\ntwo()\n```", "```go\nthree()\nfour()\n```"},
		},
		{
			"code in a list in a quote", "> - item\n>   ```sh\n>   one\n>   two two\n>   ```\n> end", 32,
			[]string{"> - item", "> ```sh\n> one\n> two two\n> ```", "> end"},
		},
		{"a quote", "> aaaa bbbb cccc dddd", 14, []string{"> aaaa bbbb", "> cccc dddd"}},
		{
			"a list goes on", "3. one one\n4. two two\n   - deep deep\n5. three", 22,
			[]string{"3. one one\n4. two two", "- deep deep\n5. three"},
		},
		{
			"a table's head again", "| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |\n| 5 | 6 |", 40,
			[]string{"| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |", "| a | b |\n|---|---|\n| 5 | 6 |"},
		},
		{"bold goes on", "**aaaa bbbb cccc** dddd", 14, []string{"**aaaa bbbb**", "**cccc** dddd"}},
		{"a link is kept whole", "aaaa [bb cc](http://x.y) dd", 22, []string{"aaaa", "[bb cc](http://x.y) dd"}},
		{"no list begins", "aaaa bbbb - cccc", 10, []string{"aaaa bbbb", `\- cccc`}},
		{"no room for the code's marks", "```go\nabcdef\n```", 4, []string{"```g", "o\n", "abcd", "ef\n`", "``"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := markdown.Split(c.source, c.limit, utf8.RuneCountInString)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestRender(t *testing.T) {
	for _, c := range []struct {
		name    string
		dialect markdown.Dialect
		source  string
		want    string
	}{
		{"telegram: no code within bold", markdown.TelegramHTML, "**a `b` c**", "<b>a</b> <code>b</code> <b>c</b>"},
		{"telegram: no quote within a quote", markdown.TelegramHTML, "> a\n> > b", "<blockquote>a\n\nb</blockquote>"},
		{"telegram: no code in a link", markdown.TelegramHTML, "[`a`](http://b.c)", `<a href="http://b.c">a</a>`},
		{"telegram: an address of its own scheme", markdown.TelegramHTML, "[a](tg://user?id=1)", "a (tg://user?id=1)"},
		{"telegram: language", markdown.TelegramHTML, "```c++\n<\n```", `<pre><code class="language-c++">&lt;</code></pre>`},
		{"telegram: no language", markdown.TelegramHTML, "```a\"b\n<\n```", `<pre>&lt;</pre>`},
		{"slack: a channel is not called", markdown.Slack, "<!channel> <@U1> &lt;!here>", "&lt;!channel&gt; &lt;@U1&gt; &lt;!here&gt;"},
		{"slack: lines within bold", markdown.Slack, "**a\nb**", "*a*\n*b*"},
		{"slack: a bar in an address", markdown.Slack, "[a|b](http://x.y/|z)", "<http://x.y/%7Cz|a¦b>"},
		{"slack: no quote begins", markdown.Slack, `\> a`, "\u200b&gt;\u200b a"},
		{"slack: bold and italic side by side", markdown.Slack, "**a** _b_", "*a* _b_"},
		{"discord: no heading begins", markdown.Discord, `\# a`, `\# a`},
		{"discord: no list begins", markdown.Discord, "1\\. a", `1\. a`},
		{"discord: people and emoji stay", markdown.Discord, "<@12> <#3> <:x:4> <t:5:R> <@&6>", `<@12> <#3> <:x:4> <t:5:R> \<@&6>`},
		{"discord: underscores of an address", markdown.Discord, "http://a.b/c_d_e", "http://a.b/c_d_e"},
		{"discord: an address that says another", markdown.Discord, "[http://a.b](http://c.d)", "http://a.b (http://c.d)"},
		{"discord: a mark in a word", markdown.Discord, "a*b*c", "a*b*c"},
		{"discord: ticks in code", markdown.Discord, "`` a`b ``", "`` a`b ``"},
		{"discord: code in a quote", markdown.Discord, "> ```\n> a\n> ```", "> ```\n> a\n> ```"},
		{"whatsapp: a link", markdown.WhatsApp, "[a](https://b.c)", "a (https://b.c)"},
		{"plain: mail", markdown.Plain, "<a@b.org>", "a@b.org"},
		{"plain: an entity behind a backslash", markdown.Plain, `\&lt; &lt; &nosuch;`, "&lt; < &nosuch;"},
		{"html: break", markdown.HTML, "a\\\nb", "<p>a<br/>\nb</p>"},
		{"html: attributes do not get out", markdown.HTML, `[a](<http://b.c/"onclick=x>)`, `<p><a href="http://b.c/%22onclick=x">a</a></p>`},
		{"html: a list", markdown.HTML, "3. a\n4. b", "<ol start=\"3\">\n<li>a</li>\n<li>b</li>\n</ol>"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, markdown.Render(c.source, c.dialect)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
