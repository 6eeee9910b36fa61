package linkedtest

import (
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"strings"
	"time"

	wa "go.mau.fi/whatsmeow/binary"
	"go.mau.fi/whatsmeow/proto/waE2E"
	"go.mau.fi/whatsmeow/types"
)

// message takes a message of a device, delivers it, and acknowledges it. A message that comes again with its id is delivered once.
func (s *Server) message(c *conn, n *wa.Node) {
	id, to := text(n, "id"), jidOf(n, "to")
	if id == "" || to.IsEmpty() {
		s.complain("a message without id or recipient: %s", n.XMLString())
		return
	}
	if len(s.refuse) > 0 {
		code := s.refuse[0]
		s.refuse = s.refuse[1:]
		c.send(acknowledged(n, wa.Attrs{"error": code}))
		return
	}
	more := wa.Attrs{}
	switch _, fanned := n.GetOptionalChildByTag("participants"); {
	case !fanned:
		s.direct(c.device, n)
	case !c.device.sent[id]:
		c.device.sent[id] = true
		more["phash"] = s.fanOut(c.device, n)
	}
	if s.swallow > 0 {
		s.swallow--
		return
	}
	c.send(acknowledged(n, more))
}

// acknowledged returns the server's word that it has a message or a receipt.
func acknowledged(n *wa.Node, more wa.Attrs) wa.Node {
	attrs := wa.Attrs{"class": n.Tag, "id": n.Attrs["id"], "from": n.Attrs["to"], "t": time.Now().Unix()}
	for k, v := range more {
		attrs[k] = v
	}
	return wa.Node{Tag: "ack", Attrs: attrs}
}

// direct delivers a message to a single device: a repeated one, or one to the account's own phone.
func (s *Server) direct(d *device, n *wa.Node) {
	target := jidOf(n, "participant")
	if target.IsEmpty() {
		target = jidOf(n, "to")
	}
	p := s.peer(target)
	enc, ok := n.GetOptionalChildByTag("enc")
	if p == nil || !ok {
		s.complain("a message to nobody: %s", n.XMLString())
		return
	}
	retry := enc.AttrGetter().OptionalInt("count")
	p.read(d, n, retry, func() (*waE2E.Message, error) { return p.open(d, &enc) })
}

// fanOut delivers a message to every device that it is encrypted for. It returns the hash of those that it should be for, by which the
// sender notices that its list is old.
func (s *Server) fanOut(d *device, n *wa.Node) (hash string) {
	to := jidOf(n, "to")
	participants := childOf(n, "participants")
	common, forGroup := n.GetOptionalChildByTag("enc")
	for _, child := range participants.GetChildren() {
		p, enc := s.peer(jidOf(&child, "jid")), childOf(&child, "enc")
		if p == nil {
			s.complain("a message for a device that does not exist: %s", child.XMLString())
			continue
		}
		p.read(d, n, 0, func() (*waE2E.Message, error) {
			m, err := p.open(d, &enc)
			if err != nil || !forGroup {
				return m, err
			}
			if err := p.learn(d, to, m.GetSenderKeyDistributionMessage()); err != nil {
				return nil, err
			}
			return p.openGroup(d, to, &common)
		})
	}
	return hashOf(s.recipients(to))
}

// recipients returns the devices for a message to a person, including those of the sender.
func (s *Server) recipients(to types.JID) []types.JID {
	if g := s.groups[to]; g != nil {
		var list []types.JID
		for _, p := range g.members {
			list = append(list, s.devicesOf(p.Hidden)...)
		}
		return list
	}
	own := s.phone.Number
	if to.Server == types.HiddenUserServer {
		own = s.phone.Hidden
	}
	return append(s.devicesOf(to), s.devicesOf(own)...)
}

// hashOf returns the hash of a list of devices.
func hashOf(devices []types.JID) string {
	names := make([]string, len(devices))
	for i, d := range devices {
		names[i] = d.ADString()
	}
	slices.Sort(names)
	sum := sha256.Sum256([]byte(strings.Join(names, "")))
	return "2:" + base64.RawStdEncoding.EncodeToString(sum[:6])
}

// read is a device that gets a message: at once, or when it is switched on.
func (p *peer) read(d *device, n *wa.Node, retry int, open func() (*waE2E.Message, error)) {
	s, id, to := p.person.server, text(n, "id"), jidOf(n, "to")
	take := func() {
		m, err := open()
		if err != nil {
			s.complain("a device of %s cannot read %s: %v", p.person.Name, id, err)
			return
		}
		p.person.got = append(p.person.got, Got{ID: id, Chat: to, Device: p.id, Retry: retry, Message: m})
		if p.id == 0 && p.person != s.phone {
			p.person.tell(d, id, to)
		}
	}
	if p.person.off {
		p.person.later = append(p.person.later, take)
		return
	}
	take()
}

// receipt handles a device's receipt for messages of others.
func (s *Server) receipt(c *conn, n *wa.Node) {
	kind, ids := text(n, "type"), []string{text(n, "id")}
	list := childOf(n, "list")
	for _, item := range list.GetChildren() {
		ids = append(ids, text(&item, "id"))
	}
	for _, id := range ids {
		author := s.author(id)
		if author == nil {
			s.complain("a receipt for a message that nobody sent: %s", n.XMLString())
			continue
		}
		if s.groups[author.sent[id].chat] != nil && jidOf(n, "participant").ToNonAD() != author.Hidden {
			s.complain("a receipt that names another sender than the message: %s", n.XMLString())
			continue
		}
		switch kind {
		case "retry":
			author.receipts = append(author.receipts, Receipt{id, kind})
			retry := childOf(n, "retry")
			author.devices[0].forget(c.device)
			author.sendTo(c.device, id, retry.AttrGetter().OptionalInt("count"))
		case "read", "read-self", "played":
			author.receipts = append(author.receipts, Receipt{id, kind})
		default:
			s.confirm(c.device, "message", id, kind)
		}
	}
	c.send(acknowledged(n, wa.Attrs{"type": kind}))
}

func (s *Server) author(id string) *Person {
	for _, p := range s.people {
		if _, ok := p.sent[id]; ok {
			return p
		}
	}
	return nil
}
