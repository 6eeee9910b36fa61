package wire

import (
	"bytes"
	"encoding/json"
	"math"
)

// Text is a string of an answer. It holds any other value as JSON, since servers mix up types.
type Text string

// UnmarshalJSON implements json.Unmarshaler.
func (t *Text) UnmarshalJSON(raw []byte) error {
	switch {
	case bytes.Equal(raw, []byte("null")):
		return nil
	case raw[0] == '"':
		return json.Unmarshal(raw, (*string)(t))
	}
	*t = Text(raw)
	return nil
}

// Number is a whole number of an answer, also one that is written as a fraction; 0 for any other value.
type Number int64

// UnmarshalJSON implements json.Unmarshaler.
func (n *Number) UnmarshalJSON(raw []byte) error {
	var f float64
	if json.Unmarshal(raw, &f) == nil {
		*n = Number(min(max(f, math.MinInt32), math.MaxInt32))
	}
	return nil
}
