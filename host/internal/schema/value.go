package schema

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"net/mail"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// typeOf is the JSON type of a value.
func typeOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	}
	return "number"
}

// is reports whether a value is of a type of JSON Schema, where 1.0 is an integer.
func is(v any, t string) bool {
	if t != "integer" {
		return typeOf(v) == t
	}
	r := rational(v)
	return r != nil && r.IsInt()
}

// rational is a number; nil for other values.
func rational(v any) *big.Rat {
	switch v := v.(type) {
	case json.Number:
		if r, ok := new(big.Rat).SetString(string(v)); ok {
			return r
		}
	case float64:
		return new(big.Rat).SetFloat64(v)
	}
	return nil
}

// identity is a text that equal values share, and others do not.
func identity(v any) string { return string(appendIdentity(nil, v)) }

func appendIdentity(to []byte, v any) []byte {
	switch v := v.(type) {
	case string:
		return strconv.AppendQuote(to, v)
	case []any:
		to = append(to, '[')
		for _, e := range v {
			to = append(appendIdentity(to, e), ',')
		}
		return append(to, ']')
	case map[string]any:
		to = append(to, '{')
		for _, key := range slices.Sorted(maps.Keys(v)) {
			to = append(appendIdentity(strconv.AppendQuote(to, key), v[key]), ',')
		}
		return append(to, '}')
	}
	if r := rational(v); r != nil {
		return append(to, r.RatString()...)
	}
	return fmt.Append(to, v)
}

// hasFormat reports whether a text has a format. It has those that the host does not know.
func hasFormat(text, format string) bool {
	var err error
	switch format {
	case "date-time":
		_, err = time.Parse(time.RFC3339, strings.ToUpper(text))
	case "date":
		_, err = time.Parse(time.DateOnly, text)
	case "time":
		_, err = time.Parse("15:04:05Z07:00", strings.ToUpper(text))
	case "email":
		a, bad := mail.ParseAddress(text)
		return bad == nil && a.Address == text
	case "ipv4", "ipv6":
		a, bad := netip.ParseAddr(text)
		return bad == nil && a.Zone() == "" && a.Is4() == (format == "ipv4")
	case "uri", "iri":
		u, bad := url.Parse(text)
		return bad == nil && u.IsAbs()
	case "uri-reference", "iri-reference":
		_, err = url.Parse(text)
	case "regex":
		if len(text) > maxPattern {
			return false
		}
		_, err = regexp.Compile(text)
	}
	return err == nil
}
