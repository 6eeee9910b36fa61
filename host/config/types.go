package config

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// want asserts the type of a parsed value or reports it.
func want[T any](d *decoder, at keyPath, raw any) (T, bool) {
	value, ok := raw.(T)
	if !ok {
		d.wrongType(at, describe(any(value)), raw)
	}
	return value, ok
}

func (d *decoder) wrongType(at keyPath, wanted string, raw any) {
	d.refuse(at, "must be "+wanted+", not "+describe(raw), conversion(at, wanted, raw))
}

// conversion is a hint how to write the value with the wanted type, when there is an obvious way.
func conversion(at keyPath, wanted string, raw any) string {
	s, isString := raw.(string)
	_, notInteger := strconv.ParseInt(s, 10, 64)
	switch {
	case wanted == "an integer" && isString && notInteger == nil:
		return "remove the quotes: " + s
	case wanted == "an integer":
		return "write a whole number without quotes, such as " + wholeNumber(raw)
	case wanted == "a decimal number":
		return "write a number without quotes, such as 1.5"
	case wanted == "a boolean":
		return "write true or false, without quotes"
	case wanted == "a string" && isPlain(raw):
		return fmt.Sprintf("add quotes: %q", fmt.Sprint(raw))
	case wanted == "a list" && isString:
		return fmt.Sprintf("add brackets: [%q]", s)
	case wanted == "a list of tables":
		return fmt.Sprintf("begin each with [[%s]]", at)
	case wanted == "a table":
		return fmt.Sprintf("write its keys under [%s]", at)
	}
	return ""
}

// wholeNumber is a value as an integer, or one that shows how they are written.
func wholeNumber(raw any) string {
	if x, ok := raw.(float64); ok && x == math.Trunc(x) && math.Abs(x) < 1e15 {
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
	return "50"
}

func isPlain(raw any) bool {
	switch raw.(type) {
	case bool, int64, float64:
		return true
	}
	return false
}

// describe names the TOML type of a parsed value.
func describe(raw any) string {
	switch raw := raw.(type) {
	case string:
		return "a string"
	case bool:
		return "a boolean"
	case int64:
		return "an integer"
	case float64:
		return "a decimal number"
	case time.Time:
		return "a date or time"
	case map[string]any:
		return "a table"
	case []any, []map[string]any:
		return "a list"
	default:
		return fmt.Sprintf("a %T", raw)
	}
}
