package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/urfave/cli/v3"
	"golang.org/x/term"

	"github.com/flynnhost/flynn/host/config"
)

// The rules of printing, kept here and nowhere else:
//
//   - what was asked for goes to stdout; errors, warnings and progress go to stderr
//   - success that yields nothing says so in one line on stderr, with the next step where there is one; --quiet leaves it out
//   - tables have stable columns under a header in capitals, one row a line, "-" for nothing, no control characters
//   - with --json stdout holds one JSON value (a stream: one value a line) and nothing else, and an
//     error is {"error": "..."} on stderr
//   - colour only on a terminal, and not when NO_COLOR is set or TERM is dumb
//   - an error is one line: what was done, what is wrong, what to do next
type output struct {
	out, err io.Writer
	asJSON   bool
	quiet    bool
	// interrupted says that a signal ended the program's context.
	interrupted bool
	colour      bool
}

func newOutput(ctx context.Context, cmd *cli.Command) *output {
	root := cmd.Root()
	return &output{
		out:    root.Writer,
		err:    &inTurn{w: root.ErrWriter},
		asJSON: cmd.Bool("json"),
		quiet:  cmd.Bool("quiet"),
		colour: colourful(root.ErrWriter, getenvOf(ctx)),
	}
}

// inTurn serializes writes: a command, its progress and lines that were held back print at the same time.
type inTurn struct {
	mu sync.Mutex
	w  io.Writer
}

func (t *inTurn) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.w.Write(p)
}

// colourful reports whether w is a terminal that shows colours.
func colourful(w io.Writer, getenv func(string) string) bool {
	return isTerminal(w) && getenv("NO_COLOR") == "" && getenv("TERM") != "dumb" && getenv("TERM") != ""
}

// isTerminal reports whether a stream of the program is a terminal. A device such as /dev/null is none.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// json prints v as one indented JSON value.
func (o *output) json(v any) error {
	enc := json.NewEncoder(o.out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// value prints v as one line of a stream of JSON values.
func (o *output) value(v any) error { return encode(o.out, v) }

func encode(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// line prints one line for people to stdout.
func (o *output) line(format string, args ...any) { fmt.Fprintf(o.out, format+"\n", args...) }

// done reports success in one line, with the next step where there is one.
func (o *output) done(format string, args ...any) {
	if !o.asJSON && !o.quiet {
		fmt.Fprintf(o.err, format+"\n", args...)
	}
}

// result prints v as JSON where that is asked for, and else one line for people to stdout.
func (o *output) result(v any, format string, args ...any) error {
	if o.asJSON {
		return o.json(v)
	}
	o.line(format, args...)
	return nil
}

// success is like result for commands without output to read: its line goes to stderr.
func (o *output) success(v any, format string, args ...any) error {
	if o.asJSON {
		return o.json(v)
	}
	o.done(format, args...)
	return nil
}

// table prints rows under a header.
func (o *output) table(header []string, rows [][]string) error {
	w := tabwriter.NewWriter(o.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.Join(header, "\t"))
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, text := range row {
			cells[i] = cell(text)
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	return w.Flush()
}

// printList prints a table with a row for each item, or the items as JSON.
func printList[T any](o *output, items []T, header []string, row func(T) []string) error {
	if o.asJSON {
		if items == nil {
			items = []T{}
		}
		return o.json(items)
	}
	var rows [][]string
	for _, item := range items {
		rows = append(rows, row(item))
	}
	return o.table(header, rows)
}

// printListOr is printList for lists that may be empty: then hint says how something gets there.
func printListOr[T any](o *output, items []T, hint string, header []string, row func(T) []string) error {
	if err := printList(o, items, header, row); err != nil || len(items) > 0 {
		return err
	}
	o.done("%s", hint)
	return nil
}

func number[T int | int64](n T) string { return strconv.FormatInt(int64(n), 10) }

// localTime returns a time for people, in this machine's zone; "" for none.
func localTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format(time.DateTime)
}

// cell makes text fit for one column of one line. Text of strangers, such as names and reasons, must not move the cursor or colour the
// terminal.
func cell[T ~string](text T) string {
	if text == "" {
		return "-"
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			return ' '
		}
		return r
	}, string(text))
}

// warn prints one warning to stderr.
func (o *output) warn(format string, args ...any) {
	fmt.Fprintf(o.err, "%s %s\n", o.paint("33", "warning:"), fmt.Sprintf(format, args...))
}

// fail prints the error that ends the program.
func (o *output) fail(err error) {
	var done reported
	var bad config.Errors
	switch {
	case errors.As(err, &done):
	case errors.Is(err, syscall.EPIPE): // nobody reads any more, and knows
	case o.asJSON && errors.As(err, &bad):
		_ = encode(o.err, map[string]string{"error": err.Error()})
	case o.asJSON:
		_ = encode(o.err, map[string]string{"error": inOneLine(err)})
	case errors.As(err, &bad):
		if around, _, ok := strings.Cut(err.Error(), ": "+bad.Error()); ok {
			fmt.Fprintf(o.err, "%s %s:\n", o.paint("31", "flynn:"), around)
		}
		for _, e := range bad {
			fmt.Fprintln(o.err, e.Error())
		}
	default:
		fmt.Fprintf(o.err, "%s %s\n", o.paint("31", "flynn:"), o.inWords(err))
	}
}

// inWords returns the text of an error for people. A command that a signal ended reports that it was interrupted.
func (o *output) inWords(err error) string {
	text := inOneLine(err)
	if o.interrupted && errors.Is(err, context.Canceled) {
		text = strings.ReplaceAll(text, context.Canceled.Error(), "interrupted")
	}
	return text
}

// inOneLine puts the texts of joined errors on one line. A text that another one ends with is left out.
func inOneLine(err error) string {
	var said []string
	for _, text := range joined(err) {
		longer := func(other string) bool { return strings.HasSuffix(other, text) }
		if slices.ContainsFunc(said, longer) {
			continue
		}
		said = slices.DeleteFunc(said, func(other string) bool { return strings.HasSuffix(text, other) })
		said = append(said, text)
	}
	return strings.Join(said, "; ")
}

// joined returns the texts of the errors that errors.Join has put together, or that of a single error.
func joined(err error) (texts []string) {
	if inner := errors.Unwrap(err); inner != nil {
		before, ok := strings.CutSuffix(err.Error(), inner.Error())
		if texts = joined(inner); !ok || len(texts) == 1 {
			return []string{err.Error()}
		}
		texts[0] = before + texts[0]
		return texts
	}
	several, is := err.(interface{ Unwrap() []error })
	if !is {
		return []string{err.Error()}
	}
	var lines []string
	for _, e := range several.Unwrap() {
		lines = append(lines, e.Error())
		texts = append(texts, joined(e)...)
	}
	if strings.Join(lines, "\n") != err.Error() { // %w more than once
		return []string{err.Error()}
	}
	return texts
}

func (o *output) paint(colour, s string) string {
	if !o.colour {
		return s
	}
	return "\x1b[" + colour + "m" + s + "\x1b[0m"
}
