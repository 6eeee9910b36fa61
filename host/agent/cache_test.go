package agent

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model"
)

// sized is a session that takes about so many bytes.
func sized(key message.SessionKey, bytes int) *session {
	return &session{key: key, count: 1, said: []model.Message{{Text: strings.Repeat("x", bytes)}}}
}

func TestSessionsAtHandAreBounded(t *testing.T) {
	c := newSessions(nil)
	for i := range 100 {
		c.keep(sized(message.SessionKey(fmt.Sprint(i)), 1<<20))
	}
	if n := len(c.byKey); c.bytes > keepBytes || n < 25 || n != c.recent.Len() {
		t.Errorf("%d sessions of 1 MiB take %d bytes", n, c.bytes)
	}
	if c.atHand("99") == nil || c.atHand("0") != nil {
		t.Error("it is not the latest that are kept")
	}
	c.keep(sized("99", 2<<20)) // it has grown
	c.keep(sized("huge", 2*keepBytes))
	if n := len(c.byKey); n != 1 || c.atHand("huge") == nil {
		t.Errorf("beside one that is larger than all may be, %d are kept", n-1)
	}
	c.forget("huge")
	if c.bytes != 0 || c.recent.Len() != 0 {
		t.Errorf("none takes %d bytes", c.bytes)
	}
}

func TestIdleSessionsAreLetGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newSessions(nil)
		c.keep(sized("early", 1<<10))
		time.Sleep(keepFor / 2)
		c.keep(sized("late", 1<<10))
		time.Sleep(keepFor/2 + time.Second)
		look := func(f func()) {
			synctest.Wait()
			c.mu.Lock()
			defer c.mu.Unlock()
			f()
		}
		look(func() {
			if len(c.byKey) != 1 || c.byKey["late"] == nil {
				t.Errorf("%d are at hand", len(c.byKey))
			}
		})
		time.Sleep(keepFor)
		look(func() {
			if len(c.byKey) != 0 || c.bytes != 0 || c.sweep != nil {
				t.Errorf("%d are at hand, %d bytes", len(c.byKey), c.bytes)
			}
		})
		c.keep(sized("again", 1<<10))
		look(func() {
			if c.sweep == nil {
				t.Error("nobody looks after it")
			}
		})
		time.Sleep(2 * keepFor)
	})
}

// A turn's own session takes the place of a copy that was made while it ran.
func TestTurnReplacesACopy(t *testing.T) {
	c := newSessions(nil)
	own := sized("s", 1)
	c.keep(sized("s", 2))
	c.keep(own)
	if c.atHand("s") != own || c.recent.Len() != 1 {
		t.Error("the copy is still there")
	}
}
