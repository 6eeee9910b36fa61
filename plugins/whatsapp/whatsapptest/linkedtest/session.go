package linkedtest

import (
	"fmt"
	"strconv"
	"time"

	"go.mau.fi/whatsmeow/binary"
	"go.mau.fi/whatsmeow/types"
	"go.mau.fi/whatsmeow/util/keys"
)

// device is a linked device of the account.
type device struct {
	id           uint16
	noise        [32]byte // it logs in by this key
	identity     [32]byte
	registration []byte
	signed       keys.PreKey
	once         []keys.PreKey // each is given away once
	conn         *conn         // nil while it is offline
	queue        []*waiting
	sent         map[string]bool // ids of the messages that it has sent
}

// waiting is a stanza that the device has not confirmed. confirm, which may be nil, is called with "ack" or the type of the receipt.
type waiting struct {
	id      string
	node    binary.Node
	confirm func(kind string)
}

func (d *device) number() types.JID { return types.NewADJID(Number, types.WhatsAppDomain, uint8(d.id)) }

func (d *device) hidden() types.JID { return types.NewADJID(Hidden, types.LIDDomain, uint8(d.id)) }

// admit begins the session of a client: with codes when it has no account, with a login otherwise.
func (s *Server) admit(c *conn) {
	defer s.mu.Change()()
	if v := c.payload.GetUserAgent().GetAppVersion(); older([3]uint32{v.GetPrimary(), v.GetSecondary(), v.GetTertiary()}, s.oldest) {
		s.expel(c, failure(405, nil))
		return
	}
	if c.payload.Username == nil {
		s.offer(c)
		return
	}
	if len(s.turnAway) > 0 {
		answer := s.turnAway[0]
		s.turnAway = s.turnAway[1:]
		s.expel(c, answer)
		return
	}
	d := s.devices[uint16(c.payload.GetDevice())]
	if strconv.FormatUint(c.payload.GetUsername(), 10) != Number || d == nil || d.noise != c.static {
		s.expel(c, failure(401, binary.Attrs{"location": "frc"}))
		return
	}
	if d.conn != nil {
		s.expel(d.conn, streamError("", "replaced"))
	}
	c.device, d.conn = d, c
	s.logins++
	c.send(binary.Node{Tag: "success", Attrs: binary.Attrs{"t": time.Now().Unix(), "lid": d.hidden(), "props": 27, "companion_enc_static": ""}})
}

func older(v, than [3]uint32) bool {
	for i := range v {
		if v[i] != than[i] {
			return v[i] < than[i]
		}
	}
	return false
}

// failure is the answer to a login that is not taken.
func failure(reason int, more binary.Attrs) binary.Node {
	attrs := binary.Attrs{"reason": reason}
	for k, v := range more {
		attrs[k] = v
	}
	return binary.Node{Tag: "failure", Attrs: attrs}
}

// streamError returns the last stanza of a session.
func streamError(code, conflict string) binary.Node {
	n := binary.Node{Tag: "stream:error", Attrs: binary.Attrs{}}
	if code != "" {
		n.Attrs["code"] = code
	}
	if conflict != "" {
		n.Content = []binary.Node{{Tag: "conflict", Attrs: binary.Attrs{"type": conflict}}}
	}
	return n
}

// take handles one stanza of a client.
func (s *Server) take(c *conn, n *binary.Node) {
	defer s.mu.Change()()
	switch {
	case n.Tag == "iq" && (text(n, "type") == "result" || text(n, "type") == "error"):
		s.identityAnswered(c, n)
	case n.Tag == "iq" && text(n, "xmlns") == "w:p":
		c.send(result(n))
	case c.device == nil:
		s.complain("a client without an account sends %s", n.XMLString())
	case n.Tag == "iq":
		s.answer(c, n)
	case n.Tag == "message":
		s.message(c, n)
	case n.Tag == "receipt":
		s.receipt(c, n)
	case n.Tag == "ack":
		s.confirm(c.device, text(n, "class"), text(n, "id"), "ack")
	case n.Tag == "chatstate":
		for _, child := range n.GetChildren() {
			s.typing = append(s.typing, jidOf(n, "to").User+" "+child.Tag)
		}
	case n.Tag == "presence":
	default:
		s.complain("a stanza that WhatsApp does not know: %s", n.XMLString())
	}
}

// push sends a stanza to the device and keeps it until it is confirmed. s.mu is held.
func (s *Server) push(d *device, id string, node binary.Node, confirm func(kind string)) {
	d.queue = append(d.queue, &waiting{id, node, confirm})
	if d.conn != nil && d.conn.active {
		d.conn.send(node)
	}
}

// flush sends the stored messages of a device that has logged in.
func (s *Server) flush(c *conn) {
	c.active = true
	for i, w := range c.device.queue {
		late := w.node
		late.Attrs = binary.Attrs{"offline": i}
		for k, v := range w.node.Attrs {
			late.Attrs[k] = v
		}
		c.send(late)
	}
	c.send(binary.Node{Tag: "ib", Attrs: binary.Attrs{"from": types.ServerJID}, Content: []binary.Node{
		{Tag: "offline", Attrs: binary.Attrs{"count": len(c.device.queue)}},
	}})
}

// confirm removes a stanza from the queue.
func (s *Server) confirm(d *device, tag, id, kind string) {
	for i, w := range d.queue {
		if w.node.Tag == tag && w.id == id {
			d.queue = append(d.queue[:i], d.queue[i+1:]...)
			if w.confirm != nil {
				w.confirm(kind)
			}
			return
		}
	}
}

// Waiting counts the messages and receipts that no device has confirmed.
func (s *Server) Waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, d := range s.devices {
		n += len(d.queue)
	}
	return n
}

// Drop breaks every connection.
func (s *Server) Drop() {
	defer s.mu.Change()()
	for c := range s.conns {
		c.cut()
	}
}

// Restart ends the sessions with the error of a server that restarts.
func (s *Server) Restart() {
	defer s.mu.Change()()
	for c := range s.conns {
		c.send(streamError("503", ""))
		s.work.Go(c.end)
	}
}

// Replace ends the sessions as a login by another program with the same keys does.
func (s *Server) Replace() {
	defer s.mu.Change()()
	for c := range s.conns {
		s.expel(c, streamError("", "replaced"))
	}
}

// expel ends a session with a last stanza. The library forgets what it has read when the connection ends before it was handled; so it
// is given the time to leave by itself.
func (s *Server) expel(c *conn, last binary.Node) {
	c.send(last)
	s.work.Go(func() {
		select {
		case <-c.done:
		case <-s.ctx.Done():
		case <-time.After(linger):
		}
		c.end()
	})
}

// Remove is the phone removing its linked devices.
func (s *Server) Remove() {
	defer s.mu.Change()()
	for id, d := range s.devices {
		delete(s.devices, id)
		if d.conn != nil {
			s.expel(d.conn, streamError("401", "device_removed"))
		}
	}
}

// TurnAway makes the next login fail for a reason, such as 402 for a ban that ends; more are further words about it.
func (s *Server) TurnAway(reason int, more map[string]any) {
	defer s.mu.Change()()
	s.turnAway = append(s.turnAway, failure(reason, more))
}

// Oldest sets the oldest version of the client that is taken.
func (s *Server) Oldest(a, b, c uint32) {
	defer s.mu.Change()()
	s.oldest = [3]uint32{a, b, c}
}

// Refuse makes the next messages of the device fail with these codes.
func (s *Server) Refuse(codes ...int) {
	defer s.mu.Change()()
	s.refuse = append(s.refuse, codes...)
}

// Swallow takes and delivers the next message without an answer.
func (s *Server) Swallow() {
	defer s.mu.Change()()
	s.swallow++
}

// result answers a question.
func result(n *binary.Node, content ...binary.Node) binary.Node {
	answer := binary.Node{Tag: "iq", Attrs: binary.Attrs{"from": types.ServerJID, "type": "result", "id": n.Attrs["id"]}}
	if len(content) > 0 {
		answer.Content = content
	}
	return answer
}

// failed answers a question with an error.
func failed(n *binary.Node, code int, why string) binary.Node {
	return binary.Node{Tag: "iq", Attrs: binary.Attrs{"from": types.ServerJID, "type": "error", "id": n.Attrs["id"]}, Content: []binary.Node{
		{Tag: "error", Attrs: binary.Attrs{"code": code, "text": why}},
	}}
}

// preKey returns a key in the form of a stanza.
func preKey(tag string, k keys.PreKey) binary.Node {
	content := []binary.Node{
		{Tag: "id", Content: []byte{byte(k.KeyID >> 16), byte(k.KeyID >> 8), byte(k.KeyID)}}, {Tag: "value", Content: k.Pub[:]},
	}
	if k.Signature != nil {
		content = append(content, binary.Node{Tag: "signature", Content: k.Signature[:]})
	}
	return binary.Node{Tag: tag, Content: content}
}

// readPreKey is the inverse of preKey.
func readPreKey(n *binary.Node) (keys.PreKey, error) {
	id, value, signature := bytesOf(n, "id"), bytesOf(n, "value"), bytesOf(n, "signature")
	if len(id) != 3 || len(value) != 32 || n.Tag == "skey" && len(signature) != 64 {
		return keys.PreKey{}, fmt.Errorf("a key that is none: %s", n.XMLString())
	}
	k := keys.PreKey{KeyID: uint32(id[0])<<16 | uint32(id[1])<<8 | uint32(id[2]), KeyPair: keys.KeyPair{Pub: (*[32]byte)(value)}}
	if n.Tag == "skey" {
		k.Signature = (*[64]byte)(signature)
	}
	return k, nil
}
