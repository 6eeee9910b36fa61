package linkedtest

import (
	"time"

	wa "go.mau.fi/whatsmeow/binary"
	"go.mau.fi/whatsmeow/proto/waCommon"
	"go.mau.fi/whatsmeow/proto/waE2E"
	"go.mau.fi/whatsmeow/proto/waLidMigrationSyncPayload"
	"go.mau.fi/whatsmeow/types"
	"google.golang.org/protobuf/proto"
)

// sendTo encrypts a message for one linked device and hands it to the server; retry is how often it was asked for again.
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

// push passes a message to the server, which stores it until the device has confirmed it.
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
	p.server.push(d, id, wa.Node{Tag: "message", Attrs: attrs, Content: encs}, func(kind string) {
		if kind != "ack" {
			p.receipts = append(p.receipts, Receipt{id, kind})
		}
	})
}

// kindOf returns the kind of a message that the server sees.
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

// Edited returns the message that changes one of its sender's.
func Edited(id, text string) *waE2E.Message {
	return &waE2E.Message{EditedMessage: &waE2E.FutureProofMessage{Message: &waE2E.Message{ProtocolMessage: &waE2E.ProtocolMessage{
		Type: waE2E.ProtocolMessage_MESSAGE_EDIT.Enum(), Key: &waCommon.MessageKey{ID: &id, FromMe: proto.Bool(true)},
		EditedMessage: &waE2E.Message{Conversation: &text}, TimestampMS: proto.Int64(time.Now().UnixMilli()),
	}}}}
}

// ShareHiddenIDs returns what the account's phone sends to its devices when WhatsApp has moved it to hidden ids: whose is whose. From then on
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
