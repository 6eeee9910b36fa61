package archive_test

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/flynnhost/flynn/host/sandbox/archive"
	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// Everything that a folder can hold passes: links that lead out, and names that a stranger's archive could not have.
func TestReader(t *testing.T) {
	records := []frame.Record{
		{Path: []byte("Make"), Mode: frame.TypeFile, Size: 3}, {Path: []byte("make"), Mode: frame.TypeFile | 0o4755},
		{Path: []byte("d"), Mode: frame.TypeFolder}, {Path: []byte("d/l"), Mode: frame.TypeLink, Link: []byte("/etc/passwd")},
		{Path: []byte("d/bare"), Mode: frame.TypeFile, Size: 1 << 40, Bare: true},
	}
	var wire []byte
	for _, r := range records {
		wire = r.Append(wire)
		if r.Size == 3 {
			wire = append(wire, "abc"...)
		}
	}
	in := archive.NewReader(bytes.NewReader(wire))
	for _, want := range records {
		r, err := in.Next()
		if err != nil || !bytes.Equal(r.Path, want.Path) {
			t.Fatalf("%q instead of %q (%v)", r.Path, want.Path, err)
		}
		if content, err := io.ReadAll(in); err != nil || string(content) != map[bool]string{true: "abc"}[want.Size == 3] {
			t.Errorf("%q holds %q (%v)", r.Path, content, err)
		}
	}
	if _, err := in.Next(); err != io.EOF {
		t.Errorf("at the end: %v", err)
	}
}

func TestReaderRefuses(t *testing.T) {
	file := frame.Record{Path: []byte("f"), Mode: frame.TypeFile}
	link := frame.Record{Path: []byte("l"), Mode: frame.TypeLink, Link: []byte("/")}
	for name, records := range map[string][]frame.Record{
		"upwards":        {{Path: []byte("../f"), Mode: frame.TypeFile}},
		"twice":          {file, file},
		"through a link": {link, {Path: []byte("l/f"), Mode: frame.TypeFile}},
		"through a file": {file, {Path: []byte("f/f"), Mode: frame.TypeFile}},
		"another name":   {file, {Path: []byte("g"), Mode: frame.TypeFile, Link: []byte("f")}},
	} {
		t.Run(name, func(t *testing.T) {
			var wire []byte
			for _, r := range records {
				wire = r.Append(wire)
			}
			in := archive.NewReader(bytes.NewReader(wire))
			for range records[1:] {
				if _, err := in.Next(); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := in.Next(); !errors.Is(err, frame.ErrProtocol) {
				t.Errorf("got %v", err)
			}
		})
	}
}
