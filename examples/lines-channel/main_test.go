package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/plugintest"
)

// peer is the program at the other end.
type peer struct {
	t     *testing.T
	lis   net.Listener
	conn  net.Conn
	lines *bufio.Scanner
}

func newPeer(t *testing.T) *peer {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lis.Close() })
	return &peer{t: t, lis: lis}
}

// accept takes the next connection and its hello.
func (p *peer) accept() {
	p.t.Helper()
	p.lis.(*net.TCPListener).SetDeadline(time.Now().Add(time.Minute))
	conn, err := p.lis.Accept()
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { conn.Close() })
	p.conn, p.lines = conn, bufio.NewScanner(conn)
	if hello := p.next(); hello.Type != "hello" || hello.PID != os.Getpid() {
		p.t.Fatalf("the first line is %+v", hello)
	}
}

func (p *peer) next() line {
	p.t.Helper()
	p.conn.SetReadDeadline(time.Now().Add(time.Minute))
	var m line
	if !p.lines.Scan() {
		p.t.Fatalf("no further line: %v", p.lines.Err())
	}
	if err := json.Unmarshal(p.lines.Bytes(), &m); err != nil {
		p.t.Fatal(err)
	}
	return m
}

func (p *peer) put(text string) {
	p.t.Helper()
	if _, err := io.WriteString(p.conn, text+"\n"); err != nil {
		p.t.Fatal(err)
	}
}

func start(t *testing.T) (*peer, *plugintest.Host) {
	p := newPeer(t)
	h := plugintest.Start(t, &bridge{}, plugintest.Config{Settings: map[string]any{"address": p.lis.Addr().String()}})
	p.accept()
	h.WaitStatus(channel.StateReady)
	return p, h
}

func TestAnEventIsAckedWhenTheHostHasIt(t *testing.T) {
	p, h := start(t)
	p.put(`{"type":"from a later version"}`)
	p.put(`{"type":"event","id":"1","conversation":"c","group":true,"sender":"ann","text":"hi"}`)
	e := h.Event()
	if e.ID != "1" || e.Conversation.ID != "c" || e.Conversation.Kind != channel.Group || e.Sender.ID != "ann" || e.Text != "hi" || !e.Addressed {
		t.Errorf("the host got %+v", e)
	}
	h.Ack()
	if ack := p.next(); ack.Type != "ack" || ack.ID != "1" {
		t.Errorf("got %+v, want the ack", ack)
	}
}

func TestSend(t *testing.T) {
	for _, c := range []struct {
		name, answer string
		want         channel.Outcome
	}{
		{"shown", `{"type":"sent","key":"k"}`, channel.OutcomeSent},
		{"shown before", `{"type":"duplicate","key":"k"}`, channel.OutcomeDuplicate},
		{"the connection breaks", "", channel.OutcomeUnknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, h := start(t)
			answered := make(chan channel.Outcome, 1)
			go func() {
				sent, _ := h.Send(channel.Send{Key: "k", Conversation: channel.Conversation{ID: "c"}, Text: "hello", ReplyTo: "1", PossibleDuplicate: true})
				answered <- sent.Outcome
			}()
			if s := p.next(); s.Type != "send" || s.Key != "k" || s.Conversation != "c" || s.Text != "hello" || s.ReplyTo != "1" || !s.PossibleDuplicate {
				t.Errorf("got %+v", s)
			}
			if c.answer == "" {
				p.conn.Close()
			} else {
				p.put(c.answer)
			}
			if got := <-answered; got != c.want {
				t.Errorf("outcome %v, want %v", got, c.want)
			}
		})
	}
}

func TestReconnects(t *testing.T) {
	p, h := start(t)
	p.conn.Close()
	p.accept()
	p.put(`{"type":"event","id":"2","conversation":"c","sender":"ann","text":"again"}`)
	if e := h.Event(); e.ID != "2" {
		t.Errorf("the host got %+v", e)
	}
}

func TestRefusesNonsense(t *testing.T) {
	_, err := plugintest.TryStart(t, &bridge{}, plugintest.Config{Settings: map[string]any{"address": "nowhere"}})
	if _, ok := errors.AsType[channel.FieldErrors](err); !ok {
		t.Errorf("got %v, want field errors", err)
	}
}
