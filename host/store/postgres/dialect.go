package postgres

import (
	"database/sql"
	"database/sql/driver"
	"encoding/hex"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// statement is a statement of package sqlstore in the dialect of Postgres. Postgres refuses parameters that do not occur, so each of them
// has the index of its argument.
type statement struct {
	text string
	args []int
}

// statements has the translations by text. Texts are constants of the program, or made of few parts.
var statements sync.Map

var (
	// CAST makes bytes the hexadecimal text of them in Postgres; utf8 of the schema makes them the text that they are.
	bytesAsText = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`CAST\(([^()\s]+) AS TEXT\)`) })
	// SQLite has the comment: it has no row locks, and its transactions exclude each other.
	rowLock = "/* lock */"
	// SQLite would prepare to undo a part of the statement without it.
	orFail = "INSERT OR FAIL INTO"
	// SQLite keeps the order of tables of a CROSS JOIN with a condition, which Postgres does not know.
	orderedJoin = "CROSS JOIN usage ON"
)

func translate(query string) statement {
	if s, ok := statements.Load(query); ok {
		return s.(statement)
	}
	text := bytesAsText().ReplaceAllString(query, "utf8($1)")
	text = strings.ReplaceAll(text, rowLock, "FOR NO KEY UPDATE")
	text = strings.ReplaceAll(text, orFail, "INSERT INTO")
	text = strings.ReplaceAll(text, orderedJoin, "JOIN usage ON")
	s := numbered(text)
	statements.Store(query, s)
	return s
}

// numbered replaces the parameters ? and ?1 by $1, outside of literals.
func numbered(text string) statement {
	var s statement
	var b strings.Builder
	number := map[int]int{} // of an argument
	next := 0
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c == '\'' {
			end := strings.IndexByte(text[i+1:], '\'')
			if end < 0 {
				end = len(text) - i - 2
			}
			b.WriteString(text[i : i+end+2])
			i += end + 1
			continue
		}
		if c != '?' {
			b.WriteByte(c)
			continue
		}
		digits := i + 1
		for digits < len(text) && text[digits] >= '0' && text[digits] <= '9' {
			digits++
		}
		arg := next
		if n, err := strconv.Atoi(text[i+1 : digits]); err == nil {
			arg = n - 1
		} else {
			next++
		}
		if number[arg] == 0 {
			s.args = append(s.args, arg)
			number[arg] = len(s.args)
		}
		fmt.Fprintf(&b, "$%d", number[arg])
		i = digits - 1
	}
	s.text = b.String()
	return s
}

// bind returns the arguments in the order of the statement's parameters, as values that pgx knows in every mode.
func (s statement) bind(args []any) ([]any, error) {
	out := make([]any, len(s.args))
	for i, n := range s.args {
		if n >= len(args) {
			return nil, fmt.Errorf("bind: %q has no argument %d", s.text, n+1)
		}
		v, err := driver.DefaultParameterConverter.ConvertValue(args[n])
		if err != nil {
			return nil, err
		}
		if text, ok := v.(string); ok {
			v = encodeText(text)
		}
		out[i] = v
	}
	return out, nil
}

// escape stands before two hexadecimal digits of a byte that a TEXT column cannot have. It is a private character, and itself escaped.
const escape = "\uf8fe"

// encodeText returns a text as TEXT columns have it: Postgres takes neither the character zero nor bytes that are not UTF-8.
func encodeText(text string) string {
	if strings.IndexByte(text, 0) < 0 && !strings.Contains(text, escape) && utf8.ValidString(text) {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, n := utf8.DecodeRuneInString(text)
		if r == 0 || r == utf8.RuneError && n == 1 || text[:n] == escape {
			for _, c := range []byte(text[:n]) {
				b.WriteString(escape)
				b.WriteString(hex.EncodeToString([]byte{c}))
			}
		} else {
			b.WriteString(text[:n])
		}
		text = text[n:]
	}
	return b.String()
}

// decodeText undoes encodeText.
func decodeText(text string) string {
	before, rest, found := strings.Cut(text, escape)
	if !found {
		return text
	}
	out := []byte(before)
	for found {
		if c, err := hex.DecodeString(rest[:min(2, len(rest))]); err == nil && len(c) == 1 {
			out, rest = append(out, c...), rest[2:]
		}
		before, rest, found = strings.Cut(rest, escape)
		out = append(out, before...)
	}
	return string(out)
}

// decodeAll undoes encodeText for all texts that were scanned.
func decodeAll(dest []any) {
	for _, d := range dest {
		switch d := d.(type) {
		case *string:
			*d = decodeText(*d)
		case *sql.NullString:
			d.String = decodeText(d.String)
		case *[]byte, *int64, *int, *bool:
		default:
			if v := reflect.ValueOf(d); v.Kind() == reflect.Pointer && v.Elem().Kind() == reflect.String {
				if text := v.Elem().String(); strings.Contains(text, escape) {
					v.Elem().SetString(decodeText(text))
				}
			}
		}
	}
}
