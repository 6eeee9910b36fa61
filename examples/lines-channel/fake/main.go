// Command fake is the program at the other end of lines-channel for flynn plugin conform: one person, whose messages come again on
// each connection until they are acked, and a memory of the keys of sends.
package main

import (
	"bufio"
	"encoding/json"
	"net"
	"slices"
	"sync"

	"github.com/flynnhost/flynn/sdk/plugintest/fake"
)

func main() {
	fake.Main(func(report func(fake.Report)) (fake.Ready, fake.Platform, error) {
		lis, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return fake.Ready{}, nil, err
		}
		p := &platform{listener: lis, report: report, conns: map[net.Conn]bool{}, keys: map[string]bool{}}
		p.work.Go(p.accept)
		return fake.Ready{Settings: map[string]any{"address": lis.Addr().String()}}, p, nil
	})
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

type platform struct {
	listener net.Listener
	report   func(fake.Report)
	work     sync.WaitGroup

	mu     sync.Mutex
	closed bool
	conns  map[net.Conn]bool
	open   []line          // events that are not acked
	keys   map[string]bool // of sends that were shown
}

func (p *platform) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		if p.closed {
			p.mu.Unlock()
			_ = conn.Close()
			return
		}
		p.conns[conn] = true
		for _, e := range p.open {
			write(conn, e)
		}
		p.work.Go(func() { p.serve(conn) })
		p.mu.Unlock()
	}
}

// write writes a line; a connection that is broken shows where it is read.
func write(conn net.Conn, l line) { _ = json.NewEncoder(conn).Encode(l) }

const maxLine = 1 << 20 // bytes

func (p *platform) serve(conn net.Conn) {
	defer conn.Close()
	lines := bufio.NewScanner(conn)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var l line
		if json.Unmarshal(lines.Bytes(), &l) != nil {
			break
		}
		p.take(conn, l)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, conn)
}

func (p *platform) take(conn net.Conn, l line) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case l.Type == "ack":
		p.open = slices.DeleteFunc(p.open, func(e line) bool { return e.ID == l.ID })
	case l.Type == "send" && p.keys[l.Key]:
		write(conn, line{Type: "duplicate", Key: l.Key})
	case l.Type == "send":
		p.keys[l.Key] = true
		p.report(fake.Report{Shown: &fake.Shown{Text: l.Text}})
		write(conn, line{Type: "sent", Key: l.Key})
	}
}

// Post implements fake.Platform.
func (p *platform) Post(m fake.Post) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := line{Type: "event", ID: m.ID, Conversation: "ann", Sender: "ann", Text: m.Text}
	p.open = append(p.open, e)
	for conn := range p.conns {
		write(conn, e)
	}
	return nil
}

// Disconnect implements fake.Platform.
func (p *platform) Disconnect() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.conns {
		_ = conn.Close()
	}
}

// Close implements fake.Platform.
func (p *platform) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	_ = p.listener.Close()
	p.Disconnect()
	p.work.Wait()
}
