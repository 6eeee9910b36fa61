package jsonform

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
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

// Canonical parses the arguments of a tool call, which may be anything, and
// returns them in one fixed form together with the parsed value: keys sorted as in
// RFC 8785, no insignificant space, shortest escapes and numbers. It differs from
// the RFC in one point: integers keep all their digits, since an id of twenty
// digits that changes on the way would be another id.
//
// A key that occurs twice is refused: two readers could pick different ones, and a
// policy would judge another call than the tool runs. No text at all counts as {}.
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
	// The token reader forgives some syntax errors, so the syntax is checked first.
	if err := checkSyntax(raw); err != nil {
		return nil, nil, err
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

func checkSyntax(raw []byte) error {
	var any json.RawMessage
	err := json.Unmarshal(raw, &any)
	if err != nil {
		return fmt.Errorf("arguments are not JSON: %w", err)
	}
	return nil
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
			return nil, fmt.Errorf("arguments are not JSON: %v is no key", t)
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
	if isInteger(text) {
		if len(text) > maxDigits {
			return "", fmt.Errorf("arguments hold an integer of %d digits, more than %d", len(text), maxDigits)
		}
		if text == "-0" {
			return "0", nil
		}
		return n, nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(f, 0) {
		return "", fmt.Errorf("arguments hold the number %.40s, which is out of range", text)
	}
	return json.Number(formatFloat(f)), nil
}

func isInteger(literal string) bool {
	for _, c := range literal {
		if c == '.' || c == 'e' || c == 'E' {
			return false
		}
	}
	return true
}

// formatFloat is Number::toString of ECMA-262: plain digits from 1e-6 up to below 1e21, an exponent elsewhere.
func formatFloat(f float64) string {
	if f == 0 {
		return "0"
	}
	if abs := math.Abs(f); abs >= 1e-6 && abs < 1e21 {
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	text := []byte(strconv.FormatFloat(f, 'e', -1, 64))
	// Go writes at least two digits of exponent, ECMAScript as few as it takes.
	if i := bytes.LastIndexAny(text, "+-"); i > 0 && text[i+1] == '0' {
		text = slices.Delete(text, i+1, i+2)
	}
	return string(text)
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
	keys := make([]string, 0, len(object))
	for k := range object {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, compareUTF16)
	b = append(b, '{')
	for i, k := range keys {
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
