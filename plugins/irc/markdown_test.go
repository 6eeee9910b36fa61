package main

import (
	"bufio"
	"log/slog"
	"net"
	"slices"
	"sync"
	"testing"

	"github.com/flynnhost/flynn/sdk/channel"
)

// TestMarkdownIsReadable has an answer with marks, which IRC would show as they are.
func TestMarkdownIsReadable(t *testing.T) {
	ours, theirs := net.Pipe()
	var done sync.WaitGroup
	var said []string
	done.Go(func() {
		serve(theirs, func(n int) (string, bool) { return "", false })
	})
	l := linked(&tap{Conn: ours, said: &said}, channel.NewPace(1, 0))
	p := &plugin{settings: settings{MaxLines: 10}, log: slog.New(slog.DiscardHandler), link: l}
	done.Go(func() {
		l.read(t.Context(), bufio.NewReader(ours), func(m line) error { return p.handle(t.Context(), l, m, nil) })
	})
	text := "**Use** [this](https://x.org/a_b):\n\n```go\nf(*p)\n```"
	sent, err := p.Send(t.Context(), channel.Send{Conversation: channel.Conversation{ID: "#c"}, Text: text, Markdown: true})
	ours.Close()
	done.Wait()
	want := []string{"PRIVMSG #c :Use this (https://x.org/a_b):\r\n", "PRIVMSG #c f(*p)\r\n"}
	if sent.Outcome != channel.OutcomeSent || err != nil || len(said) < 2 || !slices.Equal(said[:2], want) {
		t.Errorf("said %q, outcome %v, %v", said, sent.Outcome, err)
	}
}

// tap notes what is written.
type tap struct {
	net.Conn
	said *[]string
}

func (c *tap) Write(data []byte) (int, error) {
	*c.said = append(*c.said, string(data))
	return c.Conn.Write(data)
}
