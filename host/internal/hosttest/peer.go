package hosttest

import (
	"bufio"
	"context"
	"encoding/json"
	"net"
	"os"
	"sync"
	"time"
)

// line is one line of the protocol of examples/lines-channel.
type line struct {
	Type         string `json:"type"`
	ID           string `json:"id,omitempty"`
	Key          string `json:"key,omitempty"`
	Conversation string `json:"conversation,omitempty"`
	Group        bool   `json:"group,omitempty"`
	Sender       string `json:"sender,omitempty"`
	Text         string `json:"text,omitempty"`
	ReplyTo      string `json:"reply_to,omitempty"`
	PID          int    `json:"pid,omitempty"`

	PossibleDuplicate bool `json:"possible_duplicate,omitempty"`

	rich
}

// peer is one connection of a plugin.
type peer struct {
	platform *Platform
	conn     net.Conn
	since    time.Time
	process  *os.Process // set by its hello, under Platform.mu
	changes  int         // of the connections, of which next knows
	over     chan struct{}

	mu  sync.Mutex // one line at a time
	out *bufio.Writer
}

const (
	maxLine      = 1 << 20
	writeTimeout = 10 * time.Second
)

func newPeer(p *Platform, conn net.Conn) *peer {
	return &peer{platform: p, conn: conn, since: time.Now(), over: make(chan struct{}), out: bufio.NewWriterSize(conn, 16<<10)}
}

// run serves the connection until it breaks or ctx ends.
func (q *peer) run(ctx context.Context) {
	defer context.AfterFunc(ctx, func() { q.conn.Close() })()
	q.platform.joined(q)
	var feeder sync.WaitGroup
	feeder.Go(q.feed)
	q.read()
	q.platform.left(q)
	close(q.over)
	q.conn.Close()
	feeder.Wait()
	if q.process != nil {
		q.process.Release()
	}
}

func (q *peer) read() {
	lines := bufio.NewScanner(q.conn)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var m line
		if json.Unmarshal(lines.Bytes(), &m) != nil || q.take(m) != nil {
			return
		}
	}
}

func (q *peer) take(m line) error {
	switch m.Type {
	case "hello":
		return q.identify(m.PID)
	case "ack":
		q.platform.ack(m.ID)
	case "send":
		answer := line{Type: "duplicate", Key: m.Key}
		if q.platform.show(Reply{
			Key: m.Key, Conversation: m.Conversation, ReplyTo: m.ReplyTo, Text: m.Text, Marked: m.PossibleDuplicate, Link: q.since, Draft: m.Draft,
			Files: q.platform.uploaded(m.Files),
		}) {
			answer.Type = "sent"
		}
		return q.put(answer, true)
	case "typing":
		q.platform.typing(m.Conversation, m.On)
	case "edit", "delete", "fetch", "upload":
		return q.put(q.platform.answer(m, q.since), true)
	}
	return nil
}

// identify takes a handle of the process while it is there to say who it is.
func (q *peer) identify(pid int) error {
	process, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	q.platform.mu.Lock()
	defer q.platform.mu.Unlock()
	q.process = process
	return nil
}

// feed sends every event that was not acknowledged, then every new one.
func (q *peer) feed() {
	for i := 0; ; {
		e, after, wait := q.platform.next(q, i)
		i = after
		if wait == nil {
			m := line{
				Type: "event", ID: e.ID, Conversation: e.Conversation, Group: e.Group, Sender: e.Sender, Text: e.Text,
				rich: rich{Kind: e.Kind, Target: e.Target},
			}
			for _, f := range e.Files {
				m.Files = append(m.Files, file{Handle: f.Handle, Name: f.Name})
			}
			if q.put(m, false) != nil {
				return
			}
			continue
		}
		if q.flush() != nil {
			return
		}
		select {
		case <-wait:
		case <-q.over:
			return
		}
	}
}

func (q *peer) put(m line, flush bool) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.conn.SetWriteDeadline(time.Now().Add(writeTimeout))
	if _, err := q.out.Write(append(text, '\n')); err != nil || !flush {
		return err
	}
	return q.out.Flush()
}

func (q *peer) flush() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.conn.SetWriteDeadline(time.Now().Add(writeTimeout))
	return q.out.Flush()
}
