package linkedtest

import (
	"encoding/binary"
	"time"

	wa "go.mau.fi/whatsmeow/binary"
	"go.mau.fi/whatsmeow/types"
)

const maxKeys = 1000 // that a device may leave here

// answer answers a question of a device.
func (s *Server) answer(c *conn, n *wa.Node) {
	kind := text(n, "xmlns") + " " + text(n, "type")
	switch kind {
	case "encrypt get":
		s.giveKeys(c, n)
	case "encrypt set":
		s.takeKeys(c, n)
	case "passive set":
		c.send(result(n))
		if _, ok := n.GetOptionalChildByTag("active"); ok {
			s.flush(c)
		}
	case "usync get":
		s.listDevices(c, n)
	case "w:g2 get":
		s.describe(c, n)
	case "w:m set":
		c.send(result(n, wa.Node{Tag: "media_conn", Attrs: wa.Attrs{"auth": mediaAuth, "ttl": 300, "auth_ttl": 21600, "max_buckets": 12}, Content: []wa.Node{
			{Tag: "host", Attrs: wa.Attrs{"hostname": mediaHost, "type": "primary"}},
		}}))
	case "privacy get":
		c.send(result(n, wa.Node{Tag: "privacy", Content: []wa.Node{
			{Tag: "category", Attrs: wa.Attrs{"name": "readreceipts", "value": "all"}},
		}}))
	default:
		s.complain("a question that is not answered here: %s", n.XMLString())
		c.send(failed(n, 501, "feature-not-implemented"))
	}
}

// takeKeys stores keys with which others begin sessions.
func (s *Server) takeKeys(c *conn, n *wa.Node) {
	list := childOf(n, "list")
	for _, child := range list.GetChildren() {
		k, err := readPreKey(&child)
		if err != nil || len(c.device.once) >= maxKeys {
			s.complain("keys are not taken, with %d there: %v", len(c.device.once), err)
			c.send(failed(n, 406, "not-acceptable"))
			return
		}
		c.device.once = append(c.device.once, k)
	}
	c.send(result(n))
}

// giveKeys answers how many keys the device has left here, or gives it those of others.
func (s *Server) giveKeys(c *conn, n *wa.Node) {
	if _, ok := n.GetOptionalChildByTag("count"); ok {
		// The count is one too high for a new device, which then makes 50 keys and not 812: those would take most of a test's time.
		c.send(result(n, wa.Node{Tag: "count", Attrs: wa.Attrs{"value": max(1, len(c.device.once))}}))
		return
	}
	var users []wa.Node
	key := childOf(n, "key")
	for _, user := range key.GetChildren() {
		jid := jidOf(&user, "jid")
		p := s.peer(jid)
		if p == nil {
			users = append(users, wa.Node{Tag: "user", Attrs: wa.Attrs{"jid": jid}, Content: []wa.Node{
				{Tag: "error", Attrs: wa.Attrs{"code": 404, "text": "item-not-found"}},
			}})
			continue
		}
		users = append(users, wa.Node{Tag: "user", Attrs: wa.Attrs{"jid": jid}, Content: p.keys()})
	}
	c.send(result(n, wa.Node{Tag: "list", Content: users}))
}

// registration returns a number in the form that keys use.
func registration(id uint32) []byte { return binary.BigEndian.AppendUint32(nil, id) }

// listDevices lists the devices of people.
func (s *Server) listDevices(c *conn, n *wa.Node) {
	var users []wa.Node
	list := childOf(n, "usync", "list")
	for _, user := range list.GetChildren() {
		jid := jidOf(&user, "jid")
		answer := wa.Node{Tag: "devices", Content: []wa.Node{{Tag: "error", Attrs: wa.Attrs{"code": 404, "text": "item-not-found"}}}}
		if devices := s.devicesOf(jid); len(devices) > 0 {
			var ids []wa.Node
			for _, d := range devices {
				ids = append(ids, wa.Node{Tag: "device", Attrs: wa.Attrs{"id": int(d.Device)}})
			}
			answer.Content = []wa.Node{{Tag: "device-list", Content: ids}}
		}
		users = append(users, wa.Node{Tag: "user", Attrs: wa.Attrs{"jid": jid}, Content: []wa.Node{answer}})
	}
	c.send(result(n, wa.Node{Tag: "usync", Content: []wa.Node{{Tag: "list", Content: users}}}))
}

// devicesOf lists a person's devices by the requested name.
func (s *Server) devicesOf(j types.JID) []types.JID {
	var list []types.JID
	for _, p := range s.people {
		for _, d := range p.devices {
			if d.named(j.Server).ToNonAD() == j.ToNonAD() {
				list = append(list, d.named(j.Server))
			}
		}
	}
	for _, d := range s.devices {
		for _, own := range []types.JID{d.number(), d.hidden()} {
			if own.ToNonAD() == j.ToNonAD() {
				list = append(list, own)
			}
		}
	}
	return list
}

// describe lists the members of a group.
func (s *Server) describe(c *conn, n *wa.Node) {
	g := s.groups[jidOf(n, "to")]
	if g == nil {
		c.send(failed(n, 404, "item-not-found"))
		return
	}
	var members []wa.Node
	for _, p := range g.members {
		members = append(members, wa.Node{Tag: "participant", Attrs: wa.Attrs{"jid": p.Hidden, "phone_number": p.Number}})
	}
	c.send(result(n, wa.Node{Tag: "group", Content: members, Attrs: wa.Attrs{
		"id": g.jid.User, "subject": "Family", "creation": time.Now().Unix(), "addressing_mode": "lid", "creator": g.members[0].Hidden, "size": len(members),
	}}))
}
