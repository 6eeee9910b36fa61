package docker

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func piece(kind byte, text string) string {
	n := len(text)
	return string([]byte{kind, 0, 0, 0, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}) + text
}

func TestStreamSeparatesStderr(t *testing.T) {
	for _, c := range []struct{ name, wire, stdout, stderr, err string }{
		{"empty", "", "", "", ""},
		{"interleaved", piece(1, "ab") + piece(2, "oops") + piece(1, "") + piece(1, "cd"), "abcd", "oops", ""},
		{"cut in a header", piece(1, "ab") + "\x01\x00", "ab", "", "unexpected EOF"},
		{"cut in stderr", piece(2, "oops")[:10], "", "oo", "unexpected EOF"},
		{"unknown stream", piece(9, "x"), "", "", "stream 9"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var stderr bytes.Buffer
			s := &stream{src: iotest.OneByteReader(strings.NewReader(c.wire)), stderr: &stderr}
			got, err := io.ReadAll(s)
			if string(got) != c.stdout || stderr.String() != c.stderr {
				t.Errorf("got %q and %q", got, stderr.String())
			}
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("error %v, want %q", err, c.err)
			}
		})
	}
}

// FuzzStream: the engine is trusted, but a bug there must not hang or panic here.
func FuzzStream(f *testing.F) {
	f.Add([]byte(piece(1, "ab") + piece(2, "oops")))
	f.Add([]byte{1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, wire []byte) {
		var stderr bytes.Buffer
		got, _ := io.ReadAll(&stream{src: bytes.NewReader(wire), stderr: &stderr})
		if len(got)+stderr.Len() > len(wire) {
			t.Errorf("%d bytes came out of %d", len(got)+stderr.Len(), len(wire))
		}
	})
}

func TestFollowReportsFailureInsideSuccess(t *testing.T) {
	var lines []string
	err := follow(strings.NewReader(`{"status":"Pulling fs layer","id":"a"}{"error":"manifest unknown"}`), func(l string) { lines = append(lines, l) })
	if err == nil || err.Error() != "manifest unknown" || len(lines) != 1 {
		t.Errorf("got %v after %q", err, lines)
	}
	if err := follow(strings.NewReader(`{"status":`), nil); err == nil {
		t.Error("a cut answer is no success")
	}
}
