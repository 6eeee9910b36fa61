package tui

import (
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/flynnhost/flynn/host/gateway"
)

// model is the state of the program. It is changed only by Update and what that calls, all in one goroutine.
type model struct {
	cfg  Config
	net  *network
	conn *conn

	width, height int
	conversation  string
	intro         *gateway.Intro // of an empty conversation
	link          linkState
	talk          *transcript
	print         scrollback
	frame         frame
	input         input
	files         []gateway.File // for the next message
	uploads       int            // that are under way
	card          card
	others        int // requests of other conversations
	pick          *picker
	note          string    // one line, until the next key
	leaving       time.Time // of the last Ctrl-C
	switched      bool      // to another conversation, which has to be listened to
	quitting      bool
	cache         liveCache
	failed        error
}

// linkState is the state of the connection.
type linkState int

const (
	connecting linkState = iota
	connected
	away // lost, and trying again
)

func newModel(cfg Config, n *network) *model {
	return &model{cfg: cfg, net: n, input: newInput(), talk: newTranscript(paper{style: style{colour: cfg.Colour}, width: 80})}
}

// connect turns to a conversation.
func (m *model) connect(conversation string) error {
	c, err := m.net.open(conversation)
	if err != nil {
		return err
	}
	if m.conn != nil {
		m.conn.cancel()
	}
	m.conn, m.conversation, m.link = c, conversation, connecting
	m.talk = newTranscript(m.talk.paper)
	m.card, m.others = card{}, 0
	return nil
}

// Init implements tea.Model. The connection is listened to once the size of the terminal is known.
func (m *model) Init() tea.Cmd { return nil }

// unprinted is what the scrollback still lacks when the program ends.
func (m *model) unprinted() []string {
	if m.talk.running {
		m.talk.settle(m.talk.stream.text)
	}
	m.gather()
	return m.print.lines
}

// gather moves what is finished to the scrollback.
func (m *model) gather() {
	m.print.add(m.talk.out)
	m.talk.out = nil
}
