package image

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Limits of what is kept and shown of a build's output, which is not trusted.
const (
	maxLine   = 200 // of a line that is shown, in runes
	maxRaw    = 4 << 10
	tailLines = 10
	maxEarly  = 3 // failures before the last lines
)

// escapes matches terminal control sequences (ECMA-48): CSI, OSC with its end, and those of one more byte.
var escapes = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|[ -/]*[0-~])`)
})

// Clean makes a line of output safe to show.
func Clean(line string) string {
	line = strings.ToValidUTF8(line, "\uFFFD")
	line = escapes().ReplaceAllString(line, "")
	line = strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029':
			return -1
		}
		return r
	}, line)
	line = strings.TrimSpace(line)
	if utf8.RuneCountInString(line) > maxLine {
		line = string([]rune(line)[:maxLine]) + "..."
	}
	return line
}

// Output reports a container's output line by line and keeps the last lines.
type Output struct {
	// Tell, if set, is called with every line, cleaned.
	Tell func(line string)
	part []byte // an unfinished line
	tail []string
	// early are failures that are not among the last lines: apk continues with other packages after a failure, and only counts them at the
	// end.
	early []string
}

func (o *Output) Write(p []byte) (int, error) {
	for _, c := range p {
		switch {
		case c == '\n' || c == '\r':
			o.end()
		case len(o.part) < maxRaw: // the rest of a longer line is dropped
			o.part = append(o.part, c)
		}
	}
	return len(p), nil
}

// end finishes a line.
func (o *Output) end() {
	line := Clean(string(o.part))
	o.part = o.part[:0]
	if line == "" {
		return
	}
	o.tail = append(o.tail, line)
	if len(o.tail) > tailLines {
		if isFailure(o.tail[0]) && len(o.early) < maxEarly {
			o.early = append(o.early, o.tail[0])
		}
		o.tail = o.tail[1:]
	}
	if o.Tell != nil {
		o.Tell(line)
	}
}

// isFailure recognises the lines in which apk, apt and dpkg report a failure.
func isFailure(line string) bool {
	return strings.HasPrefix(line, "ERROR: ") || strings.HasPrefix(line, "E: ") || strings.HasPrefix(line, "dpkg: error ")
}

// Last returns the last lines, preceded by the first failures if those came earlier.
func (o *Output) Last() []string {
	o.end()
	return slices.Concat(o.early, o.tail)
}

// StepError is the error of a failed build step.
type StepError struct {
	Image  string   // what was being built, for people
	Step   string   // the step that failed
	Output []string // the last lines that it printed, cleaned and bounded
	Err    error
}

func (e *StepError) Error() string {
	text := fmt.Sprintf("build %s: step %q failed: %v", e.Image, e.Step, e.Err)
	if len(e.Output) > 0 {
		text += "; its last output: " + strings.Join(e.Output, " | ")
	}
	return text
}

func (e *StepError) Unwrap() error { return e.Err }
