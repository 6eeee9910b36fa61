package policy

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"time"
	"unicode/utf8"

	"github.com/flynnhost/flynn/sdk/policy/abi"
)

// maxFrame bounds the facts of one decision, in bytes.
const maxFrame = 256 << 10

// query is one decision to make: the frame and what is too large for it.
type query struct {
	kind  string
	frame []byte
	text  string
	args  json.RawMessage
	tree  *tree // of args, shared by the chain
	seed  int64
	unix  int64
	err   *Error // the facts fit no frame
}

func routeQuery(f *RouteFacts, zone string) query {
	q := query{kind: KindRoute, text: f.Message.Text, seed: f.Seed, unix: f.Now.Unix()}
	q.build(abi.FrameRoute, source{route: f, zone: zone})
	return q
}

func toolQuery(f *ToolFacts, zone string) query {
	q := query{kind: KindTool, text: f.Message.Text, args: f.Args, tree: &tree{}, seed: f.Seed, unix: f.Now.Unix()}
	sum := sha256.Sum256(f.Args)
	var digest [2 * sha256.Size]byte
	hex.Encode(digest[:], sum[:])
	q.build(abi.FrameTool, source{tool: f, zone: zone, digest: digest[:]})
	return q
}

// source is where a frame comes from: one of the two kinds of facts.
type source struct {
	route  *RouteFacts
	tool   *ToolFacts
	zone   string
	digest []byte // of a tool's arguments, hex
}

func (s *source) encode(e *encoder) {
	if s.route != nil {
		s.route.encode(e, s.zone)
		return
	}
	s.tool.encode(e, s.zone, s.digest)
}

// build encodes twice: once to measure, once to write into a frame of just that size.
func (q *query) build(kind uint16, s source) {
	var e encoder
	s.encode(&e)
	count := e.entries
	ints := (abi.HeaderSize + abi.EntrySize*count + 7) &^ 7
	values := ints + 8*e.ints
	total := values + e.bytes
	if total > maxFrame {
		q.err = failf(ClassFacts, "the facts take %d bytes, at most %d fit a frame", total, maxFrame)
		return
	}
	e = encoder{buf: make([]byte, values, total), entry: abi.HeaderSize, intAt: ints}
	s.encode(&e)
	q.frame = e.buf
	binary.LittleEndian.PutUint32(q.frame, abi.Magic)
	binary.LittleEndian.PutUint16(q.frame[4:], kind)
	binary.LittleEndian.PutUint16(q.frame[6:], uint16(count))
	binary.LittleEndian.PutUint32(q.frame[8:], uint32(total))
}

// encoder writes the fields of a frame in the order of their ids, or measures them while buf is nil. Ints lie
// behind the table, for their alignment, and everything else behind the ints.
type encoder struct {
	buf           []byte
	entry, intAt  int
	entries, ints int
	bytes         int
}

func (e *encoder) add(id abi.Field, kind, offset, length int) {
	b := e.buf[e.entry : e.entry+abi.EntrySize]
	binary.LittleEndian.PutUint16(b, uint16(id))
	binary.LittleEndian.PutUint16(b[2:], uint16(kind))
	binary.LittleEndian.PutUint32(b[4:], uint32(offset))
	binary.LittleEndian.PutUint32(b[8:], uint32(length))
	e.entry += abi.EntrySize
}

func (e *encoder) string(id abi.Field, s string) {
	if e.buf == nil {
		e.entries++
		e.bytes += len(s)
		return
	}
	e.add(id, abi.TypeString, len(e.buf), len(s))
	e.buf = append(e.buf, s...)
}

func (e *encoder) optional(id abi.Field, s string) {
	if s != "" {
		e.string(id, s)
	}
}

// joined writes "a:b" without making that string.
func (e *encoder) joined(id abi.Field, a, b string) {
	if e.buf == nil {
		e.entries++
		e.bytes += len(a) + 1 + len(b)
		return
	}
	e.add(id, abi.TypeString, len(e.buf), len(a)+1+len(b))
	e.buf = append(append(append(e.buf, a...), ':'), b...)
}

func (e *encoder) ascii(id abi.Field, text []byte) {
	if e.buf == nil {
		e.entries++
		e.bytes += len(text)
		return
	}
	e.add(id, abi.TypeString, len(e.buf), len(text))
	e.buf = append(e.buf, text...)
}

func (e *encoder) int(id abi.Field, v int64) {
	if e.buf == nil {
		e.entries++
		e.ints++
		return
	}
	e.add(id, abi.TypeInt, e.intAt, 8)
	binary.LittleEndian.PutUint64(e.buf[e.intAt:], uint64(v))
	e.intAt += 8
}

func (e *encoder) bool(id abi.Field, v bool) {
	if e.buf == nil {
		e.entries++
		e.bytes++
		return
	}
	e.add(id, abi.TypeBool, len(e.buf), 1)
	b := byte(0)
	if v {
		b = 1
	}
	e.buf = append(e.buf, b)
}

func (e *encoder) list(id abi.Field, list []string) {
	size := 0
	for _, s := range list {
		size += 4 + len(s)
	}
	if e.buf == nil {
		e.entries++
		e.bytes += size
		return
	}
	e.add(id, abi.TypeList, len(e.buf), size)
	for _, s := range list {
		e.buf = append(binary.LittleEndian.AppendUint32(e.buf, uint32(len(s))), s...)
	}
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

func (f *Facts) encodeTime(e *encoder, zone string) {
	unix, local := int64(0), int64(0)
	if e.buf != nil {
		_, offset := f.Now.Zone()
		unix = f.Now.Unix()
		local = unix + int64(offset)
	}
	const day, epochWeekday = 86_400, int64(time.Thursday)
	days := local / day
	if local%day < 0 {
		days--
	}
	e.int(abi.UnixTime, unix)
	e.int(abi.MinuteOfDay, (local-days*day)/60)
	e.int(abi.Weekday, ((days+epochWeekday)%7+7)%7)
	if name := f.Now.Location().String(); name != time.Local.String() {
		zone = name
	}
	e.string(abi.Zone, zone)
}

func (f *RouteFacts) encode(e *encoder, zone string) {
	f.Facts.encode(e, zone)
	e.optional(abi.Candidate, f.Candidate)
	e.list(abi.Agents, f.Agents)
}

func (f *ToolFacts) encode(e *encoder, zone string, digest []byte) {
	f.Facts.encode(e, zone)
	e.string(abi.Agent, f.Agent)
	e.string(abi.Tool, f.Tool)
	e.string(abi.Effect, f.Effect)
	e.string(abi.Session, f.Session)
	e.ascii(abi.ArgsDigest, digest)
	e.bool(abi.Sandboxed, f.Sandboxed)
	e.int(abi.CallsInTurn, int64(f.CallsInTurn))
	e.int(abi.Turns, int64(f.Turns))
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

// item is the index-th string of a list; any other value is its own only item.
func (v value) item(index uint32) ([]byte, bool) {
	if v.kind != abi.TypeList {
		return v.bytes, index == 0
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

// parseFrame checks a frame that comes from a module or from a log, and reads its fields.
func parseFrame(frame []byte, kind uint16) (map[abi.Field]value, *Error) {
	if len(frame) < abi.HeaderSize || binary.LittleEndian.Uint32(frame) != abi.Magic {
		return nil, failf(ClassAnswer, "a frame without its head")
	}
	if k := binary.LittleEndian.Uint16(frame[4:]); k != kind {
		return nil, failf(ClassAnswer, "a frame of kind %d in place of %d", k, kind)
	}
	if n := binary.LittleEndian.Uint32(frame[8:]); int64(n) != int64(len(frame)) {
		return nil, failf(ClassAnswer, "a frame that says it has %d bytes and has %d", n, len(frame))
	}
	count := int(binary.LittleEndian.Uint16(frame[6:]))
	if abi.HeaderSize+abi.EntrySize*count > len(frame) {
		return nil, failf(ClassAnswer, "a frame of %d entries in %d bytes", count, len(frame))
	}
	fields := make(map[abi.Field]value, count)
	for i := range count {
		e := frame[abi.HeaderSize+abi.EntrySize*i:]
		at, length := binary.LittleEndian.Uint32(e[4:]), binary.LittleEndian.Uint32(e[8:])
		if uint64(at)+uint64(length) > uint64(len(frame)) {
			return nil, failf(ClassAnswer, "a frame whose entry %d lies outside", i)
		}
		fields[abi.Field(binary.LittleEndian.Uint16(e))] = value{binary.LittleEndian.Uint16(e[2:]), frame[at : at+length]}
	}
	return fields, nil
}

// checkLists makes sure that value.item cannot run out of a logged frame.
func checkLists(fields map[abi.Field]value) *Error {
	for id, v := range fields {
		if v.kind != abi.TypeList {
			continue
		}
		for b := v.bytes; len(b) > 0; {
			if len(b) < 4 || uint64(binary.LittleEndian.Uint32(b)) > uint64(len(b)-4) {
				return failf(ClassAnswer, "a frame whose list %d is malformed", id)
			}
			b = b[4+binary.LittleEndian.Uint32(b):]
		}
	}
	return nil
}
