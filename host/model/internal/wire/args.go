package wire

import (
	"bytes"
	"encoding/json"
	"strings"
)

// Object returns arguments in the form that every API accepts: an object. Other values are wrapped
// in one, so that the model sees what it wrote and the request stays valid.
func Object(args json.RawMessage) json.RawMessage {
	args = bytes.TrimSpace(bytes.ToValidUTF8(args, []byte("\uFFFD")))
	switch {
	case len(args) == 0:
		return json.RawMessage("{}")
	case args[0] == '{' && json.Valid(args):
		return args
	}
	wrapped, err := json.Marshal(map[string]string{"_invalid": string(args)})
	if err != nil { // a map of valid strings always marshals
		return json.RawMessage("{}")
	}
	return wrapped
}

// Args returns what a model wrote as arguments. Models write nothing for a tool without parameters.
func Args(written string) json.RawMessage {
	if strings.TrimSpace(written) == "" {
		return json.RawMessage("{}")
	}
	return json.RawMessage(written)
}
