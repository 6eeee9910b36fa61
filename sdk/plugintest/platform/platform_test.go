package platform

import (
	"context"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/flynnhost/flynn/sdk/plugintest/fake"
)

func TestWaitSeesEveryChange(t *testing.T) {
	var s State
	n := 0
	go func() {
		for range 100 {
			s.Lock()
			n++
			s.Wake()
			s.Unlock()
		}
	}()
	s.Await(t, "100 changes", func() bool { return n == 100 })
	s.Until(t, "the same without the lock", func() bool {
		s.Lock()
		defer s.Unlock()
		return n == 100
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if s.Wait(ctx, func() bool { return false }) {
		t.Error("a wait that was given up says that its condition holds")
	}
}

func TestFaultsComeOnceAndInOrder(t *testing.T) {
	var q Faults[int]
	q.Add("send", 1, 2)
	q.Add("edit", 3)
	var got []int
	for _, where := range []string{"edit", "edit", "send", "send", "send"} {
		if f, ok := q.Take(At(where)); ok {
			got = append(got, f)
		}
	}
	if want := []int{3, 1, 2}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestListenerBreaksItsConnections(t *testing.T) {
	l := Listen(t)
	dial := func() net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Accept(); err != nil {
			t.Fatal(err)
		}
		return c
	}
	broken := func(c net.Conn, by string) {
		t.Helper()
		defer c.Close()
		_ = c.SetReadDeadline(time.Now().Add(time.Minute))
		if n, err := c.Read(make([]byte, 1)); n > 0 || err == nil {
			t.Errorf("a connection outlives %s", by)
		}
	}
	c := dial()
	l.Drop()
	broken(c, "Drop")
	c = dial()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	broken(c, "Close")
	if _, err := l.Accept(); err == nil {
		t.Error("a closed listener accepts")
	}
}

// TestAFakeThatRuns: its functions may be left out, what it reports arrives, and it ends with Close.
func TestAFakeThatRuns(t *testing.T) {
	var seen []fake.Report
	ended := false
	ready, p := Start(func(t TB, report func(fake.Report)) Fake {
		var s State
		s.Watch(report)
		t.Cleanup(func() { ended = true })
		return Fake{Ready: fake.Ready{Settings: map[string]any{"a": 1}}, Post: func(m fake.Post) error {
			s.Lock()
			defer s.Unlock()
			s.Shown(m.Text)
			return nil
		}}
	}, func(r fake.Report) { seen = append(seen, r) }, t.Fatalf)
	p.Disconnect()
	if err := p.(fake.Caller).Webhook(fake.Webhook{URL: "http://h"}); err != nil {
		t.Error(err)
	}
	if err := p.Post(fake.Post{Text: "hi"}); err != nil || len(seen) != 1 || seen[0].Shown.Text != "hi" || ready.Settings["a"] != 1 {
		t.Errorf("seen %+v, %v", seen, err)
	}
	if p.Close(); !ended {
		t.Error("the fake has not ended")
	}
}
