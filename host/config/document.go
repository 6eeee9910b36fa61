package config

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"unicode"

	"github.com/BurntSushi/toml"
)

// document is a file as TOML sees it.
type document struct {
	keys  map[string]any
	lines *positions
	errs  Errors // of syntax; the lines at fault were left out
}

// maxSyntaxErrors bounds how often a file is read again without a faulty line.
const maxSyntaxErrors = 20

// plainPair is a key and value that begin and end on one line, so that the rest of the file
// means the same without it.
var plainPair = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[^\[\]{}#=]*=[^\[{]*$`) })

// readDocument parses a file. The parser stops at its first error, so a faulty line is left out, if that does not change
// the meaning of the others, and the rest is parsed again: so one run finds all errors.
func readDocument(path, src string) document {
	var doc document
	if valid := strings.ToValidUTF8(src, "\x00"); valid != src {
		line := 1 + strings.Count(valid[:strings.IndexByte(valid, 0)], "\n")
		doc.errs = Errors{{File: path, Line: line, Problem: "not TOML: text is not UTF-8", Hint: "save the file as UTF-8"}}
		doc.lines = &positions{}
		return doc
	}
	lines := strings.Split(src, "\n")
	for {
		doc.keys = map[string]any{}
		text := strings.Join(lines, "\n")
		_, err := toml.Decode(text, &doc.keys)
		if err == nil {
			doc.lines = locate(text)
			break
		}
		e, at := syntaxError(path, text, err)
		doc.errs = append(doc.errs, e)
		if at < 1 || at > len(lines) || len(doc.errs) == maxSyntaxErrors || !canLeaveOut(lines[at-1]) {
			doc.keys, doc.lines = nil, &positions{}
			break
		}
		lines[at-1] = ""
	}
	for i := range doc.errs {
		explainDuplicate(&doc.errs[i], doc.lines)
	}
	return doc
}

func canLeaveOut(line string) bool {
	return plainPair().MatchString(line) && !strings.Contains(line, `"""`) && !strings.Contains(line, "'''")
}

// syntaxError rewords an error of the parser and returns the line of the text.
func syntaxError(path, text string, err error) (Error, int) {
	var perr toml.ParseError
	if !errors.As(err, &perr) {
		return Error{File: path, Line: 1, Problem: "not TOML: " + strings.TrimPrefix(err.Error(), "toml: ")}, 0
	}
	// Not perr.Position.Line, which is the next one when the error is the end of a line.
	line := 1 + strings.Count(text[:min(max(perr.Position.Start, 0), len(text))], "\n")
	e := Error{File: path, Line: line, Problem: "not TOML: " + lower(strings.TrimSuffix(perr.Message, "."))}
	if lines := strings.Split(text, "\n"); line <= len(lines) {
		explainUnquoted(&e, lines[line-1])
	}
	return e, line
}

// pair is a key and the text after its equals sign.
var pair = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\s*([A-Za-z0-9_."'-]+)\s*=\s*(\S.*?)\s*$`) })

// curly are quotation marks that word processors and web pages use instead of straight ones.
const curly = "\u201c\u201d\u201e\u201f\u2018\u2019\u201a\u00ab\u00bb\u2033\uff02"

// explainUnquoted rewords an error about a text without quotes, or with curly ones. It repeats neither the parser's message nor the value
// of a secret key, as both would show the secret.
func explainUnquoted(e *Error, line string) {
	found := pair().FindStringSubmatch(line)
	if found == nil || strings.ContainsAny(found[2][:1], "\"'[{") {
		return
	}
	key, value := found[1], found[2]
	switch {
	case strings.ContainsAny(value, curly):
		e.Problem, e.Hint = "not TOML: quotation marks that are not straight", `write "..." with straight quotes`
		value = strings.TrimFunc(value, func(r rune) bool { return strings.ContainsRune(curly+`"`, r) })
	case strings.Contains(e.Problem, "expected value but found"), strings.Contains(e.Problem, "invalid"), strings.Contains(e.Problem, "expected a top-level item"):
		e.Problem, e.Hint = "not TOML: a text without quotes", `write "..." around it`
	default:
		return
	}
	if boolean := strings.ToLower(value); boolean == "true" || boolean == "false" {
		e.Problem, e.Hint = "not TOML: "+value+" is not a boolean", fmt.Sprintf("write %s = %s", key, boolean)
		return
	}
	if !looksSecret(strings.Trim(key, `"'`), "") && !strings.ContainsAny(value, "\"\\#") {
		e.Hint = fmt.Sprintf("write %s = %q", key, value)
	}
}

func lower(s string) string {
	for i, r := range s {
		return string(unicode.ToLower(r)) + s[i+len(string(r)):]
	}
	return s
}

// alreadyDefined matches the parser's message about a repeated key.
var alreadyDefined = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^not TOML: key '(.*)' has already been defined$`) })

func explainDuplicate(e *Error, lines *positions) {
	found := alreadyDefined().FindStringSubmatch(e.Problem)
	if found == nil {
		return
	}
	e.Key, e.Problem = found[1], "key is set twice"
	if first, ok := lines.keys[found[1]]; ok {
		e.Hint = fmt.Sprintf("first in line %d; keep one", first.line)
	} else {
		e.Hint = "keep one"
	}
}
