package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/flynnhost/flynn/host/message"
)

// Bounds of the short fields, in bytes.
const (
	maxID   = 64  // event ids and names of local conversations
	maxName = 256 // names that channels gave
)

// shape lists the fields that a type of frame must and may have.
type shape struct{ must, may []string }

func shapeOf(kind string) (shape, bool) {
	switch kind {
	case TypeHello:
		return shape{must: []string{"token", "channel", "conversation"}, may: []string{"resume"}}, true
	case TypeSend:
		return shape{must: []string{"id", "text"}, may: []string{"files"}}, true
	case TypeDecide:
		return shape{must: []string{"approval", "grant"}, may: []string{"scope"}}, true
	case TypeStop, TypeHistory:
		return shape{}, true
	}
	return shape{}, false
}

// DecodeFrame reads one frame of a client and checks everything about it that needs no other state. The frame comes with
// an error only if it is well formed and one of its values is not allowed.
func DecodeFrame(data []byte) (ClientFrame, error) {
	var f, none ClientFrame
	fields, err := objectFields(data)
	if err != nil {
		return none, err
	}
	if err := json.Unmarshal(data, &f); err != nil {
		return none, fmt.Errorf("decode frame: %w", err)
	}
	s, ok := shapeOf(f.Type)
	if !ok {
		return none, fmt.Errorf("unknown type %q", clip(f.Type))
	}
	for _, name := range s.must {
		if !slices.Contains(fields, name) {
			return none, fmt.Errorf("%s needs the field %q", f.Type, name)
		}
	}
	for _, name := range fields {
		if name != "type" && !slices.Contains(s.must, name) && !slices.Contains(s.may, name) {
			return none, fmt.Errorf("%s has no field %q", f.Type, clip(name))
		}
	}
	return f, f.check()
}

// check refuses values that are not allowed.
func (f ClientFrame) check() error {
	switch f.Type {
	case TypeHello:
		if len(f.Token) > maxToken {
			return errors.New("token is too long")
		}
		if !validName(f.Channel) {
			return errors.New("channel is not a valid name")
		}
		if len(f.Resume) > maxName {
			return errors.New("resume is too long")
		}
		return checkConversation(f.Channel, f.Conversation)
	case TypeSend:
		return checkSend(f.ID, f.Text, f.Files)
	case TypeDecide:
		if f.Grant == nil || !validName(f.Approval) {
			return errors.New("decide needs an approval and a grant of true or false")
		}
		return Answer{Grant: f.Grant, Scope: f.Scope}.check()
	}
	return nil
}

func checkSend(id, text string, files []string) error {
	if !validID(id) {
		return fmt.Errorf("id must be 1 to %d letters, digits, '.', '_' or '-'", maxID)
	}
	if len(text) > message.MaxText {
		return fmt.Errorf("text is longer than %d bytes", message.MaxText)
	}
	if strings.TrimSpace(text) == "" && len(files) == 0 {
		return errors.New("text is empty")
	}
	return checkFiles(files)
}

// checkConversation allows plain names on local frontends, and any name that a platform may have given on channels.
func checkConversation(channel, conversation string) error {
	if localFrontend(channel) {
		if !validID(conversation) {
			return fmt.Errorf("conversation must be 1 to %d letters, digits, '.', '_' or '-'", maxID)
		}
		return nil
	}
	if channel == ChannelConsole {
		sender, ok := message.ConsoleOwner(conversation)
		if name := strings.TrimPrefix(conversation, message.ConsoleConversation(sender, "")); !ok || !validName(conversation) || !validID(name) {
			return fmt.Errorf(`conversation must be a sender, "~", and 1 to %d letters, digits, '.', '_' or '-'`, maxID)
		}
		return nil
	}
	if !validName(conversation) {
		return errors.New("conversation is not a valid name")
	}
	return nil
}

func localFrontend(channel string) bool { return channel == ChannelWeb || channel == ChannelTerminal }

func validID(s string) bool {
	return s != "" && len(s) <= maxID && strings.IndexFunc(s, func(r rune) bool {
		return r > unicode.MaxASCII || !(unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("._-", r))
	}) < 0
}

func validName(s string) bool {
	return s != "" && len(s) <= maxName && utf8.ValidString(s) && strings.IndexFunc(s, unicode.IsControl) < 0
}

// objectFields returns the names of the fields of the one object in data. The standard decoder alone would let
// repeated fields, other spellings ("TYPE") and invalid UTF-8 pass.
func objectFields(data []byte) ([]string, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("frame is not UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("frame is not a JSON object")
	}
	var names []string
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return nil, fmt.Errorf("decode frame: %w", err)
		}
		name, _ := t.(string)
		if slices.Contains(names, name) {
			return nil, fmt.Errorf("field %q is repeated", clip(name))
		}
		if names = append(names, name); len(names) > 8 {
			return nil, errors.New("frame has too many fields")
		}
		if t, err = dec.Token(); err != nil {
			return nil, fmt.Errorf("decode frame: %w", err)
		}
		if name == "files" && t == json.Delim('[') {
			if err := skipStrings(dec); err != nil {
				return nil, err
			}
			continue
		}
		if _, nested := t.(json.Delim); nested || t == nil {
			return nil, fmt.Errorf("field %q must be a string or a boolean", clip(name))
		}
	}
	if _, err := dec.Token(); err != nil {
		return nil, fmt.Errorf("decode frame: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the frame's object")
	}
	return names, nil
}

// skipStrings reads the rest of a list of strings.
func skipStrings(dec *json.Decoder) error {
	for {
		t, err := dec.Token()
		if err != nil {
			return fmt.Errorf("decode frame: %w", err)
		}
		if t == json.Delim(']') {
			return nil
		}
		if _, ok := t.(string); !ok {
			return errors.New("files must be strings")
		}
	}
}
