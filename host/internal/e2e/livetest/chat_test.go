package livetest

import (
	"strings"
	"testing"
)

func TestChatFromAPipe(t *testing.T) {
	t.Parallel()
	s := newSite(t, twoAgents+demoModels)
	s.start()
	for _, c := range []struct {
		name, in  string
		args      []string
		out, errs string
		failed    bool
	}{
		{name: "two lines", in: "first words\nsecond words\n", out: "You said: first words\nYou said: second words\n"},
		{name: "another conversation", in: "elsewhere\n", args: []string{"-c", "other"}, out: "You said: elsewhere\n"},
		{
			name: "failed turn", in: "!fail\nafter\n", args: []string{"-c", "failing"}, failed: true,
			out: "You said: after\n", errs: "failed: I could not answer this: the model is too busy right now. Please try again later.\n",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, errs, err := s.flynn(c.in, append([]string{"chat"}, c.args...)...)
			if out != c.out || !strings.Contains(errs, c.errs) || c.errs == "" && errs != "" || (err != nil) != c.failed {
				t.Errorf("stdout %q, stderr %q, %v; want %q, %q", out, errs, err, c.out, c.errs)
			}
		})
	}

	// Neither sees the other, and the web page's conversation of the same name is a third one.
	for _, c := range []struct{ channel, conversation, has, hasNot string }{
		{"terminal", "main", "first words", "elsewhere"},
		{"terminal", "other", "elsewhere", "first words"},
		{"web", "main", "", "first words"},
	} {
		all := ""
		for _, e := range entriesOf(s, c.channel, c.conversation) {
			all += e.Text + "\n"
		}
		if !strings.Contains(all, c.has) || strings.Contains(all, c.hasNot) {
			t.Errorf("%s:%s holds %q", c.channel, c.conversation, all)
		}
	}
}

func TestLocalConversationsDoNotHearEachOther(t *testing.T) {
	t.Parallel()
	s := newSite(t, twoAgents+demoModels)
	s.start()
	type heard struct {
		out string
		err error
	}
	results := map[string]chan heard{}
	for _, name := range []string{"one", "two"} {
		result := make(chan heard, 1)
		results[name] = result
		go func() {
			lines := strings.Repeat("!slow 20 I am "+name+"\n", 10)
			out, errs, err := s.flynn(lines, "chat", "--conversation", name)
			result <- heard{out + errs, err}
		}()
	}
	for name, result := range results {
		h := <-result
		if want := strings.Repeat("You said: I am "+name+"\n", 10); h.out != want || h.err != nil {
			t.Errorf("%s heard %q, %v", name, h.out, h.err)
		}
	}
}
