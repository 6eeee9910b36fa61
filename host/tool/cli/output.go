package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/sdk/cut"
)

const (
	// maxLine bounds one line of JSON, and a whole output of it. Longer ones are not read.
	maxLine = 16 << 20
	// maxAnswer bounds an answer, in bytes. The rest is dropped, and the answer says so.
	maxAnswer = 1 << 20
	// maxTail bounds the part of an output or of the errors that explains a failed run.
	maxTail = 4 << 10
)

// output parses the output of a program. It is an io.Writer that never fails: it keeps the end of unparsable output for people.
type output struct {
	format string
	find   finders
	cached bool // input tokens include cached ones
	say    func(text string)

	line     []byte // not ended yet
	overlong bool   // the rest of the line is skipped
	partial  []byte // of a character
	escapes  escapes
	said     text
	answer   string
	failure  string
	session  string
	usage    model.Usage
	tail     tail // of output that is not JSON
}

// text is collected up to maxAnswer.
type text struct {
	strings.Builder
	dropped int
}

func (t *text) add(s string) {
	kept := cut.Head(s, maxAnswer-t.Len())
	t.WriteString(kept)
	t.dropped += len(s) - len(kept)
}

// tail keeps the last bytes that are written to it.
type tail struct{ kept []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	if extra := len(t.kept) - maxTail; extra > 0 {
		t.kept = append(t.kept[:0], t.kept[extra:]...)
	}
	return len(p), nil
}

func (t *tail) String() string { return strings.TrimSpace(clean(string(t.kept))) }

func newOutput(c Config, say func(string)) (*output, error) {
	find, err := c.Fields.parse()
	return &output{format: c.Output, find: find, cached: c.Fields.InputHasCache, say: say}, err
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	switch o.format {
	case OutputText:
		o.pieces(o.escapes.strip(p))
	case OutputJSON:
		if o.overlong = o.overlong || len(o.line)+len(p) > maxLine; !o.overlong {
			o.line = append(o.line, p...)
		}
	default:
		o.lines(p)
	}
	return len(p), nil
}

// pieces passes plain text on, in whole characters.
func (o *output) pieces(p []byte) {
	p = append(o.partial, p...)
	end := len(p)
	for i := 1; i <= min(utf8.UTFMax, len(p)); i++ {
		if c := p[len(p)-i]; utf8.RuneStart(c) {
			if !utf8.FullRune(p[len(p)-i:]) {
				end = len(p) - i
			}
			break
		}
	}
	o.partial = bytes.Clone(p[end:])
	o.tell(string(p[:end]))
	_, _ = o.tail.Write(p[:end])
}

func (o *output) lines(p []byte) {
	for len(p) > 0 {
		end := bytes.IndexByte(p, '\n')
		piece := p
		if end >= 0 {
			piece, p = p[:end], p[end+1:]
		} else {
			p = nil
		}
		if o.overlong = o.overlong || len(o.line)+len(piece) > maxLine; o.overlong {
			o.line = nil
		} else {
			o.line = append(o.line, piece...)
		}
		if end >= 0 {
			o.endLine()
		}
	}
}

func (o *output) endLine() {
	line := o.line
	o.line, o.overlong = o.line[:0], false
	if v, ok := object(line); ok {
		o.read(v)
		return
	}
	if len(bytes.TrimSpace(line)) > 0 {
		_, _ = o.tail.Write(append(bytes.Clone(line), '\n'))
	}
}

// object decodes JSON that is an object.
func object(text []byte) (map[string]any, bool) {
	text = bytes.TrimSpace(text)
	if len(text) == 0 || text[0] != '{' {
		return nil, false
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v map[string]any
	if d.Decode(&v) != nil || d.More() {
		return nil, false
	}
	return v, true
}

// read takes the values of the fields from an object.
func (o *output) read(v map[string]any) {
	for _, piece := range o.find.delta.texts(v) {
		o.tell(piece)
	}
	if text, ok := o.find.answer.last(v); ok {
		o.answer = text
	}
	if text, ok := o.find.failure.last(v); ok {
		o.failure = text
	}
	if name, ok := o.find.session.last(v); ok && sessionName().MatchString(name) {
		o.session = name
	}
	o.count(v)
}

func (o *output) count(v map[string]any) {
	for _, c := range []struct {
		find selectors
		into *int
	}{
		{o.find.input, &o.usage.Input}, {o.find.output, &o.usage.Output}, {o.find.cacheRead, &o.usage.CacheRead},
		{o.find.cacheWrite, &o.usage.CacheWrite},
	} {
		if n, ok := c.find.count(v); ok {
			*c.into = n
		}
	}
	if usd, ok := o.find.cost.dollars(v); ok {
		o.usage.CostUSD = usd
	}
}

func (o *output) tell(piece string) {
	if piece = clean(piece); piece != "" {
		o.said.add(piece)
		o.say(piece)
	}
}

// end parses the last line, which has no end.
func (o *output) end() {
	switch {
	case o.format == OutputText && len(o.partial) > 0:
		o.tell("\uFFFD")
	case o.format == OutputJSON:
		if v, ok := object(o.line); ok && !o.overlong {
			o.read(v)
		} else {
			_, _ = o.tail.Write(o.line)
		}
	case len(o.line) > 0:
		o.endLine()
	}
	if o.cached {
		o.usage.Input = max(0, o.usage.Input-o.usage.CacheRead-o.usage.CacheWrite)
	}
	o.usage.Estimated = o.usage != model.Usage{} // only the program claims it
}

// silent reports whether the program has done nothing visible yet.
func (o *output) silent() bool {
	return o.answer == "" && (o.said.Len() == 0 || o.format == OutputText) && o.usage.Output == 0
}

// whole is the answer, as far as the output has it.
func (o *output) whole() string {
	var t text
	t.add(clean(o.answer))
	if o.answer == "" {
		t = o.said
	}
	if t.dropped == 0 {
		return strings.TrimSpace(t.String())
	}
	return t.String() + "\n\n[the answer was longer than 1 MiB; the rest is left out]"
}

// escapes removes the escape sequences of terminals (ECMA-48) from text that comes in pieces. clean drops their first character alone and
// would leave the rest in the answer.
type escapes struct{ within byte } // what introduced the sequence under way, '[' or ']', the escape character itself, or 0

func (e *escapes) strip(p []byte) []byte {
	const escape, bell = 0x1b, 0x07
	kept := make([]byte, 0, len(p))
	for _, c := range p {
		switch {
		case c == escape:
			e.within = escape
		case e.within == 0:
			kept = append(kept, c)
		case e.within == escape && (c == '[' || c == ']'):
			e.within = c
		case e.within == escape && c >= 0x20 && c <= 0x2f: // an intermediate byte, another follows
		case e.within == '[' && (c < 0x40 || c > 0x7e) && c != '\n':
		case e.within == ']' && c != bell && c != '\n':
		default: // the last byte of the sequence, or text: a sequence ends with its line and has only ASCII bytes
			if c == '\n' || e.within == escape && (c < 0x30 || c > 0x7e) {
				kept = append(kept, c)
			}
			e.within = 0
		}
	}
	return kept
}

// clean makes foreign text valid UTF-8 without control characters.
func clean(s string) string {
	return strings.Map(func(c rune) rune {
		if c != '\n' && c != '\t' && unicode.IsControl(c) {
			return -1
		}
		return c
	}, strings.ToValidUTF8(strings.ReplaceAll(s, "\r\n", "\n"), "\uFFFD"))
}
