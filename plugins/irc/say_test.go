package main

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flynnhost/flynn/sdk/channel"
)

// TestWhatCountsAsSent has a server that refuses some lines of an answer or hangs up after them.
func TestWhatCountsAsSent(t *testing.T) {
	const refuse = ":irc.test 404 flynn #c :Cannot send to channel\r\n"
	for _, c := range []struct {
		name   string
		server func(n int) (reply string, hangUp bool) // to the nth line, counted from 1; 0 asks for a sign of life
		want   channel.Outcome
	}{
		{"every line taken", func(int) (string, bool) { return "", false }, channel.OutcomeSent},
		{"every line refused", func(int) (string, bool) { return refuse, false }, channel.OutcomeNotSent},
		{"one line refused, the others shown", func(n int) (string, bool) {
			if n == 2 {
				return refuse, false
			}
			return "", false
		}, channel.OutcomeUnknown},
		{"hung up after the last line", func(n int) (string, bool) { return "", n == 3 }, channel.OutcomeUnknown},
		{"hung up instead of confirming", func(n int) (string, bool) { return "", n == 0 }, channel.OutcomeUnknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			ours, theirs := net.Pipe()
			var done sync.WaitGroup
			done.Go(func() { serve(theirs, c.server) })
			l := linked(ours, channel.NewPace(1, 0))
			p := &plugin{settings: settings{MaxLines: 10}, log: slog.New(slog.DiscardHandler), link: l}
			done.Go(func() {
				l.read(t.Context(), bufio.NewReader(ours), func(m line) error { return p.handle(t.Context(), l, m, nil) })
			})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			sent, err := p.Send(ctx, channel.Send{Conversation: channel.Conversation{ID: "#c"}, Text: "one\ntwo\nthree"})
			if sent.Outcome != c.want || ctx.Err() != nil {
				t.Errorf("outcome %v (%v), want %v", sent.Outcome, err, c.want)
			}
			ours.Close()
			done.Wait()
		})
	}
}

// serve answers lines until the connection ends.
func serve(conn net.Conn, answer func(n int) (string, bool)) {
	defer conn.Close()
	in, n := bufio.NewScanner(conn), 0
	for in.Scan() {
		if token, ok := strings.CutPrefix(in.Text(), "PING "); ok {
			if _, hangUp := answer(0); hangUp {
				return
			}
			fmt.Fprintf(conn, ":irc.test PONG irc.test %s\r\n", token)
			continue
		}
		n++
		reply, hangUp := answer(n)
		if _, err := conn.Write([]byte(reply)); err != nil || hangUp {
			return
		}
	}
}

// linked is a link behind its greeting.
func linked(conn net.Conn, flood *channel.Pace) *link {
	l := &link{
		conn: conn, nick: "flynn", pongs: map[string]chan struct{}{}, refusals: map[string]refusal{}, members: newMembers(), flood: flood,
	}
	l.live, l.end = context.WithCancel(context.Background())
	return l
}
