package wire

import (
	"bufio"
	"bytes"
	"io"
)

// Events reads the server-sent events of an answer (HTML standard, section 9.2.6). An event without its final blank line was cut off and
// is dropped.
type Events struct {
	lines *bufio.Scanner
	name  string
	data  []byte
}

// NewEvents makes a reader of a stream. The caller bounds the stream.
func NewEvents(stream io.Reader) *Events {
	lines := bufio.NewScanner(stream)
	lines.Buffer(nil, maxAnswer)
	return &Events{lines: lines}
}

// Next reads up to the next event that has data. It returns false at the end; see Err.
func (e *Events) Next() bool {
	e.name, e.data = "", nil
	for e.lines.Scan() {
		line := e.lines.Bytes()
		if len(line) > 0 {
			e.field(line)
			continue
		}
		if e.data = bytes.TrimSuffix(e.data, []byte("\n")); len(e.data) > 0 {
			return true
		}
		e.name = ""
	}
	return false
}

// field adds a line. Comments, which begin with a colon, and unknown fields are ignored.
func (e *Events) field(line []byte) {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "event":
		e.name = string(value)
	case "data":
		e.data = append(append(e.data, value...), '\n')
	}
}

// Name is the type of the event; empty where it has none.
func (e *Events) Name() string { return e.name }

// Data is the data of the event, valid for good.
func (e *Events) Data() []byte { return e.data }

// Err is what broke the stream, nil at its end.
func (e *Events) Err() error { return e.lines.Err() }
