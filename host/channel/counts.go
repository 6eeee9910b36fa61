package channel

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/time/rate"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
)

// Several hosts tell each other what they have admitted, and each counts it against its own rates. An excess that they admit before they hear
// of each other is a debt: a rate may go below zero, and nothing more is admitted until time has paid it back. So the rates hold for all
// hosts together.

// The beginnings of store.Count.Of; a key follows.
const (
	ofKnown        = "known "        // a message of a known sender
	ofOther        = "other "        // a message of another sender
	ofConversation = "conversation " // a message in a conversation
	ofSession      = "session "      // a session that a sender has started: the length of the sender's key, the key, and the scope
)

func sessionOf(sender message.SenderKey, scope string) string {
	return fmt.Sprint(ofSession, len(sender), " ", sender, scope)
}

// tally counts for other hosts, once somebody has asked for its counts: a host alone counts nothing.
type tally struct {
	mu sync.Mutex
	of map[string]int64 // nil as long as nobody has asked
}

func (t *tally) add(of string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	storable := utf8.ValidString(of) && !strings.ContainsRune(of, 0) // without that no store takes the message either
	if t.of != nil && len(t.of) < maxRates && storable {
		t.of[of]++
	}
}

// Admitted returns what was admitted since the last call.
func (g *Gate) Admitted() (list []store.Count) {
	g.told.mu.Lock()
	defer g.told.mu.Unlock()
	for of, n := range g.told.of {
		list = append(list, store.Count{Of: of, N: n})
	}
	g.told.of = map[string]int64{}
	return list
}

// Counted counts what another host has admitted.
func (g *Gate) Counted(c store.Count) {
	now := g.Now()
	if key, is := strings.CutPrefix(c.Of, ofKnown); is {
		g.known.take(now, key, c.N)
	} else if key, is := strings.CutPrefix(c.Of, ofOther); is {
		g.others.take(now, key, c.N)
		take(now, g.unknown, c.N)
	} else if key, is := strings.CutPrefix(c.Of, ofConversation); is {
		g.conversations.take(now, key, c.N)
	} else if of, is := strings.CutPrefix(c.Of, ofSession); is && g.Sessions != nil {
		length, key, _ := strings.Cut(of, " ")
		if n, err := strconv.Atoi(length); err == nil && n >= 0 && n <= len(key) {
			g.Sessions.Opened(message.SenderKey(key[:n]), key[n:])
		}
	}
}

// take takes n messages from a limiter, which may have less than that.
func take(now time.Time, l *rate.Limiter, n int64) {
	l.ReserveN(now, int(min(n, int64(l.Burst()))))
}
