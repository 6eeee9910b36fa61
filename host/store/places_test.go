package store

import "testing"

func TestSessionKeys(t *testing.T) {
	for _, c := range []struct {
		place, agent string
		epoch        int
		key          string
	}{
		{"irc:ann", "main", 1, "irc:ann:main"},
		{"irc:ann", "main", 12, "irc:ann:main#12"},
		{"irc:#a:b#3", "main", 1, "irc:#a:b#3:main"},
		{"irc:x#2", "m-1", 2, "irc:x#2:m-1#2"},
	} {
		if got := SessionKey(c.place, c.agent, c.epoch); got != c.key {
			t.Errorf("key is %q, want %q", got, c.key)
		}
		place, agent, epoch := SessionParts(c.key)
		if place != c.place || agent != c.agent || epoch != c.epoch {
			t.Errorf("%q is %q, %q, %d", c.key, place, agent, epoch)
		}
		if got := SessionHome(c.key); got != c.place+":"+c.agent {
			t.Errorf("home of %q is %q", c.key, got)
		}
	}
}

// FuzzSessionParts reads keys of any shape; what it finds makes a key that reads the same.
func FuzzSessionParts(f *testing.F) {
	f.Add("irc:#flynn:main#2")
	f.Add("main")
	f.Add("a:b#")
	f.Add("a:b#-1")
	f.Fuzz(func(t *testing.T, key string) {
		place, agent, epoch := SessionParts(key)
		if place == "" {
			return
		}
		p, a, e := SessionParts(SessionKey(place, agent, epoch))
		if p != place || a != agent || e != epoch {
			t.Errorf("%q is %q %q %d, and then %q %q %d", key, place, agent, epoch, p, a, e)
		}
	})
}
