package peers

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/flynnhost/flynn/host/message"
)

// A frame is a byte for its kind, 4 bytes for the length of the rest, big endian, and the rest. A connection begins with a frame of the end
// that has dialed:
//
//	watch  which conversation, as JSON; the answers are events that are past, ok, and then events, gaps and beats without end
//	tell   which conversation, as JSON; events and ok follow, and the answer is ok
//	ping   empty; the answer is ok
//
// Instead of any answer there may be a refusal, with its reason, after which the connection ends.
type kind byte

const (
	watch   kind = 'w'
	tell    kind = 't'
	ping    kind = 'p'
	event   kind = 'e' // a message.Event without its conversation, as JSON
	ok      kind = 'o'
	gap     kind = 'g' // an event was too large; it is in the store
	beat    kind = 'b'
	refusal kind = 'r'
)

const (
	headSize = 5
	// maxFrame bounds what follows the head of a frame.
	maxFrame = 1 << 20
	// maxText is how much streamed text an event has. Longer text is sent as several events; as JSON each of them is at most six times as long.
	maxText = 64 << 10
	// maxName bounds the names in an event, maxList its lists, and maxReason what is said in a refusal.
	maxName   = 4 << 10
	maxList   = 1000
	maxReason = 200
)

// errProtocol means that the other end does not keep to the protocol.
var errProtocol = errors.New("the other host does not speak as expected")

// frame is one frame.
type frame struct {
	kind kind
	body []byte
}

// appendFrame appends a frame to p.
func appendFrame(p []byte, k kind, body []byte) []byte {
	p = append(p, byte(k))
	p = binary.BigEndian.AppendUint32(p, uint32(len(body)))
	return append(p, body...)
}

// readFrame reads a frame. It allocates no more than what has arrived, and no more than a frame may have.
func readFrame(r io.Reader) (frame, error) {
	var head [headSize]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return frame{}, err
	}
	k, size := kind(head[0]), binary.BigEndian.Uint32(head[1:])
	most := uint32(0)
	switch k {
	case event:
		most = maxFrame
	case watch, tell:
		most = 4 * maxName
	case refusal:
		most = maxReason
	case ping, ok, gap, beat:
	default:
		return frame{}, fmt.Errorf("%w: a frame is of kind %q", errProtocol, head[0])
	}
	if size > most {
		return frame{}, fmt.Errorf("%w: a frame of kind %q has %d bytes", errProtocol, head[0], size)
	}
	var body bytes.Buffer
	if _, err := io.CopyN(&body, r, int64(size)); err != nil {
		return frame{}, errors.Join(err, io.ErrUnexpectedEOF)
	}
	return frame{k, body.Bytes()}, nil
}

// place is a conversation.
type place struct {
	Channel      string `json:"channel"`
	Conversation string `json:"conversation"`
}

func placeOf(k message.ConversationKey) place { return place{k.Channel(), k.ID()} }

func (p place) key() message.ConversationKey {
	return message.NewConversationKey(p.Channel, p.Conversation)
}

// strictly reads the JSON of a frame.
func strictly(body []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("%w: %w", errProtocol, err)
	}
	if d.InputOffset() != int64(len(body)) {
		return fmt.Errorf("%w: something follows the JSON of a frame", errProtocol)
	}
	return nil
}

func readPlace(body []byte) (p place, err error) {
	if err := strictly(body, &p); err != nil {
		return p, err
	}
	if p.Channel == "" || p.Conversation == "" || len(p.Channel) > maxName || len(p.Conversation) > maxName {
		return p, fmt.Errorf("%w: it names no conversation", errProtocol)
	}
	return p, nil
}

// readEvent reads an event of a conversation.
func readEvent(body []byte, p place) (message.Event, error) {
	var e message.Event
	if err := strictly(body, &e); err != nil {
		return e, err
	}
	if err := checkEvent(e); err != nil {
		return e, err
	}
	e.Channel, e.Conversation = p.Channel, p.Conversation
	return e, nil
}

func checkEvent(e message.Event) error {
	switch e.Kind {
	case message.TurnStarted, message.TextDelta, message.TextReset, message.ToolCall, message.ToolDecision, message.ToolApproval, message.ToolProgress,
		message.ToolResult, message.ReplyReady, message.TurnFailed, message.TurnDone:
		if e.Turn == "" {
			return fmt.Errorf("%w: an event %q is of no turn", errProtocol, e.Kind)
		}
	case message.Said:
	default:
		return fmt.Errorf("%w: an event is of kind %.20q", errProtocol, e.Kind)
	}
	if e.Channel != "" || e.Conversation != "" {
		return fmt.Errorf("%w: an event names a conversation", errProtocol)
	}
	for _, name := range []string{e.Turn, e.Agent, e.Call, e.Tool, e.Decision, e.Where, e.Approval, e.Key} {
		if len(name) > maxName {
			return fmt.Errorf("%w: a name has %d bytes", errProtocol, len(name))
		}
	}
	for _, list := range [][]string{e.Reasons, e.Answers, e.Files} {
		if len(list) > maxList {
			return fmt.Errorf("%w: a list has %d entries", errProtocol, len(list))
		}
	}
	return nil
}

// appendEvent appends the frames of an event to p.
func appendEvent(p []byte, e message.Event) []byte {
	e.Channel, e.Conversation = "", ""
	streams := e.Kind == message.TextDelta || e.Kind == message.ToolProgress
	for streams && len(e.Text) > maxText {
		at := maxText
		for at > maxText-utf8.UTFMax && !utf8.RuneStart(e.Text[at]) {
			at--
		}
		first := e
		first.Text, e.Text = e.Text[:at], e.Text[at:]
		p = appendEvent(p, first)
	}
	body, err := json.Marshal(e)
	if err != nil || len(body) > maxFrame || checkEvent(e) != nil { // it is in the store
		return appendFrame(p, gap, nil)
	}
	return appendFrame(p, event, body)
}
