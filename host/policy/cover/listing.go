package cover

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"
)

// Bounds of a listing.
const (
	maxListed     = 8 << 20 // instructions
	maxListedLine = 1 << 20 // bytes of a line of it
)

var errListing = errors.New("no listing of Go's assembler for Wasm")

// Listing is what Go's compiler prints with -S: the instructions of each function with the line that each is from. Only functions are kept.
//
//	main.weight STEXT size=5 args=0x18 locals=0x8 funcid=0x0 align=0x0
//		0x0000 00000 (p/policy.go:59)	Get	SP
//		0x0000 02 01 7f 01 7e 23 00 21 01 02 40 03 40 02 40 02  ....~#.!..@.@.@.
//		rel 68+1 t=R_ADDR main.weight+0
type Listing struct {
	functions map[string][][]listed // by name; several packages may have the same instance of a generic function
}

// listed is one instruction of the assembler's.
type listed struct {
	op, arg  string
	position // line 0 where none is known
}

// ParseListing reads a listing. It is strict: a line of another form is an error, and so is a listing without functions.
func ParseListing(r io.Reader) (*Listing, error) {
	p := &listingParser{Listing: Listing{map[string][][]listed{}}, words: map[string]string{}}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxListedLine)
	number := 0
	for lines.Scan() {
		number++
		if err := p.line(lines.Text()); err != nil {
			return nil, fmt.Errorf("%w: line %d: %w", errListing, number, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%w: line %d: %w", errListing, number+1, err)
	}
	p.finish()
	if len(p.functions) == 0 {
		return nil, fmt.Errorf("%w: no function", errListing)
	}
	return &p.Listing, nil
}

type listingParser struct {
	Listing
	name    string // of the function that is being read, or ""
	wrapper bool
	code    []listed
	total   int
	words   map[string]string // each text once
}

func (p *listingParser) line(text string) error {
	rest, inside := strings.CutPrefix(text, "\t")
	switch {
	case !inside:
		return p.header(text)
	case strings.HasPrefix(rest, "rel "):
		return nil
	}
	at, rest, _ := strings.Cut(rest, " ")
	if digits, ok := strings.CutPrefix(at, "0x"); !ok || !all(digits, hexDigits) {
		return fmt.Errorf("%.40q begins without an offset", text)
	}
	if first, _, _ := strings.Cut(rest, " "); len(first) == 2 && all(first, hexDigits) {
		return nil // the bytes
	}
	return p.instruction(rest)
}

// header is the line on top of a package or of a symbol.
func (p *listingParser) header(text string) error {
	if strings.HasPrefix(text, "# ") {
		return nil
	}
	symbol, rest, ok := cutLast(text, " size=")
	if size, _, _ := strings.Cut(rest, " "); !ok || !all(size, decimal) {
		return fmt.Errorf("%.40q is no symbol", text)
	}
	p.finish()
	if name, _, ok := cutLast(symbol, " STEXT"); ok {
		p.name = name
	}
	return nil
}

// instruction reads "00004 (p/policy.go:16)\tI64Load32U\t$160".
func (p *listingParser) instruction(text string) error {
	number, rest, _ := strings.Cut(text, " (")
	at, rest, ok := strings.Cut(rest, ")\t")
	op, arg, _ := strings.Cut(rest, "\t")
	if !all(number, decimal) || !ok || op == "" || p.name == "" {
		return fmt.Errorf("%.40q is no instruction", text)
	}
	if p.total++; p.total > maxListed {
		return fmt.Errorf("more than %d instructions", maxListed)
	}
	if op == "TEXT" && strings.Contains(arg, "WRAPPER") {
		p.wrapper = true
	}
	p.code = append(p.code, listed{p.word(op), p.argument(op, arg), p.position(at)})
	return nil
}

// argument keeps those that tell how an instruction is encoded.
func (p *listingParser) argument(op, arg string) string {
	switch op {
	case "Get", "Set", "Tee":
		return p.word(arg)
	case "Call":
		if strings.HasPrefix(arg, "$") {
			return "$"
		}
	}
	return ""
}

// position reads "p/policy.go:16". Behind it stands where that really is when a line directive has said otherwise, in brackets.
func (p *listingParser) position(text string) position {
	if said, _, ok := strings.Cut(text, "["); ok && strings.HasSuffix(text, "]") {
		text = said
	}
	file, digits, _ := cutLast(text, ":")
	line, err := strconv.Atoi(digits)
	if err != nil || line < 1 || line > 1<<30 || len(file) >= maxName || printable(file) == "" {
		return position{}
	}
	return position{file: p.word(path.Clean(file)), line: line}
}

func (p *listingParser) word(s string) string {
	if w, ok := p.words[s]; ok {
		return w
	}
	s = strings.Clone(s)
	p.words[s] = s
	return s
}

// finish keeps the function that was read, unless the compiler has made it up to call another of the same lines.
func (p *listingParser) finish() {
	if p.name != "" && len(p.code) > 0 && !p.wrapper {
		p.functions[p.name] = append(p.functions[p.name], p.code)
	}
	p.name, p.wrapper, p.code = "", false, nil
}

const (
	decimal   = "0123456789"
	hexDigits = decimal + "abcdef"
)

// all reports whether a text is not empty and of some characters only.
func all(s, of string) bool { return s != "" && strings.Trim(s, of) == "" }

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}
