package hosttest

import (
	"slices"
	"strings"
	"time"
)

// rich holds the further fields of a line; see examples/lines-channel/rich.go.
type rich struct {
	Kind     string `json:"kind,omitempty"`
	Target   string `json:"target,omitempty"`
	Files    []file `json:"files,omitempty"`
	Draft    bool   `json:"draft,omitempty"`
	Final    bool   `json:"final,omitempty"`
	Revision uint64 `json:"revision,omitempty"`
	On       bool   `json:"on,omitempty"`
	Data     []byte `json:"data,omitempty"`
	RetryMS  int64  `json:"retry_ms,omitempty"`
	Never    bool   `json:"never,omitempty"`
}

type file struct {
	Handle string `json:"handle,omitempty"`
	Name   string `json:"name,omitempty"`
	Type   string `json:"type,omitempty"`
	Size   int64  `json:"size,omitempty"`
}

// File is a file on the platform.
type File struct {
	Handle string
	Name   string
	Data   []byte
}

// Message is a message as people see it at the moment.
type Message struct {
	ID           string
	Conversation string
	Text         string
	Draft        bool // the final edit has not come
	Edits        int  // that were applied
	Revision     uint64
	Files        []File

	replyTo string
}

// richState is the state behind edits, files and typing; it is guarded by Platform.mu.
type richState struct {
	messages map[string]*Message // by id, which is the key of the send
	order    []string
	files    map[string]File // by handle
	typing   []Typing
	watch    func(Message) // called for every change of a message; may be nil
}

// Typing is one change of the typing indicator.
type Typing struct {
	Conversation string
	On           bool
	At           time.Time
}

func newRichState() richState {
	return richState{messages: map[string]*Message{}, files: map[string]File{}}
}

func (s *richState) put(r Reply) {
	if _, there := s.messages[r.Key]; !there {
		s.order = append(s.order, r.Key)
	}
	m := &Message{ID: r.Key, Conversation: r.Conversation, Text: r.Text, Draft: r.Draft, Files: r.Files, replyTo: r.ReplyTo}
	s.messages[r.Key] = m
	s.changed(m)
}

func (s *richState) changed(m *Message) {
	if s.watch != nil {
		s.watch(*m)
	}
}

// Watch has f called with every message that appears or changes. It must not block.
func (p *Platform) Watch(f func(Message)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rich.watch = f
}

// Offer puts a file on the platform, which events can name by its handle.
func (p *Platform) Offer(f File) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rich.files[f.Handle] = f
}

// Messages are those that people see, oldest first.
func (p *Platform) Messages() []Message {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []Message
	for _, id := range p.rich.order {
		if m, there := p.rich.messages[id]; there {
			out = append(out, *m)
		}
	}
	return out
}

// Typings are the changes of the typing indicators so far.
func (p *Platform) Typings() []Typing {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.rich.typing)
}

func (p *Platform) typing(conversation string, on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rich.typing = append(p.rich.typing, Typing{conversation, on, time.Now()})
}

// uploaded are the files of a send.
func (p *Platform) uploaded(files []file) []File {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []File
	for _, f := range files {
		out = append(out, p.rich.files[f.Handle])
	}
	return out
}

// answer carries out a request of the plugin.
func (p *Platform) answer(m line, link time.Time) line {
	p.mu.Lock()
	defer p.mu.Unlock()
	done := line{Type: "done", Key: m.Key}
	switch m.Type {
	case "edit":
		return p.edit(m, link, done)
	case "delete":
		delete(p.rich.messages, m.ID)
	case "fetch":
		f, there := p.rich.files[m.ID]
		if !there {
			return line{Type: "refused", Key: m.Key, Text: "no such file", rich: rich{Never: true}}
		}
		done.Data = f.Data
	case "upload":
		f := File{Handle: "up-" + m.Key + "-" + link.Format("150405.000000"), Name: m.Files[0].Name, Data: m.Data}
		p.rich.files[f.Handle] = f
		done.ID = f.Handle
	}
	return done
}

// edit changes a message. Its last edit makes an answer of a draft; p.mu is held.
func (p *Platform) edit(m line, link time.Time, done line) line {
	now, there := p.rich.messages[m.ID]
	if !there {
		return line{Type: "refused", Key: m.Key, Text: "no such message", rich: rich{Never: true}}
	}
	again := m.Final && !now.Draft && now.Text == m.Text
	if again {
		p.repeats++
		return done
	}
	now.Text, now.Draft, now.Edits, now.Revision = m.Text, now.Draft && !m.Final, now.Edits+1, m.Revision
	p.rich.changed(now)
	if m.Final && p.cfg.Shown != nil {
		p.cfg.Shown(Reply{
			Key: strings.TrimSuffix(m.ID, "/draft"), Conversation: now.Conversation, ReplyTo: now.replyTo, Text: m.Text, At: time.Now(), Link: link,
		})
	}
	return done
}
