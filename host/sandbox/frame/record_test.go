package frame

import (
	"bytes"
	"errors"
	"io"
	"path"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

func TestRecordsRoundTrip(t *testing.T) {
	want := []Record{
		{Path: []byte("d"), Mode: TypeFolder | 0o755}, {Path: []byte("d/f\xff"), Mode: TypeFile | 0o644, Size: 70000, Mtime: -5},
		{Path: []byte("l"), Mode: TypeLink, Link: []byte("../anywhere")}, {Path: []byte("h"), Mode: TypeFile, Link: []byte("d/f\xff")},
		{Path: []byte("known"), Mode: TypeFile, Size: 1 << 40, Bare: true}, {Path: []byte("empty"), Mode: TypeFile},
	}
	var wire []byte
	for _, r := range want {
		wire = r.Append(wire)
		if !r.Bare {
			wire = append(wire, bytes.Repeat([]byte("x"), int(r.Size))...)
		}
	}
	for name, src := range map[string]io.Reader{"whole": bytes.NewReader(wire), "in bits": iotest.OneByteReader(bytes.NewReader(wire))} {
		for _, skip := range []bool{false, true} {
			in := NewRecordReader(src)
			if skip {
				in = NewRecordReader(bytes.NewReader(wire))
			}
			for _, w := range want {
				got, err := in.Next()
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				if diff := cmp.Diff(w, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", name, diff)
				}
				if n, err := io.Copy(io.Discard, in); !skip && (err != nil || !w.Bare && n != w.Size) {
					t.Errorf("%s: content of %d bytes (%v)", name, n, err)
				}
			}
			if _, err := in.Next(); err != io.EOF {
				t.Errorf("%s: at the end: %v", name, err)
			}
		}
	}
}

func TestRecordsAreChecked(t *testing.T) {
	file := func(name string) Record { return Record{Path: []byte(name), Mode: TypeFile} }
	for _, c := range []struct {
		name string
		r    Record
	}{
		{"no name", file("")}, {"the folder itself", file(".")}, {"upwards", file("..")}, {"upwards first", file("../f")}, {"upwards inside", file("a/../b")},
		{"absolute", file("/f")}, {"zero byte", file("a\x00")}, {"slash behind", file("a/")}, {"two slashes", file("a//b")},
		{"long part", file(strings.Repeat("x", 256))}, {"long", file(strings.Repeat("x/", 2048) + "x")},
		{"device", Record{Path: []byte("f"), Mode: 0o020000}}, {"no kind", Record{Path: []byte("f")}},
		{"negative size", Record{Path: []byte("f"), Mode: TypeFile, Size: -1}}, {"folder with a size", Record{Path: []byte("f"), Mode: TypeFolder, Size: 1}},
		{"link without a target", Record{Path: []byte("f"), Mode: TypeLink}}, {"link to a zero byte", Record{Path: []byte("f"), Mode: TypeLink, Link: []byte("\x00")}},
		{"long link", Record{Path: []byte("f"), Mode: TypeLink, Link: make([]byte, MaxPath+1)}},
		{"folder with a target", Record{Path: []byte("f"), Mode: TypeFolder, Link: []byte("x")}},
		{"other name upwards", Record{Path: []byte("f"), Mode: TypeFile, Link: []byte("../x")}},
		{"other name with a content", Record{Path: []byte("f"), Mode: TypeFile, Link: []byte("x"), Size: 1}},
	} {
		if r, err := NewRecordReader(bytes.NewReader(c.r.Append(nil))).Next(); !errors.Is(err, ErrProtocol) {
			t.Errorf("%s: got %+v (%v)", c.name, r, err)
		}
	}
	for name, wire := range map[string][]byte{"cut length": {0, 0}, "cut record": {0, 0, 0, 9, '{'}, "cut content": Record{Path: []byte("f"), Mode: TypeFile, Size: 9}.Append(nil)} {
		in := NewRecordReader(bytes.NewReader(wire))
		_, err := in.Next()
		if err == nil {
			_, err = in.Next()
		}
		if err != io.ErrUnexpectedEOF {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := NewRecordReader(bytes.NewReader([]byte{0xff, 0xff, 0xff, 0xff})).Next(); !errors.Is(err, ErrProtocol) {
		t.Errorf("huge: %v", err)
	}
}

// FuzzRecords feeds hostile bytes to what both ends read folders with: a record that passes names a place below the folder.
func FuzzRecords(f *testing.F) {
	f.Add(Record{Path: []byte("f"), Mode: TypeFile, Size: 3}.Append(nil))
	f.Add(append(Record{Path: []byte("d/f"), Mode: TypeFile, Size: 3}.Append(nil), "abc"...))
	f.Add(Record{Path: []byte("l"), Mode: TypeLink, Link: []byte("/etc")}.Append(Record{Path: []byte("d"), Mode: TypeFolder}.Append(nil)))
	f.Add([]byte("\x00\x00\x00\x22{\"p\":\"Li4=\",\"m\":32768,\"s\":99999999}"))
	f.Fuzz(func(t *testing.T, wire []byte) {
		in := NewRecordReader(bytes.NewReader(wire))
		for range len(wire) + 1 {
			r, err := in.Next()
			if err != nil {
				return
			}
			name := string(r.Path)
			if full := path.Join("/root", name); full != "/root/"+name || name == ".." || strings.HasPrefix(name, "../") || strings.ContainsRune(name, 0) {
				t.Errorf("path %q passed", name)
			}
			if n, _ := io.Copy(io.Discard, in); n > r.Size {
				t.Errorf("content of %d bytes, announced %d", n, r.Size)
			}
		}
		t.Error("more records than bytes")
	})
}
