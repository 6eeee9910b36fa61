package policy

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/sdk/cut"
	"github.com/flynnhost/flynn/sdk/policy/abi"
)

// maxFrame bounds the facts of one decision, in bytes.
const maxFrame = 256 << 10

// query is one decision to make: the frame and the facts that are too large for it.
type query struct {
	kind           string
	frame          []byte
	text           string
	args           json.RawMessage
	tree           *tree  // of args, shared by the chain
	shard          uint32 // where an instance is looked for first
	seed           int64
	unix           int64
	agent, channel string   // to compare with a policy's scope
	agents         []string // that may be chosen
	err            *Error   // the facts do not fit a frame
}

func routeQuery(f *RouteFacts, zone string, agents *agentList) *query {
	q := &query{kind: KindRoute, text: f.Message.Text, shard: rand.Uint32(), seed: f.Seed, agent: f.Candidate, channel: f.Message.Channel, agents: f.Agents}
	when := momentOf(f.Now, zone)
	q.unix = when.unix
	m := f.measure()
	m.bytes += len(agents.value) + len(when.zone)
	if c, ok := q.open(abi.FrameRoute, m); ok {
		f.encode(q.frame, c, &when, agents.value)
	}
	return q
}

func toolQuery(f *ToolFacts, zone string) *query {
	q := &query{
		kind: KindTool, text: f.Message.Text, args: f.Args, tree: &tree{}, shard: rand.Uint32(), seed: f.Seed, agent: f.Agent, channel: f.Message.Channel,
	}
	sum := sha256.Sum256(f.Args)
	var digest [2 * sha256.Size]byte
	hex.Encode(digest[:], sum[:])
	when := momentOf(f.Now, zone)
	q.unix = when.unix
	m := f.measure()
	m.bytes += len(digest) + len(when.zone)
	if c, ok := q.open(abi.FrameTool, m); ok {
		f.encode(q.frame, c, &when, digest[:])
	}
	return q
}

// measure is the number of fields, the number of ints among them, and the bytes of all other values.
type measure struct{ fields, ints, bytes int }

// open begins a frame of that measure.
func (q *query) open(kind uint16, m measure) (c cursor, ok bool) {
	ints := (abi.HeaderSize + abi.EntrySize*m.fields + 7) &^ 7
	values := ints + 8*m.ints
	total := values + m.bytes
	if total > maxFrame {
		q.err = failf(ClassFacts, "the facts take %d bytes, at most %d fit a frame", total, maxFrame)
		return c, false
	}
	q.frame = make([]byte, total)
	head := q.frame[:abi.HeaderSize]
	binary.LittleEndian.PutUint64(head, abi.Magic|uint64(kind)<<32|uint64(m.fields)<<48)
	binary.LittleEndian.PutUint64(head[8:], uint64(total))
	return cursor{abi.HeaderSize, ints, values}, true
}

// present returns the number of fields of an optional string.
func present(s string) int {
	if s != "" {
		return 1
	}
	return 0
}

// measure counts the fields that encode and encodeLate write, except for the zone.
func (f *Facts) measure() measure {
	m, late := &f.Message, measure{}
	if f.late() {
		late = f.measureLate()
	}
	return measure{
		fields: late.fields + 17 + present(m.Conversation.Parent) + present(m.Sender.Account),
		ints:   late.ints + 6,
		bytes: late.bytes + len(m.Channel) + len(m.Conversation.ID) + len(m.Conversation.Kind) + len(m.Conversation.Parent) + len(m.Channel) + 1 + len(m.Sender.ID) +
			len(m.Sender.Name) + len(m.Sender.Account) + len(f.Role) + min(len(m.Text), abi.TextInFrame) + 1 + listSize(f.Labels) + len(f.Door),
	}
}

// measure also leaves out the agents.
func (f *RouteFacts) measure() measure {
	m := f.Facts.measure()
	m.fields += 1 + present(f.Candidate)
	if f.Used.Turns > 0 {
		m.fields++
		m.ints++
	}
	m.bytes += len(f.Candidate)
	return m
}

// measure also leaves out the digest of the arguments.
func (f *ToolFacts) measure() measure {
	m := f.Facts.measure()
	m.fields += 8
	m.ints += 2
	m.bytes += len(f.Agent) + len(f.Tool) + len(f.Effect) + len(f.Session) + 1
	return m
}

// encode writes the facts that every frame has.
func (f *Facts) encode(frame []byte, c cursor, when *moment) cursor {
	m := &f.Message
	c = c.string(frame, abi.Channel, m.Channel)
	c = c.string(frame, abi.Conversation, m.Conversation.ID)
	c = c.string(frame, abi.ConversationKind, string(m.Conversation.Kind))
	c = c.optional(frame, abi.Parent, m.Conversation.Parent)
	c = c.joined(frame, abi.Sender, m.Channel, m.Sender.ID)
	c = c.string(frame, abi.SenderName, m.Sender.Name)
	c = c.optional(frame, abi.Account, m.Sender.Account)
	c = c.string(frame, abi.Role, f.Role)
	c = c.string(frame, abi.Text, cut.Head(m.Text, abi.TextInFrame))
	c = c.int(frame, abi.TextLen, int64(len(m.Text)))
	c = c.bool(frame, abi.Addressed, m.Addressed)
	c = c.int(frame, abi.Attachments, int64(len(m.Attachments)))
	c = c.list(frame, abi.Labels, f.Labels)
	c = c.string(frame, abi.Door, f.Door)
	c = when.encode(frame, c)
	return c.int(frame, abi.Seed, f.Seed)
}

// late reports whether encodeLate has anything to write.
func (f *Facts) late() bool {
	m := &f.Message
	return m.Edited || m.Mentioned || len(m.Attachments) > 0 || len(m.Sender.Roles) > 0 || f.Used != Usage{}
}

// measureLate counts the fields that encodeLate writes.
func (f *Facts) measureLate() (m measure) {
	for _, truth := range [...]bool{f.Message.Edited, f.Message.Mentioned} {
		if truth {
			m.fields++
			m.bytes++
		}
	}
	for _, list := range f.lateLists() {
		if len(list) > 0 {
			m.fields++
			m.bytes += listSize(list)
		}
	}
	for _, n := range f.Used.late() {
		if n != 0 {
			m.fields++
			m.ints++
		}
	}
	return m
}

// encodeLate writes the facts that were added after the first version of the contract. A frame has them only if they are not zero, so
// that they cost nothing otherwise.
func (f *Facts) encodeLate(frame []byte, c cursor) cursor {
	m := &f.Message
	if m.Edited {
		c = c.bool(frame, abi.Edited, true)
	}
	if m.Mentioned {
		c = c.bool(frame, abi.Mentioned, true)
	}
	for i, list := range f.lateLists() {
		if len(list) > 0 {
			c = c.list(frame, abi.AttachmentTypes+abi.Field(i), list)
		}
	}
	for i, n := range f.Used.late() {
		if n != 0 {
			c = c.int(frame, abi.SessionTokens+abi.Field(i), n)
		}
	}
	return c
}

// late returns the facts SessionTokens, SessionCost and SessionAge.
func (u Usage) late() [3]int64 { return [...]int64{u.Tokens, u.Cost, int64(u.Age / time.Second)} }

// lateLists returns the facts AttachmentTypes and SenderRoles.
func (f *Facts) lateLists() [2][]string {
	return [...][]string{mediaTypes(f.Message.Attachments), f.Message.Sender.Roles}
}

// mediaTypes returns nil if no type is known.
func mediaTypes(attachments []message.Attachment) []string {
	if !slices.ContainsFunc(attachments, func(a message.Attachment) bool { return a.Type != "" }) {
		return nil
	}
	types := make([]string, len(attachments))
	for i, a := range attachments {
		types[i] = a.Type
	}
	return types
}

// moment is the time as a frame has it.
type moment struct {
	unix   int64
	offset int    // seconds east of Greenwich
	zone   string // IANA name
}

// momentOf returns a time in its zone; local is the name of the local zone, which time.Local does not know.
func momentOf(t time.Time, local string) moment {
	location := t.Location()
	if location == time.UTC {
		return moment{t.Unix(), 0, "UTC"}
	}
	if location != time.Local {
		local = location.String()
	}
	_, offset := t.Zone()
	return moment{t.Unix(), offset, local}
}

func (m *moment) encode(frame []byte, c cursor) cursor {
	const day = 86_400
	// Seconds since a Sunday so long ago that none is negative.
	local := uint64(m.unix + int64(m.offset) + int64(time.Thursday)*day + 7*day<<30)
	c = c.int(frame, abi.UnixTime, m.unix)
	c = c.int(frame, abi.MinuteOfDay, int64(local%day/60))
	c = c.int(frame, abi.Weekday, int64(local/day%7))
	return c.string(frame, abi.Zone, m.zone)
}

func (f *RouteFacts) encode(frame []byte, c cursor, when *moment, agents []byte) {
	c = f.Facts.encode(frame, c, when)
	c = c.optional(frame, abi.Candidate, f.Candidate)
	c = c.bytes(frame, abi.Agents, abi.TypeList, agents)
	if f.late() {
		c = f.encodeLate(frame, c)
	}
	if f.Used.Turns > 0 {
		c.int(frame, abi.Turns, int64(f.Used.Turns))
	}
}

func (f *ToolFacts) encode(frame []byte, c cursor, when *moment, digest []byte) {
	c = f.Facts.encode(frame, c, when)
	if f.late() {
		c = f.encodeLate(frame, c)
	}
	c = c.string(frame, abi.Agent, f.Agent)
	c = c.string(frame, abi.Tool, f.Tool)
	c = c.string(frame, abi.Effect, f.Effect)
	c = c.string(frame, abi.Session, f.Session)
	c = c.bytes(frame, abi.ArgsDigest, abi.TypeString, digest)
	c = c.bool(frame, abi.Sandboxed, f.Sandboxed)
	c = c.int(frame, abi.CallsInTurn, int64(f.CallsInTurn))
	c.int(frame, abi.Turns, int64(f.Used.Turns))
}

// value is one field of a frame.
type value struct {
	kind  uint16
	bytes []byte
}

// fieldOf returns a field of a frame, which has to be well formed.
func fieldOf(frame []byte, id abi.Field) (value, bool) {
	n := int(binary.LittleEndian.Uint16(frame[6:]))
	for i := range n {
		e := frame[abi.HeaderSize+abi.EntrySize*i:]
		if binary.LittleEndian.Uint16(e) == uint16(id) {
			at, length := binary.LittleEndian.Uint32(e[4:]), binary.LittleEndian.Uint32(e[8:])
			return value{binary.LittleEndian.Uint16(e[2:]), frame[at : at+length]}, true
		}
	}
	return value{}, false
}

// item returns the index-th string of a list; any other value is its own only item. A value of an unknown type has no items.
func (v value) item(index uint32) ([]byte, bool) {
	if v.kind != abi.TypeList {
		return v.bytes, index == 0 && v.kind < abi.TypeList
	}
	for b := v.bytes; len(b) >= 4; {
		n := binary.LittleEndian.Uint32(b)
		if index == 0 {
			return b[4 : 4+n], true
		}
		index--
		b = b[4+n:]
	}
	return nil, false
}

// checkFrame checks a frame that comes from a module or a log, so that fieldOf can read it.
func checkFrame(frame []byte, kind uint16) *Error {
	if len(frame) < abi.HeaderSize || binary.LittleEndian.Uint32(frame) != abi.Magic {
		return failf(ClassAnswer, "a frame without its head")
	}
	if k := binary.LittleEndian.Uint16(frame[4:]); k != kind {
		return failf(ClassAnswer, "a frame of kind %d in place of %d", k, kind)
	}
	if n := binary.LittleEndian.Uint32(frame[8:]); int64(n) != int64(len(frame)) {
		return failf(ClassAnswer, "a frame that says it has %d bytes and has %d", n, len(frame))
	}
	count := int(binary.LittleEndian.Uint16(frame[6:]))
	if abi.HeaderSize+abi.EntrySize*count > len(frame) {
		return failf(ClassAnswer, "a frame of %d entries in %d bytes", count, len(frame))
	}
	for i := range count {
		e := frame[abi.HeaderSize+abi.EntrySize*i:]
		at, length := binary.LittleEndian.Uint32(e[4:]), binary.LittleEndian.Uint32(e[8:])
		if uint64(at)+uint64(length) > uint64(len(frame)) {
			return failf(ClassAnswer, "a frame whose entry %d lies outside", i)
		}
		v := value{binary.LittleEndian.Uint16(e[2:]), frame[at : at+length]}
		if !v.wellFormed() {
			return failf(ClassAnswer, "a frame whose entry %d is malformed", i)
		}
	}
	return nil
}

// wellFormed reports whether the items of a list fill it.
func (v value) wellFormed() bool {
	if v.kind != abi.TypeList {
		return true
	}
	b := v.bytes
	for len(b) >= 4 {
		n := binary.LittleEndian.Uint32(b)
		if uint64(n) > uint64(len(b)-4) {
			return false
		}
		b = b[4+n:]
	}
	return len(b) == 0
}
