package author

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/sdk/policy/abi"
)

// entry is one fact of a frame.
type entry struct {
	field abi.Field
	typ   uint16
	value []byte
	at    int // of the entry in the table
}

// hidden is a type that no SDK looks for.
const hidden = 0xffff

// entries reads the table of a frame, which may be malformed.
func entries(frame []byte) ([]entry, error) {
	le := binary.LittleEndian
	if len(frame) < abi.HeaderSize || le.Uint32(frame) != abi.Magic {
		return nil, errors.New("not a frame: it does not begin with FLN1")
	}
	count := int(le.Uint16(frame[6:]))
	if total := le.Uint32(frame[8:]); uint64(total) != uint64(len(frame)) || abi.HeaderSize+count*abi.EntrySize > len(frame) {
		return nil, fmt.Errorf("the frame is %d bytes long and says that it is %d with %d facts", len(frame), total, count)
	}
	list := make([]entry, count)
	for i := range list {
		at := abi.HeaderSize + i*abi.EntrySize
		off, n := uint64(le.Uint32(frame[at+4:])), uint64(le.Uint32(frame[at+8:]))
		if off+n > uint64(len(frame)) {
			return nil, fmt.Errorf("fact %d of the frame lies beyond its end", i+1)
		}
		list[i] = entry{abi.Field(le.Uint16(frame[at:])), le.Uint16(frame[at+2:]), frame[off : off+n], at}
	}
	return list, nil
}

// Fact is one fact of a frame, with its value for people.
type Fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// FactsOf returns the facts that a frame has.
func FactsOf(frame []byte) ([]Fact, error) {
	list, err := entries(frame)
	facts := make([]Fact, len(list))
	for i, e := range list {
		facts[i] = Fact{e.name(), e.String()}
	}
	return facts, err
}

// kindOf returns the kind of decision that a frame is for.
func kindOf(frame []byte) (string, error) {
	if _, err := entries(frame); err != nil {
		return "", err
	}
	switch kind := binary.LittleEndian.Uint16(frame[4:]); kind {
	case abi.FrameRoute:
		return policy.KindRoute, nil
	case abi.FrameTool:
		return policy.KindTool, nil
	default:
		return "", fmt.Errorf("a frame of kind %d has no facts", kind)
	}
}

// statedIn returns the facts of a well-formed frame that the host needs besides the frame to ask with it.
func statedIn(frame []byte) Facts {
	f := defaultFacts()
	list, _ := entries(frame)
	for _, e := range list {
		switch e.field {
		case abi.Text:
			f.Text = string(e.value)
		case abi.Seed:
			f.Seed = e.integer()
		case abi.UnixTime:
			f.Now = time.Unix(e.integer(), 0).UTC().Format(time.RFC3339)
		case abi.Agents:
			f.Agents = listItems(e.value)
		}
	}
	return f
}

func (e entry) integer() int64 {
	if len(e.value) != 8 {
		return 0
	}
	return int64(binary.LittleEndian.Uint64(e.value))
}

// without returns a copy of a frame without a fact. The fact's entry stays, with another type, so that finding any other fact takes the
// policy exactly as many steps as before.
func without(frame []byte, e entry) []byte {
	frame = slices.Clone(frame)
	binary.LittleEndian.PutUint16(frame[e.at+2:], hidden)
	return frame
}

func (e entry) name() string { return policy.FieldName(e.field) }

// String returns the value for people.
func (e entry) String() string {
	switch {
	case e.typ == abi.TypeString:
		return strconv.Quote(string(e.value))
	case e.typ == abi.TypeInt && len(e.value) == 8:
		return strconv.FormatInt(e.integer(), 10)
	case e.typ == abi.TypeBool && len(e.value) == 1:
		return strconv.FormatBool(e.value[0] == 1)
	case e.typ == abi.TypeList:
		return fmt.Sprintf("%q", listItems(e.value))
	}
	return fmt.Sprintf("0x%x", e.value)
}

// listItems returns the items of a list up to the first malformed one.
func listItems(b []byte) []string {
	var items []string
	for len(b) >= 4 {
		n := uint64(binary.LittleEndian.Uint32(b))
		if n > uint64(len(b)-4) {
			break
		}
		items, b = append(items, string(b[4:4+n])), b[4+n:]
	}
	return items
}
