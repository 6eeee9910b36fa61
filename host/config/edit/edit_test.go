package edit

import (
	"errors"
	"strings"
	"testing"
)

const sample = `# My Flynn.
system_prompt = "hi" # greet

# The one who answers.
[agent_configs.main]
tool_profile  = "minimal"   # small

[models.default] # the model
provider = "demo"

# Telegram bot.
[channels.telegram]
plugin     = "telegram"
token_file = "secrets/telegram"

[routing]
default_agent = "main"
channels = { telegram = "main", irc = "main" }

[[schedules]]
name = "one" # first
text = """
[channels.fake]
"""
`

func TestEdits(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(*Text) error
		diff string // lines of the difference, without context
	}{
		{"replace a value", func(x *Text) error { return x.Set("coding", "agent_configs", "main", "tool_profile") },
			"-tool_profile  = \"minimal\"   # small\n+tool_profile  = \"coding\"   # small\n"},
		{"a new key is aligned", func(x *Text) error { return x.Set(false, "channels", "telegram", "enabled") }, "+enabled    = false\n"},
		{"a new key at the top", func(x *Text) error { return x.Set("x", "title") }, "+title = \"x\"\n"},
		{"a new table", func(x *Text) error { return x.Set([]string{"telegram:1"}, "access", "owners") },
			"+\n+[access]\n+owners = [\"telegram:1\"]\n"},
		{"a table beside its like", func(x *Text) error {
			return x.Set(Table{"plugin": "irc", "host": "irc.example.org", "port": 6697}, "channels", "irc")
		}, "+[channels.irc]\n+plugin = \"irc\"\n+host = \"irc.example.org\"\n+port = 6697\n+\n"},
		{"a pair of an inline table", func(x *Text) error { return x.Set("main", "routing", "channels", "mail") },
			"-channels = { telegram = \"main\", irc = \"main\" }\n+channels = { telegram = \"main\", irc = \"main\", mail = \"main\" }\n"},
		{"a value of an inline table", func(x *Text) error { return x.Set("other", "routing", "channels", "irc") },
			"-channels = { telegram = \"main\", irc = \"main\" }\n+channels = { telegram = \"main\", irc = \"other\" }\n"},
		{"an element more", func(x *Text) error { return x.Append(Table{"name": "two"}, "schedules") }, "+\n+[[schedules]]\n+name = \"two\"\n"},
		{"a key of an element", func(x *Text) error { return x.Set("deux", "schedules", "[0]", "name") }, "-name = \"one\" # first\n+name = \"deux\" # first\n"},
		{"remove a key", func(x *Text) error { return x.Remove("system_prompt") }, "-system_prompt = \"hi\" # greet\n"},
		{"remove a table with its comment", func(x *Text) error { return x.Remove("channels", "telegram") },
			"-# Telegram bot.\n-[channels.telegram]\n-plugin     = \"telegram\"\n-token_file = \"secrets/telegram\"\n-\n"},
		{"remove from an inline table", func(x *Text) error { return x.Remove("routing", "channels", "telegram") },
			"-channels = { telegram = \"main\", irc = \"main\" }\n+channels = { irc = \"main\" }\n"},
		{"remove an element", func(x *Text) error { return x.Remove("schedules", "[0]") },
			"-\n-[[schedules]]\n-name = \"one\" # first\n-text = \"\"\"\n-[channels.fake]\n-\"\"\"\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			x, err := Parse([]byte(sample))
			if err != nil {
				t.Fatal(err)
			}
			if err := c.edit(x); err != nil {
				t.Fatal(err)
			}
			if got := changed(Diff("a", []byte(sample), x.Bytes())); got != c.diff {
				t.Errorf("changed:\n%s\nwant:\n%s", got, c.diff)
			}
		})
	}
}

func TestRefusedEdits(t *testing.T) {
	for _, c := range []struct {
		name, src string
		edit      func(*Text) error
	}{
		{"a table that is there", "[a.b]\n", func(x *Text) error { return x.Set(Table{"c": 1}, "a", "b") }},
		{"a value in place of a table", "[a.b]\nc = 1\n", func(x *Text) error { return x.Set(1, "a", "b") }},
		{"a key below a value", "a = 1\n", func(x *Text) error { return x.Set(1, "a", "b") }},
		{"an element of a value", "a = [1]\n", func(x *Text) error { return x.Append(Table{"b": 1}, "a") }},
		{"an element of an inline list", "a = [{ b = 1 }]\n", func(x *Text) error { return x.Append(Table{"b": 1}, "a") }},
		{"a value of no kind", "", func(x *Text) error { return x.Set(struct{}{}, "a") }},
		{"a missing key", "a = 1\n", func(x *Text) error { return x.Remove("b") }},
		{"a key of an earlier element", "[[a]]\n[[a]]\n", func(x *Text) error { return x.Set(1, "a", "[0]", "b", "c") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			x, err := Parse([]byte(c.src))
			if err != nil {
				t.Fatal(err)
			}
			if err := c.edit(x); err == nil {
				t.Errorf("no error, and the text is\n%s", x.Bytes())
			}
			if string(x.Bytes()) != c.src {
				t.Errorf("the text has become\n%s", x.Bytes())
			}
		})
	}
	if _, err := Parse([]byte("a = ")); err == nil {
		t.Error("parsed what is no TOML")
	}
	if err := new(Text).Remove("a"); !errors.Is(err, ErrMissing) {
		t.Errorf("got %v", err)
	}
}

// changed returns the lines of a difference that are not context.
func changed(diff string) string {
	var out strings.Builder
	for i, line := range strings.SplitAfter(diff, "\n") {
		if i >= 3 && (strings.HasPrefix(line, "+") || strings.HasPrefix(line, "-")) {
			out.WriteString(line)
		}
	}
	return out.String()
}
