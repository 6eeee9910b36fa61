package policy

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/flynnhost/flynn/host/policy/opa"
	"github.com/flynnhost/flynn/sdk/policy/abi"
)

// document is the input of a policy in Rego: a decision's facts as JSON. It is made only of the frame and of what did not fit the frame, both of
// which are recorded, so that a replay makes the same document.
type document struct {
	route, tool []opa.Fact
	args, text  bool                // are in it
	large       []byte              // the names of those two, for the record
	values      [abi.OutAgent]value // by field, of the frame at hand
	made        []byte
}

// newDocument returns a document with the facts that the module reads.
func newDocument(reads func(fact string) bool) document {
	unread := func(f opa.Fact) bool { return !reads(f.Name) }
	var large []string
	for _, name := range []string{opa.Args, "text"} {
		if reads(name) {
			large = append(large, name)
		}
	}
	return document{
		large: []byte(strings.Join(large, " ")),
		route: slices.DeleteFunc(opa.RouteFacts(), unread), tool: slices.DeleteFunc(opa.ToolFacts(), unread),
		args: reads(opa.Args), text: reads("text"),
	}
}

// build makes the document of a query, which is valid until the next one.
func (d *document) build(q *query, args json.RawMessage) ([]byte, *Error) {
	if err := checkArguments(args); err != nil {
		return nil, err
	}
	d.index(q.frame)
	b := append(d.made[:0], '{')
	facts := d.route
	if q.kind == KindTool {
		facts = d.tool
	}
	for i := range facts {
		f := &facts[i]
		b = append(append(append(b, '"'), f.Name...), '"', ':')
		b = append(d.fact(b, f, q), ',')
	}
	if args != nil {
		b = append(append(b, `"`+opa.Args+`":`...), args...)
		b = append(b, ',')
	}
	d.made = append(bytes.TrimSuffix(b, []byte{','}), '}')
	return d.made, nil
}

// index reads the values of a frame, which has to be well formed.
func (d *document) index(frame []byte) {
	clear(d.values[:])
	for i := range int(binary.LittleEndian.Uint16(frame[6:])) {
		e := frame[abi.HeaderSize+abi.EntrySize*i:]
		if id := binary.LittleEndian.Uint16(e); int(id) < len(d.values) {
			at, length := binary.LittleEndian.Uint32(e[4:]), binary.LittleEndian.Uint32(e[8:])
			d.values[id] = value{binary.LittleEndian.Uint16(e[2:]), frame[at : at+length]}
		}
	}
}

// fact appends a value; the empty value if it is absent or of another type.
func (d *document) fact(b []byte, f *opa.Fact, q *query) []byte {
	v := d.values[f.Field]
	there := int(v.kind) == f.Type
	switch f.Type {
	case abi.TypeInt:
		n := int64(0)
		if there && len(v.bytes) == 8 {
			n = int64(binary.LittleEndian.Uint64(v.bytes))
		}
		return strconv.AppendInt(b, n, 10)
	case abi.TypeBool:
		return strconv.AppendBool(b, there && len(v.bytes) == 1 && v.bytes[0] == 1)
	case abi.TypeList:
		if !there {
			v.bytes = nil
		}
		return appendList(b, v.bytes)
	}
	switch {
	case !there:
		v.bytes = nil
	case f.Field == abi.Text && len(q.text) > abi.TextInFrame:
		return appendQuoted(b, q.text)
	}
	return appendQuoted(b, v.bytes)
}

func appendList(b, list []byte) []byte {
	b = append(b, '[')
	for first := true; len(list) >= 4; first = false {
		if !first {
			b = append(b, ',')
		}
		n := binary.LittleEndian.Uint32(list)
		b = appendQuoted(b, list[4:4+n])
		list = list[4+n:]
	}
	return append(b, ']')
}

// appendQuoted appends a JSON string, with replacement characters for invalid UTF-8.
func appendQuoted[T string | []byte](b []byte, s T) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	begin := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		size := 1
		if c >= utf8.RuneSelf {
			var r rune
			if r, size = utf8.DecodeRuneInString(string(s[i:min(len(s), i+utf8.UTFMax)])); r != utf8.RuneError || size > 1 {
				i += size
				continue
			}
		}
		b = append(b, s[begin:i]...)
		switch {
		case c >= utf8.RuneSelf:
			b = append(b, "\ufffd"...)
		case c >= ' ':
			b = append(b, '\\', c)
		default:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		i += size
		begin = i
	}
	return append(append(b, s[begin:]...), '"')
}

// arguments returns the tool's arguments as a part of the document. A call without arguments has an empty object, even if its record was
// decoded from JSON, where no arguments become null.
func (q *query) arguments() json.RawMessage {
	switch {
	case q.kind != KindTool:
		return nil
	case len(q.args) == 0 || string(q.args) == "null":
		return json.RawMessage("{}")
	}
	return q.args
}

// checkArguments checks arguments that go into the document unchanged; they come from a model or a log.
func checkArguments(args json.RawMessage) *Error {
	switch {
	case len(args) > maxArgs:
		return failf(ClassFacts, "the arguments have %d bytes, at most %d can be looked into", len(args), maxArgs)
	case args != nil && !json.Valid(args):
		return failf(ClassFacts, "the arguments are no JSON")
	}
	return nil
}
