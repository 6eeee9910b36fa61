package main

import (
	"errors"
	"testing"
	"time"

	"github.com/emersion/go-imap/v2"
)

func TestCursor(t *testing.T) {
	at := func(uid imap.UID) position { return position{Validity: 7, UID: uid, At: time.Unix(int64(uid), 0)} }
	for _, c := range []struct {
		name string
		do   func(c *cursor)
		want imap.UID
		ok   bool
	}{
		{"nothing", func(*cursor) {}, 1, true},
		{"handed over, not acked", func(c *cursor) { c.hand(at(2), false) }, 1, true},
		{"acked", func(c *cursor) { c.hand(at(2), false); c.hand(at(3), false); c.done(at(2), nil) }, 2, true},
		{"skipped with nothing pending", func(c *cursor) { c.hand(at(2), true) }, 2, true},
		{"skipped behind one that is pending", func(c *cursor) { c.hand(at(2), false); c.hand(at(3), true) }, 1, true},
		{"one behind a lost one", func(c *cursor) {
			c.hand(at(2), false)
			c.hand(at(3), false)
			c.done(at(2), errors.New("no"))
			c.done(at(3), nil)
		}, 1, false},
		{"an ack of a mailbox that was numbered anew", func(c *cursor) { c.hand(at(2), false); c.restart(position{Validity: 8}); c.done(at(2), nil) }, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			cur := &cursor{moved: make(chan struct{}, 1)}
			cur.restart(at(1))
			c.do(cur)
			if _, ok := cur.next(); cur.position().UID != c.want || ok != c.ok {
				t.Errorf("position %+v, %v", cur.position(), ok)
			}
		})
	}
}
