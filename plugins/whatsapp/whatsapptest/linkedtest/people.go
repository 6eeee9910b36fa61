package linkedtest

import (
	"slices"
	"time"

	wa "go.mau.fi/whatsmeow/binary"
	"go.mau.fi/whatsmeow/proto/waCommon"
	"go.mau.fi/whatsmeow/proto/waE2E"
	"go.mau.fi/whatsmeow/proto/waLidMigrationSyncPayload"
	"go.mau.fi/whatsmeow/types"
	"google.golang.org/protobuf/proto"
)

// Person is somebody on WhatsApp with a phone.
type Person struct {
	Number, Hidden types.JID // the two names
	Name           string

	server   *Server
	devices  []*peer
	byHidden bool // writes under the hidden id
	private  bool // and the number is told to nobody
	off      bool
	later    []func() // what came while the phone was off
	got      []Got
	receipts []Receipt
	sent     map[string]outgoing
}

// Got is a message that a device of a person has read.
type Got struct {
	ID      string
	Chat    types.JID // the group, or the person by the name that was used
	Device  uint16
	Retry   int // 1 and more: it was asked for again
	Message *waE2E.Message
}

// Receipt is what the linked device says of a message: "" and "inactive" when it has it, "read", "retry".
type Receipt struct{ ID, Type string }

// outgoing is a message that may be asked for again.
type outgoing struct {
	chat types.JID
	m    *waE2E.Message
}

type group struct {
	jid     types.JID
	members []*Person
	told    map[*peer]map[uint16]bool // who has told which linked device the key
}

func (s *Server) newPerson(number, hidden, name string) *Person {
	p := &Person{
		Number: types.NewJID(number, types.DefaultUserServer), Hidden: types.NewJID(hidden, types.HiddenUserServer), Name: name, server: s,
		sent: map[string]outgoing{},
	}
	p.devices = []*peer{newPeer(p, 0)}
	return p
}

// Person makes somebody with a phone.
func (s *Server) Person(number, hidden, name string) *Person {
	defer s.lock()()
	p := s.newPerson(number, hidden, name)
	s.people = append(s.people, p)
	return p
}

// Phone is the account's own phone: what it writes comes to the linked device as the account's own.
func (s *Server) Phone() *Person { return s.phone }

// Group puts people and the account into a group, whose members are named by their hidden ids.
func (s *Server) Group(id string, people ...*Person) types.JID {
	defer s.lock()()
	g := &group{jid: types.NewJID(id, types.GroupServer), members: append([]*Person{s.phone}, people...), told: map[*peer]map[uint16]bool{}}
	s.groups[g.jid] = g
	return g.jid
}

// AddDevice gives a person one more device.
func (p *Person) AddDevice(id uint16) {
	defer p.server.lock()()
	p.devices = append(p.devices, newPeer(p, id))
}

// WriteByHidden makes a person write under the hidden id, with the number beside it unless it is private.
func (p *Person) WriteByHidden(private bool) {
	defer p.server.lock()()
	p.byHidden, p.private = true, private
}

// Off switches the phone off: messages wait, and nothing confirms them.
func (p *Person) Off() {
	defer p.server.lock()()
	p.off = true
}

// On switches it on again.
func (p *Person) On() {
	defer p.server.lock()()
	p.off = false
	for _, read := range p.later {
		read()
	}
	p.later = nil
}

// Got lists what the person's devices have read, in order.
func (p *Person) Got() []Got {
	p.server.mu.Lock()
	defer p.server.mu.Unlock()
	return slices.Clone(p.got)
}

// Receipts lists what the linked device has said of the person's messages.
func (p *Person) Receipts() []Receipt {
	p.server.mu.Lock()
	defer p.server.mu.Unlock()
	return slices.Clone(p.receipts)
}

// Say writes to the account.
func (p *Person) Say(text string) (id string) {
	return p.Send(types.JID{}, &waE2E.Message{Conversation: &text})
}

// Send sends a message: to a group, or to the account when chat is empty. What the account's own phone sends to a person comes to
// the linked device as a copy. A message without an own id cannot be told from its redelivery, so each has a new one.
func (p *Person) Send(chat types.JID, m *waE2E.Message) (id string) {
	defer p.server.lock()()
	id = p.server.nextID()
	p.sent[id] = outgoing{chat, m}
	for _, d := range p.server.devices {
		p.sendTo(d, id, 0)
	}
	return id
}

// Garble sends a text that the linked device cannot decrypt, until it asks for it again.
func (p *Person) Garble(text string) (id string) {
	defer p.server.lock()()
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

// sendTo encrypts a message for one linked device and hands it to the server; retry tells how often it was asked for again.
func (p *Person) sendTo(d *device, id string, retry int) {
	out, from := p.sent[id], p.devices[0]
	m := out.m
	var encs []wa.Node
	var err error
	if g := p.server.groups[out.chat]; g != nil {
		encs, err = p.sealFor(g, d, m, retry)
	} else {
		if p == p.server.phone && !out.chat.IsEmpty() {
			m = &waE2E.Message{DeviceSentMessage: &waE2E.DeviceSentMessage{DestinationJID: proto.String(out.chat.String()), Message: m}}
		}
		var enc wa.Node
		enc, err = from.seal(d, m)
		encs = []wa.Node{enc}
	}
	if err != nil {
		p.server.complain("%s writes: %v", p.Name, err)
		return
	}
	if retry > 0 {
		encs[0].Attrs["count"] = retry
	}
	p.push(d, id, out, encs)
}

// sealFor encrypts a message for a group. A device that has not got the sender's key gets it with the message.
func (p *Person) sealFor(g *group, d *device, m *waE2E.Message, retry int) (encs []wa.Node, err error) {
	from := p.devices[0]
	name, key, err := from.groupKey(g.jid)
	if err != nil {
		return nil, err
	}
	if g.told[from] == nil {
		g.told[from] = map[uint16]bool{}
	}
	if !g.told[from][d.id] || retry > 0 {
		enc, err := from.seal(d, key)
		if err != nil {
			return nil, err
		}
		g.told[from][d.id] = true
		encs = append(encs, enc)
	}
	enc, err := from.sealGroup(name, m)
	return append(encs, enc), err
}

// push hands a message to the server, which keeps it until the device has confirmed it.
func (p *Person) push(d *device, id string, out outgoing, encs []wa.Node) {
	attrs := wa.Attrs{"id": id, "t": time.Now().Unix(), "type": kindOf(out.m), "notify": p.Name}
	number, hidden := p.devices[0].named(types.DefaultUserServer), p.devices[0].named(types.HiddenUserServer)
	switch {
	case p.server.groups[out.chat] != nil:
		attrs["from"], attrs["participant"], attrs["addressing_mode"] = out.chat, hidden, "lid"
		if !p.private {
			attrs["participant_pn"] = number
		}
	case p == p.server.phone:
		attrs["from"] = number
		if out.chat.IsEmpty() {
			attrs["category"] = "peer"
		} else {
			attrs["recipient"] = out.chat
		}
	case p.byHidden:
		attrs["from"], attrs["addressing_mode"] = hidden, "lid"
		if !p.private {
			attrs["sender_pn"] = number
		}
	default:
		attrs["from"], attrs["sender_lid"] = number, hidden
	}
	if edit := editOf(out.m); edit != "" {
		attrs["edit"] = edit
	}
	p.server.push(d, id, wa.Node{Tag: "message", Attrs: attrs, Content: encs}, func(kind string, _ *wa.Node) {
		if kind != "ack" {
			p.receipts = append(p.receipts, Receipt{id, kind})
		}
	})
}

// kindOf is what the server may know of a message.
func kindOf(m *waE2E.Message) string {
	switch {
	case m.GetReactionMessage() != nil:
		return "reaction"
	case m.GetImageMessage() != nil, m.GetVideoMessage() != nil, m.GetAudioMessage() != nil, m.GetDocumentMessage() != nil:
		return "media"
	}
	return "text"
}

func editOf(m *waE2E.Message) string {
	p := m.GetProtocolMessage()
	if e := m.GetEditedMessage().GetMessage().GetProtocolMessage(); e != nil {
		p = e
	}
	switch {
	case p.GetType() == waE2E.ProtocolMessage_MESSAGE_EDIT:
		return string(types.EditAttributeMessageEdit)
	case p.GetKey() != nil && p.GetType() == waE2E.ProtocolMessage_REVOKE:
		return string(types.EditAttributeSenderRevoke)
	}
	return ""
}

// Edited is the message that changes one of its sender's.
func Edited(id, text string) *waE2E.Message {
	return &waE2E.Message{EditedMessage: &waE2E.FutureProofMessage{Message: &waE2E.Message{ProtocolMessage: &waE2E.ProtocolMessage{
		Type: waE2E.ProtocolMessage_MESSAGE_EDIT.Enum(), Key: &waCommon.MessageKey{ID: &id, FromMe: proto.Bool(true)},
		EditedMessage: &waE2E.Message{Conversation: &text}, TimestampMS: proto.Int64(time.Now().UnixMilli()),
	}}}}
}

// ShareHiddenIDs is what the account's phone sends to its devices when WhatsApp has moved it to hidden ids: whose is whose. From then on
// a device writes to people by these.
func (p *Person) ShareHiddenIDs(people ...*Person) {
	mapping := &waLidMigrationSyncPayload.LIDMigrationMappingSyncPayload{ChatDbMigrationTimestamp: proto.Uint64(uint64(time.Now().Unix()))}
	for _, other := range people {
		mapping.PnToLidMappings = append(mapping.PnToLidMappings, &waLidMigrationSyncPayload.LIDMigrationMapping{
			Pn: proto.Uint64(other.Number.UserInt()), AssignedLid: proto.Uint64(other.Hidden.UserInt()),
		})
	}
	payload, err := proto.Marshal(mapping)
	if err != nil {
		p.server.t.Fatal(err)
	}
	p.Send(types.JID{}, &waE2E.Message{ProtocolMessage: &waE2E.ProtocolMessage{
		Type:                           waE2E.ProtocolMessage_LID_MIGRATION_MAPPING_SYNC.Enum(),
		LidMigrationMappingSyncMessage: &waE2E.LIDMigrationMappingSyncMessage{EncodedMappingPayload: payload},
	}})
}

// AskAgain tells the linked device that the person's phone could not read a message of its, and gives new keys for it.
func (p *Person) AskAgain(id string) {
	defer p.server.lock()()
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

// Tell sends a receipt for a message of the linked device: "" for arrived, or "read". chat is the group, or empty.
func (p *Person) Tell(id, kind string, chat types.JID) {
	defer p.server.lock()()
	for _, d := range p.server.devices {
		p.tell(d, id, kind, chat)
	}
}

func (p *Person) tell(d *device, id, kind string, chat types.JID) {
	attrs := wa.Attrs{"id": id, "t": time.Now().Unix(), "from": p.Number}
	if p.server.groups[chat] != nil {
		attrs["from"], attrs["participant"] = chat, p.devices[0].named(types.HiddenUserServer)
	}
	if kind != "" {
		attrs["type"] = kind
	}
	p.server.push(d, id, wa.Node{Tag: "receipt", Attrs: attrs}, nil)
}
