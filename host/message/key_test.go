package message

import "testing"

func TestSenderAndConversation(t *testing.T) {
	for text, want := range map[string]struct {
		channel, id string
		ok          bool
	}{
		"irc:ann":             {"irc", "ann", true},
		"matrix:@ann:example": {"matrix", "@ann:example", true},
		"irc:":                {"irc", "", true},
		"irc":                 {"irc", "", false},
		"":                    {"", "", false},
	} {
		s := SenderKey(text)
		if instance, id, ok := s.Cut(); instance != want.channel || id != want.id || ok != want.ok || s.Channel() != instance || s.ID() != id {
			t.Errorf("the sender key %q is %q and %q, %v", text, instance, id, ok)
		}
		c := ConversationKey(text)
		if instance, id, ok := c.Cut(); instance != want.channel || id != want.id || ok != want.ok || c.Channel() != instance || c.ID() != id {
			t.Errorf("the conversation key %q is %q and %q, %v", text, instance, id, ok)
		}
		if want.ok && (NewSenderKey(want.channel, want.id) != s || NewConversationKey(want.channel, want.id) != c) {
			t.Errorf("%q and %q do not make the keys %q", want.channel, want.id, text)
		}
	}
	if SenderKey("irc:ann?").Unverified() || !SenderKey("irc:?ann").Unverified() {
		t.Error("an id is verified unless it begins with a question mark")
	}
}

func TestSession(t *testing.T) {
	for _, c := range []struct {
		key  string
		want SessionKey
	}{
		{"irc:ann:main", SessionKey{"irc:ann", "main", 1}},
		{"irc:ann:main#2", SessionKey{"irc:ann", "main", 2}},
		{"matrix:!room:example.org:main#17", SessionKey{"matrix:!room:example.org", "main", 17}},
		{"@ann:main", SessionKey{"@ann", "main", 1}},
	} {
		if got := ParseSession(c.key); got != c.want || got.String() != c.key || got.Home() != c.want.Scope+":"+c.want.Agent {
			t.Errorf("%q is %+v, and then %q with the home %q", c.key, got, got.String(), got.Home())
		}
	}
}

// FuzzSession reads keys of any shape; what it finds makes a key that reads the same.
func FuzzSession(f *testing.F) {
	for _, key := range []string{"irc:ann:main", "irc:ann:main#2", "a:b#1", "#3", ":", "a:b#-1", "a:b#99999999999999999999", "no colon", ""} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		k := ParseSession(key)
		if k.Epoch < 1 {
			t.Fatalf("%q is of epoch %d", key, k.Epoch)
		}
		if again := ParseSession(k.String()); again != k {
			t.Fatalf("%q is %+v, and then %+v", key, k, again)
		}
	})
}
