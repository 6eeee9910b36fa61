// Command fake is the program at the other end of lines-channel for flynn plugin dev conform: one person, whose messages come again on
// each connection until they are acked, and a memory of the keys of sends.
package main

import (
	"bufio"
	"encoding/json"
	"net"
	"slices"
	"sync"

	"github.com/flynnhost/flynn/sdk/plugintest/fake"
	"github.com/flynnhost/flynn/sdk/plugintest/platform"
)

func main() { platform.Main(start) }

func start(t platform.TB, report func(fake.Report)) platform.Fake {
	p := &lines{conns: map[net.Conn]bool{}, keys: map[string]bool{}}
	p.mu.Watch(report)
	t.Cleanup(p.work.Wait)
	listener := platform.Listen(t)
	p.work.Go(func() { p.accept(listener) })
	return platform.Fake{
		Ready: fake.Ready{Settings: map[string]any{"address": listener.Addr().String()}}, Post: p.post, Disconnect: listener.Drop,
	}
}

// line is what goes over a connection, see the plugin's own comment.
type line struct {
	Type         string `json:"type"`
	ID           string `json:"id,omitempty"`
	Key          string `json:"key,omitempty"`
	Conversation string `json:"conversation,omitempty"`
	Sender       string `json:"sender,omitempty"`
	Text         string `json:"text,omitempty"`
}

type lines struct {
	work sync.WaitGroup

	mu    platform.State
	conns map[net.Conn]bool
	open  []line          // events that are not acked
	keys  map[string]bool // of sends that were shown
}

func (p *lines) accept(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		p.conns[conn] = true
		for _, e := range p.open {
			write(conn, e)
		}
		p.mu.Unlock()
		p.work.Go(func() { p.serve(conn) })
	}
}

// write writes a line; a connection that is broken shows where it is read.
func write(conn net.Conn, l line) { _ = json.NewEncoder(conn).Encode(l) }

const maxLine = 1 << 20 // bytes

func (p *lines) serve(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewScanner(conn)
	in.Buffer(nil, maxLine)
	for in.Scan() {
		var l line
		if json.Unmarshal(in.Bytes(), &l) != nil {
			break
		}
		p.take(conn, l)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, conn)
}

func (p *lines) take(conn net.Conn, l line) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case l.Type == "ack":
		p.open = slices.DeleteFunc(p.open, func(e line) bool { return e.ID == l.ID })
	case l.Type == "send" && p.keys[l.Key]:
		write(conn, line{Type: "duplicate", Key: l.Key})
	case l.Type == "send":
		p.keys[l.Key] = true
		p.mu.Shown(l.Text)
		write(conn, line{Type: "sent", Key: l.Key})
	}
}

// post sends a message to all connections.
func (p *lines) post(m fake.Post) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := line{Type: "event", ID: m.ID, Conversation: "ann", Sender: "ann", Text: m.Text}
	p.open = append(p.open, e)
	for conn := range p.conns {
		write(conn, e)
	}
	return nil
}
