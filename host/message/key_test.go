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
		key  SessionKey
		want Session
	}{
		{"irc:ann:main", Session{"irc:ann", "main", 1}},
		{"irc:ann:main#2", Session{"irc:ann", "main", 2}},
		{"matrix:!room:example.org:main#17", Session{"matrix:!room:example.org", "main", 17}},
		{"@ann:main", Session{"@ann", "main", 1}},
	} {
		if got := c.key.Parse(); got != c.want || got.Key() != c.key || got.Workspace() != WorkspaceKey(c.want.Scope+":"+c.want.Agent) {
			t.Errorf("%q is %+v, and then %q with the workspace %q", c.key, got, got.Key(), got.Workspace())
		}
	}
}

func TestWorkspaceKey(t *testing.T) {
	for _, c := range []struct {
		key          WorkspaceKey
		scope, agent string
	}{
		{"irc:ann:main", "irc:ann", "main"}, {"matrix:!room:example.org:main", "matrix:!room:example.org", "main"}, {"@ann:main", "@ann", "main"},
		{"exec-2f", "", ""}, {"", "", ""}, {":", "", ""},
	} {
		if c.key.Scope() != c.scope || c.key.Agent() != c.agent {
			t.Errorf("%q is of %q and %q, want %q and %q", c.key, c.key.Scope(), c.key.Agent(), c.scope, c.agent)
		}
	}
}

// FuzzSession reads keys of any shape; what it finds makes a key that reads the same.
func FuzzSession(f *testing.F) {
	for _, key := range []string{"irc:ann:main", "irc:ann:main#2", "a:b#1", "#3", ":", "a:b#-1", "a:b#99999999999999999999", "no colon", ""} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		k := SessionKey(key).Parse()
		if k.Epoch < 1 {
			t.Fatalf("%q is of epoch %d", key, k.Epoch)
		}
		if again := k.Key().Parse(); again != k {
			t.Fatalf("%q is %+v, and then %+v", key, k, again)
		}
	})
}

func TestConsoleOwner(t *testing.T) {
	for _, c := range []struct {
		conversation string
		owner        SenderKey
		ok           bool
	}{
		{ConsoleConversation("irc:ann", "x"), "irc:ann", true},
		{ConsoleConversation("irc:ann~x", "y"), "irc:ann~x", true},
		{ConsoleConversation("matrix:@a:b.c", "3f2e-1"), "matrix:@a:b.c", true},
		{"irc:ann~x~y", "irc:ann~x", true}, // not of irc:ann
		{"irc:ann", "", false}, {"irc:ann~", "", false}, {"~x", "", false}, {"~", "", false}, {"", "", false},
	} {
		if owner, ok := ConsoleOwner(c.conversation); owner != c.owner || ok != c.ok {
			t.Errorf("%q belongs to %q, %v", c.conversation, owner, ok)
		}
	}
	if m := (Message{Channel: ConsoleChannel, Sender: Sender{ID: "irc:ann"}}); m.SenderKey() != "irc:ann" {
		t.Errorf("the sender is %s", m.SenderKey())
	}
}
