//go:build unix

package conform

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"sync"

	"github.com/flynnhost/flynn/sdk/plugintest/fake"
)

// wireLine is a line between the actor and its platform.
type wireLine struct {
	ID     string `json:"id,omitempty"` // of a message to the actor
	Text   string `json:"text,omitempty"`
	Media  int    `json:"media,omitempty"`
	Ack    string `json:"ack,omitempty"`
	Show   string `json:"show,omitempty"`
	Typing bool   `json:"typing,omitempty"`
}

// link is a connection between the actor and its platform, from either side.
type link struct {
	conn net.Conn
	mu   sync.Mutex
}

func dialLink(address string) (*link, error) {
	conn, err := net.Dial("tcp", address)
	return &link{conn: conn}, err
}

func (l *link) put(m wireLine) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = json.NewEncoder(l.conn).Encode(m) // a broken connection shows in read
}

func (l *link) read(take func(wireLine)) {
	for lines := bufio.NewScanner(l.conn); lines.Scan(); {
		var m wireLine
		if json.Unmarshal(lines.Bytes(), &m) == nil {
			take(m)
		}
	}
}

// stage is the platform of the actor: it says everything again that was not acknowledged, on each connection.
type stage struct {
	lis    net.Listener
	report func(fake.Report)

	mu       sync.Mutex
	messages []wireLine // not acknowledged
	links    []*link
}

func playStage(how string) {
	if how == "broken" {
		fmt.Fprintln(os.Stderr, "the stage is not built")
		os.Exit(1)
	}
	fake.Main(func(report func(fake.Report)) (fake.Ready, fake.Platform, error) {
		lis, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return fake.Ready{}, nil, err
		}
		s := &stage{lis: lis, report: report}
		go s.serve() // ends with Close
		return fake.Ready{Settings: map[string]any{"address": lis.Addr().String()}, Secrets: map[string]string{"token": "t0ken"}}, s, nil
	})
}

func (s *stage) serve() {
	for {
		conn, err := s.lis.Accept()
		if err != nil {
			return
		}
		l := &link{conn: conn}
		s.mu.Lock()
		s.links = append(s.links, l)
		for _, m := range s.messages {
			l.put(m)
		}
		s.mu.Unlock()
		go l.read(s.take) // ends with the connection
	}
}

func (s *stage) take(m wireLine) {
	switch {
	case m.Show != "":
		s.report(fake.Report{Shown: &fake.Shown{Text: m.Show}})
	case m.Typing:
		s.report(fake.Report{Typing: true})
	case m.Ack != "":
		s.mu.Lock()
		defer s.mu.Unlock()
		for i, have := range s.messages {
			if have.ID == m.Ack {
				s.messages = append(s.messages[:i], s.messages[i+1:]...)
				return
			}
		}
	}
}

func (s *stage) Post(p fake.Post) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := wireLine{ID: p.ID, Text: p.Text, Media: p.Media}
	s.messages = append(s.messages, m)
	for _, l := range s.links {
		l.put(m)
	}
	return nil
}

func (s *stage) Disconnect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.links {
		l.conn.Close()
	}
	s.links = nil
}

func (s *stage) Close() {
	s.lis.Close()
	s.Disconnect()
}
