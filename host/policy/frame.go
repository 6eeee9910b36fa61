package policy

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/sdk/policy/abi"
)

// maxFrame bounds the facts of one decision, in bytes.
const maxFrame = 256 << 10

// query is one decision to make: the frame and what is too large for it.
type query struct {
	kind           string
	frame          []byte
	text           string
	args           json.RawMessage
	tree           *tree // of args, shared by the chain
	seed           int64
	unix           int64
	agent, channel string // what a scope is about
	err            *Error // the facts fit no frame
}

func routeQuery(f *RouteFacts, zone string, room []byte) (q query) {
	q.askRoute(f, zone, room)
	return q
}

// askRoute makes a query that is empty one about a route.
func (q *query) askRoute(f *RouteFacts, zone string, room []byte) {
	q.frame, q.kind, q.text, q.seed, q.unix = room, KindRoute, f.Message.Text, f.Seed, f.Now.Unix()
	q.agent, q.channel = f.Candidate, f.Message.Channel
	q.build(abi.FrameRoute, &facts{route: f, zone: zoneOf(f.Now, zone)})
}

func toolQuery(f *ToolFacts, zone string, room []byte) query {
	q := query{frame: room, kind: KindTool, text: f.Message.Text, args: f.Args, tree: &tree{}, seed: f.Seed, unix: f.Now.Unix(), agent: f.Agent, channel: f.Message.Channel}
	sum := sha256.Sum256(f.Args)
	var digest [2 * sha256.Size]byte
	hex.Encode(digest[:], sum[:])
	q.build(abi.FrameTool, &facts{tool: f, zone: zoneOf(f.Now, zone), digest: digest[:]})
	return q
}

// facts is where a frame comes from: one of the two kinds.
type facts struct {
	route  *RouteFacts
	tool   *ToolFacts
	zone   string
	digest []byte // of a tool's arguments, hex
}

// measure is the number of fields, of ints among them, and the bytes of all others.
type measure struct{ fields, ints, bytes int }

func (f *facts) measure() measure {
	if f.route != nil {
		return f.route.measure()
	}
	m := f.tool.measure()
	m.bytes += len(f.digest)
	return m
}

func (f *facts) encode(e *encoder) {
	if f.route != nil {
		f.route.encode(e, f.zone)
		return
	}
	f.tool.encode(e, f.zone, f.digest)
}

// build writes the frame, into the memory that the query has for it if there is enough.
func (q *query) build(kind uint16, f *facts) {
	m := f.measure()
	ints := (abi.HeaderSize + abi.EntrySize*m.fields + 7) &^ 7
	values := ints + 8*m.ints
	total := values + m.bytes + len(f.zone)
	if total > maxFrame {
		q.frame = nil
		q.err = failf(ClassFacts, "the facts take %d bytes, at most %d fit a frame", total, maxFrame)
		return
	}
	if cap(q.frame) < total {
		q.frame = make([]byte, total)
	}
	q.frame = q.frame[:total]
	clear(q.frame[ints-min(ints, 8) : ints]) // the gap before the ints
	f.encode(&encoder{buf: q.frame, entry: abi.HeaderSize, intAt: ints, at: values})
	head := q.frame[:abi.HeaderSize]
	binary.LittleEndian.PutUint64(head, abi.Magic|uint64(kind)<<32|uint64(m.fields)<<48)
	binary.LittleEndian.PutUint64(head[8:], uint64(total))
}

// encoder writes the fields of a frame in the order of their ids. Ints lie behind the table, for their alignment, and
// everything else behind the ints. The buffer is as large as was measured.
type encoder struct {
	buf              []byte
	entry, intAt, at int // of the next entry, int, and anything else
}

func (e *encoder) add(id abi.Field, kind, offset, length int) {
	b := e.buf[e.entry : e.entry+abi.EntrySize]
	binary.LittleEndian.PutUint64(b, uint64(id)|uint64(kind)<<16|uint64(uint32(offset))<<32)
	binary.LittleEndian.PutUint32(b[8:], uint32(length))
	e.entry += abi.EntrySize
}

// put writes a part of a value.
func (e *encoder) put(s string) {
	place(e.buf[e.at:e.at+len(s)], s)
	e.at += len(s)
}

// place copies a string to where it fits exactly. Names are short, and a call to copy one takes longer than copying it by its two
// halves, which may overlap.
func place(to []byte, s string) {
	n := len(s)
	switch {
	case n > 16:
		copy(to, s)
	case n >= 8:
		binary.LittleEndian.PutUint64(to, word64(s))
		binary.LittleEndian.PutUint64(to[n-8:], word64(s[n-8:]))
	case n >= 4:
		binary.LittleEndian.PutUint32(to, word32(s))
		binary.LittleEndian.PutUint32(to[n-4:], word32(s[n-4:]))
	default:
		for i := range n {
			to[i] = s[i]
		}
	}
}

func word32(s string) uint32 {
	_ = s[3]
	return uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24
}

func word64(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 | uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

func (e *encoder) string(id abi.Field, s string) {
	e.add(id, abi.TypeString, e.at, len(s))
	e.put(s)
}

func (e *encoder) optional(id abi.Field, s string) {
	if s != "" {
		e.string(id, s)
	}
}

// joined writes "a:b" without making that string.
func (e *encoder) joined(id abi.Field, a, b string) {
	e.add(id, abi.TypeString, e.at, len(a)+1+len(b))
	e.put(a)
	e.put(":")
	e.put(b)
}

func (e *encoder) ascii(id abi.Field, text []byte) {
	e.add(id, abi.TypeString, e.at, len(text))
	e.at += copy(e.buf[e.at:], text)
}

func (e *encoder) int(id abi.Field, v int64) {
	e.add(id, abi.TypeInt, e.intAt, 8)
	binary.LittleEndian.PutUint64(e.buf[e.intAt:], uint64(v))
	e.intAt += 8
}

func (e *encoder) bool(id abi.Field, v bool) {
	e.add(id, abi.TypeBool, e.at, 1)
	e.buf[e.at] = 0
	if v {
		e.buf[e.at] = 1
	}
	e.at++
}

func (e *encoder) list(id abi.Field, list []string) {
	rest := e.buf[e.at:]
	for _, s := range list {
		n := len(s)
		binary.LittleEndian.PutUint32(rest, uint32(n))
		to := rest[4:]
		rest = to[n:]
		if to = to[:n]; n >= 8 && n <= 16 { // as place does, without a call
			binary.LittleEndian.PutUint64(to, word64(s))
			binary.LittleEndian.PutUint64(to[n-8:], word64(s[n-8:]))
		} else {
			place(to, s)
		}
	}
	size := len(e.buf) - e.at - len(rest)
	e.add(id, abi.TypeList, e.at, size)
	e.at += size
}

func listSize(list []string) int {
	n := 4 * len(list)
	for _, s := range list {
		n += len(s)
	}
	return n
}

// present counts the optional strings that are there.
func present(optional ...string) (n int) {
	for _, s := range optional {
		if s != "" {
			n++
		}
	}
	return n
}

// measure counts what encode and encodeLate write, except for the zone.
func (f *Facts) measure() measure {
	m, late := &f.Message, f.measureLate()
	return measure{
		fields: late.fields + 17 + present(m.Conversation.Parent, m.Sender.Account),
		ints:   late.ints + 6,
		bytes: late.bytes + len(m.Channel) + len(m.Conversation.ID) + len(m.Conversation.Kind) + len(m.Conversation.Parent) + len(m.Channel) + 1 + len(m.Sender.ID) +
			len(m.Sender.Name) + len(m.Sender.Account) + len(f.Role) + min(len(m.Text), abi.TextInFrame) + 1 + listSize(f.Labels) + len(f.Door),
	}
}

func (f *RouteFacts) measure() measure {
	m := f.Facts.measure()
	m.fields += 1 + present(f.Candidate)
	if f.Used.Turns > 0 {
		m.fields++
		m.ints++
	}
	m.bytes += len(f.Candidate) + listSize(f.Agents)
	return m
}

func (f *ToolFacts) measure() measure {
	m := f.Facts.measure()
	m.fields += 8
	m.ints += 2
	m.bytes += len(f.Agent) + len(f.Tool) + len(f.Effect) + len(f.Session) + 1
	return m
}

// encode writes the facts of every frame.
func (f *Facts) encode(e *encoder, zone string) {
	m := &f.Message
	e.string(abi.Channel, m.Channel)
	e.string(abi.Conversation, m.Conversation.ID)
	e.string(abi.ConversationKind, string(m.Conversation.Kind))
	e.optional(abi.Parent, m.Conversation.Parent)
	e.joined(abi.Sender, m.Channel, m.Sender.ID)
	e.string(abi.SenderName, m.Sender.Name)
	e.optional(abi.Account, m.Sender.Account)
	e.string(abi.Role, f.Role)
	e.string(abi.Text, head(m.Text))
	e.int(abi.TextLen, int64(len(m.Text)))
	e.bool(abi.Addressed, m.Addressed)
	e.int(abi.Attachments, int64(len(m.Attachments)))
	e.list(abi.Labels, f.Labels)
	e.string(abi.Door, f.Door)
	f.encodeTime(e, zone)
	e.int(abi.Seed, f.Seed)
}

// late tells whether encodeLate has anything to write.
func (f *Facts) late() bool {
	m := &f.Message
	return m.Edited || m.Mentioned || len(m.Attachments) > 0 || len(m.Sender.Roles) > 0 || f.Used != Usage{}
}

// measureLate counts what encodeLate writes.
func (f *Facts) measureLate() (m measure) {
	if !f.late() {
		return m
	}
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

// encodeLate writes the facts that have come since the first version of the contract. A frame has them only where they say
// something, so that they cost nothing else.
func (f *Facts) encodeLate(e *encoder) {
	if !f.late() {
		return
	}
	m := &f.Message
	if m.Edited {
		e.bool(abi.Edited, true)
	}
	if m.Mentioned {
		e.bool(abi.Mentioned, true)
	}
	for i, list := range f.lateLists() {
		if len(list) > 0 {
			e.list(abi.AttachmentTypes+abi.Field(i), list)
		}
	}
	for i, n := range f.Used.late() {
		if n != 0 {
			e.int(abi.SessionTokens+abi.Field(i), n)
		}
	}
}

// late are the facts SessionTokens, SessionCost and SessionAge.
func (u Usage) late() [3]int64 { return [...]int64{u.Tokens, u.Cost, int64(u.Age / time.Second)} }

// lateLists are the facts AttachmentTypes and SenderRoles.
func (f *Facts) lateLists() [2][]string {
	return [...][]string{mediaTypes(f.Message.Attachments), f.Message.Sender.Roles}
}

// mediaTypes is nil where no type is known.
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

func (f *Facts) encodeTime(e *encoder, zone string) {
	_, offset := f.Now.Zone()
	unix := f.Now.Unix()
	local := unix + int64(offset)
	const day, epochWeekday = 86_400, int64(time.Thursday)
	days := local / day
	if local%day < 0 {
		days--
	}
	e.int(abi.UnixTime, unix)
	e.int(abi.MinuteOfDay, (local-days*day)/60)
	e.int(abi.Weekday, ((days+epochWeekday)%7+7)%7)
	e.string(abi.Zone, zone)
}

// zoneOf is the IANA name of the zone that the time is in; the local zone does not know its own.
func zoneOf(t time.Time, local string) string {
	if location := t.Location(); location != time.Local {
		return location.String()
	}
	return local
}

func (f *RouteFacts) encode(e *encoder, zone string) {
	f.Facts.encode(e, zone)
	e.optional(abi.Candidate, f.Candidate)
	e.list(abi.Agents, f.Agents)
	f.encodeLate(e)
	if f.Used.Turns > 0 {
		e.int(abi.Turns, int64(f.Used.Turns))
	}
}

func (f *ToolFacts) encode(e *encoder, zone string, digest []byte) {
	f.Facts.encode(e, zone)
	f.encodeLate(e)
	e.string(abi.Agent, f.Agent)
	e.string(abi.Tool, f.Tool)
	e.string(abi.Effect, f.Effect)
	e.string(abi.Session, f.Session)
	e.ascii(abi.ArgsDigest, digest)
	e.bool(abi.Sandboxed, f.Sandboxed)
	e.int(abi.CallsInTurn, int64(f.CallsInTurn))
	e.int(abi.Turns, int64(f.Used.Turns))
}

// head is the beginning of the text that goes into the frame, cut at a rune.
func head(s string) string {
	if len(s) <= abi.TextInFrame {
		return s
	}
	n := abi.TextInFrame
	for n > abi.TextInFrame-utf8.UTFMax && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// value is one field of a frame.
type value struct {
	kind  uint16
	bytes []byte
}

// fieldOf finds a field of a frame that is known to be well formed.
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

// item is the index-th string of a list; any other value is its own only item. A value of an unknown type has none.
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

// checkFrame makes sure that a frame from a module or a log can be read with fieldOf.
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

// wellFormed makes sure that item cannot run out of a list.
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
