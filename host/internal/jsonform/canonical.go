package jsonform

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Bounds on the arguments of one call.
const (
	MaxArgs  = 256 << 10 // bytes
	maxDepth = 64
	// maxDigits bounds an integer's literal; longer ones fit no tool and cost a big-number comparison.
	maxDigits = 64
)

// Canonical parses the arguments of a tool call, which may be any bytes, and
// returns them in one fixed form together with the parsed value: keys sorted as in
// RFC 8785, no insignificant space, shortest escapes and numbers. It differs from
// the RFC in one point: integers keep all their digits, since an id of twenty
// digits must not change.
//
// A key that occurs twice is refused: two readers could pick different values, and a
// policy would decide about another call than the tool runs. Empty text counts as {}.
func Canonical(raw json.RawMessage) (json.RawMessage, map[string]any, error) {
	if len(raw) > MaxArgs {
		return nil, nil, fmt.Errorf("arguments have %d bytes, more than %d", len(raw), MaxArgs)
	}
	if len(bytes.TrimSpace(raw)) == 0 {
		return json.RawMessage("{}"), map[string]any{}, nil
	}
	if !utf8.Valid(raw) {
		return nil, nil, errors.New("arguments are not valid UTF-8")
	}
	if err := json.Unmarshal(raw, &json.RawMessage{}); err != nil { // the token reader forgives some syntax errors
		return nil, nil, fmt.Errorf("arguments are not JSON: %w", err)
	}
	p := parser{json.NewDecoder(bytes.NewReader(raw))}
	p.UseNumber()
	v, err := p.value(0)
	if err != nil {
		return nil, nil, err
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, nil, errors.New("arguments must be a JSON object")
	}
	return appendValue(nil, object), object, nil
}

type parser struct{ *json.Decoder }

func (p parser) value(depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("arguments are nested deeper than %d levels", maxDepth)
	}
	t, err := p.Token()
	if err != nil {
		return nil, fmt.Errorf("arguments are not JSON: %w", err)
	}
	switch t := t.(type) {
	case json.Delim:
		if t == '{' {
			return p.object(depth)
		}
		return p.array(depth)
	case json.Number:
		return canonicalNumber(t)
	default:
		return t, nil
	}
}

func (p parser) object(depth int) (any, error) {
	object := map[string]any{}
	for p.More() {
		t, err := p.Token()
		if err != nil {
			return nil, fmt.Errorf("arguments are not JSON: %w", err)
		}
		key, ok := t.(string)
		if !ok {
			return nil, fmt.Errorf("arguments are not JSON: %v is not a key", t)
		}
		if _, twice := object[key]; twice {
			return nil, fmt.Errorf("arguments name the key %q twice", key)
		}
		if object[key], err = p.value(depth + 1); err != nil {
			return nil, err
		}
	}
	return object, p.close()
}

func (p parser) array(depth int) (any, error) {
	array := []any{}
	for p.More() {
		v, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		array = append(array, v)
	}
	return array, p.close()
}

func (p parser) close() error {
	if _, err := p.Token(); err != nil && err != io.EOF {
		return fmt.Errorf("arguments are not JSON: %w", err)
	}
	return nil
}

// canonicalNumber writes a number as ECMAScript would, integers with all their digits.
func canonicalNumber(n json.Number) (json.Number, error) {
	text := n.String()
	if !strings.ContainsAny(text, ".eE") {
		if len(text) > maxDigits {
			return "", fmt.Errorf("arguments hold an integer of %d digits, more than %d", len(text), maxDigits)
		}
		if text == "-0" {
			return "0", nil
		}
		return n, nil
	}
	f, err := n.Float64()
	if err != nil {
		return "", fmt.Errorf("arguments hold the number %.40s, which is out of range", text)
	}
	canonical, err := json.Marshal(math.Abs(f)) // package json writes numbers as ECMA-262 does, but for -0
	if f < 0 {
		canonical = append([]byte("-"), canonical...)
	}
	return json.Number(canonical), err
}

func appendValue(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, "null"...)
	case bool:
		return strconv.AppendBool(b, v)
	case json.Number:
		return append(b, v...)
	case string:
		return appendString(b, v)
	case []any:
		return appendArray(b, v)
	case map[string]any:
		return appendObject(b, v)
	}
	panic(fmt.Sprintf("append JSON: unexpected %T", v))
}

func appendArray(b []byte, array []any) []byte {
	b = append(b, '[')
	for i, v := range array {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendValue(b, v)
	}
	return append(b, ']')
}

func appendObject(b []byte, object map[string]any) []byte {
	b = append(b, '{')
	for i, k := range slices.SortedFunc(maps.Keys(object), compareUTF16) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendString(b, k), ':')
		b = appendValue(b, object[k])
	}
	return append(b, '}')
}

// compareUTF16 orders as RFC 8785 section 3.2.3 does, by UTF-16 code units.
func compareUTF16(a, b string) int {
	return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
}

func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	for i := range len(s) {
		b = appendByte(b, s[i])
	}
	return append(b, '"')
}

func appendByte(b []byte, c byte) []byte {
	const short = "\b\t\n\f\r\"\\"
	switch i := bytes.IndexByte([]byte(short), c); {
	case i >= 0:
		return append(b, '\\', `btnfr"\`[i])
	case c < 0x20:
		return fmt.Appendf(b, `\u%04x`, c)
	default:
		return append(b, c)
	}
}
