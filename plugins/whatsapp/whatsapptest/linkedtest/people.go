package linkedtest

import (
	"slices"
	"time"

	wa "go.mau.fi/whatsmeow/binary"
	"go.mau.fi/whatsmeow/proto/waE2E"
	"go.mau.fi/whatsmeow/types"
)

// Person is a person on WhatsApp with a phone.
type Person struct {
	Number, Hidden types.JID // the two names
	Name           string

	server   *Server
	devices  []*peer
	byHidden bool // writes under the hidden id
	private  bool // nobody gets the number
	off      bool
	later    []func() // messages that arrived while the phone was off
	got      []Got
	receipts []Receipt
	sent     map[string]outgoing
}

// Got is a message that a device of a person has read.
type Got struct {
	ID      string
	Chat    types.JID // the group, or the person by the name that was used
	Device  uint16
	Retry   int // 1 and more: it was requested again
	Message *waE2E.Message
}

// Receipt is what the linked device says of a message: "" and "inactive" when it has it, "read", "retry".
type Receipt struct{ ID, Type string }

// outgoing is a message that may be requested again.
type outgoing struct {
	chat types.JID
	m    *waE2E.Message
}

type group struct {
	jid     types.JID
	members []*Person
	told    map[*peer]map[uint16]bool // linked devices to which each device has sent its key
}

func (s *Server) newPerson(number, hidden, name string) *Person {
	p := &Person{
		Number: types.NewJID(number, types.DefaultUserServer), Hidden: types.NewJID(hidden, types.HiddenUserServer), Name: name, server: s,
		sent: map[string]outgoing{},
	}
	p.devices = []*peer{newPeer(p, 0)}
	return p
}

// Person adds a person with a phone.
func (s *Server) Person(number, hidden, name string) *Person {
	defer s.mu.Change()()
	p := s.newPerson(number, hidden, name)
	s.people = append(s.people, p)
	return p
}

// Phone returns the account's own phone: what it writes comes to the linked device as the account's own.
func (s *Server) Phone() *Person { return s.phone }

// Group puts people and the account into a group, whose members are named by their hidden ids.
func (s *Server) Group(id string, people ...*Person) types.JID {
	defer s.mu.Change()()
	g := &group{jid: types.NewJID(id, types.GroupServer), members: append([]*Person{s.phone}, people...), told: map[*peer]map[uint16]bool{}}
	s.groups[g.jid] = g
	return g.jid
}

// AddDevice gives a person one more device.
func (p *Person) AddDevice(id uint16) {
	defer p.server.mu.Change()()
	p.devices = append(p.devices, newPeer(p, id))
}

// WriteByHidden makes a person write under the hidden id, together with the number unless it is private.
func (p *Person) WriteByHidden(private bool) {
	defer p.server.mu.Change()()
	p.byHidden, p.private = true, private
}

// Off switches the phone off: messages wait, and nothing confirms them.
func (p *Person) Off() {
	defer p.server.mu.Change()()
	p.off = true
}

// On switches it on again.
func (p *Person) On() {
	defer p.server.mu.Change()()
	p.off = false
	for _, read := range p.later {
		read()
	}
	p.later = nil
}

// Got lists the messages that the person's devices have read, in order.
func (p *Person) Got() []Got {
	p.server.mu.Lock()
	defer p.server.mu.Unlock()
	return slices.Clone(p.got)
}

// Receipts lists the linked device's receipts for the person's messages.
func (p *Person) Receipts() []Receipt {
	p.server.mu.Lock()
	defer p.server.mu.Unlock()
	return slices.Clone(p.receipts)
}

// Say writes to the account.
func (p *Person) Say(text string) (id string) {
	return p.Send(types.JID{}, &waE2E.Message{Conversation: &text})
}

// Send sends a message: to a group, or to the account when chat is empty. The linked device gets a copy of what
// the account's own phone sends to a person. A message without an own id cannot be told from its redelivery, so each has a new one.
func (p *Person) Send(chat types.JID, m *waE2E.Message) (id string) {
	defer p.server.mu.Change()()
	id = p.server.nextID()
	p.sent[id] = outgoing{chat, m}
	for _, d := range p.server.devices {
		p.sendTo(d, id, 0)
	}
	return id
}

// Garble sends a text that the linked device cannot decrypt until it requests it again.
func (p *Person) Garble(text string) (id string) {
	defer p.server.mu.Change()()
	id = p.server.nextID()
	p.sent[id] = outgoing{m: &waE2E.Message{Conversation: &text}}
	for _, d := range p.server.devices {
		enc, err := p.devices[0].seal(d, p.sent[id].m)
		if err != nil {
			p.server.complain("garble: %v", err)
			return id
		}
		sealed := slices.Clone(enc.Content.([]byte))
		sealed[len(sealed)*3/4] ^= 1 // within the text, in either form of a message
		enc.Content = sealed
		p.push(d, id, outgoing{}, []wa.Node{enc})
	}
	return id
}

// AskAgain reports to the linked device that the person's phone could not read one of its messages, with new keys.
func (p *Person) AskAgain(id string) {
	defer p.server.mu.Change()()
	from := p.devices[0]
	for _, d := range p.server.devices {
		from.forget(d)
		p.server.push(d, id, wa.Node{Tag: "receipt", Attrs: wa.Attrs{
			"from": from.named(types.DefaultUserServer), "id": id, "type": "retry", "t": time.Now().Unix(),
		}, Content: []wa.Node{
			{Tag: "retry", Attrs: wa.Attrs{"id": id, "count": 1, "t": time.Now().Unix(), "v": 1}},
			{Tag: "registration", Content: registration(from.store.RegistrationID)},
			{Tag: "keys", Content: from.keys()[1:]},
		}}, nil)
	}
}

// tell reports to the linked device that one of its messages has arrived. chat is where it was sent: a group, or the person by the name that was used.
func (p *Person) tell(d *device, id string, chat types.JID) {
	attrs := wa.Attrs{"id": id, "t": time.Now().Unix(), "from": chat}
	if p.server.groups[chat] != nil {
		attrs["participant"] = p.devices[0].named(types.HiddenUserServer)
	}
	p.server.push(d, id, wa.Node{Tag: "receipt", Attrs: attrs}, nil)
}
