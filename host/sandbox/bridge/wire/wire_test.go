package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestPackets(t *testing.T) {
	var b bytes.Buffer
	for _, p := range []string{"", "abc", strings.Repeat("\x00", MaxData)} {
		if err := Write(&b, Output, []byte(p)); err != nil {
			t.Fatal(err)
		}
		if k, got, err := Read(&b); k != Output || string(got) != p || err != nil {
			t.Errorf("got %c of %d bytes (%v)", k, len(got), err)
		}
	}
	for name, text := range map[string]string{
		"unknown kind": "?\x00\x00\x00\x00", "too long": "o\x00\x01\x00\x01", "call too long": "c\x00\x10\x00\x01", "exit without a code": "x\x00\x00\x00\x00",
	} {
		if _, _, err := Read(strings.NewReader(text)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := Read(strings.NewReader("o\x00\x00\x00\x02a")); err != io.ErrUnexpectedEOF {
		t.Errorf("cut: %v", err)
	}
}

// FuzzRead: whatever is accepted is within its bounds and says the same again.
func FuzzRead(f *testing.F) {
	f.Add([]byte("o\x00\x00\x00\x03abc"))
	f.Add([]byte("c\x00\x00\x00\x0d{\"name\":\"YQ\"}"))
	f.Add([]byte("x\x00\x00\x00\x01\x07"))
	f.Fuzz(func(t *testing.T, text []byte) {
		k, p, err := Read(bytes.NewReader(text))
		if err != nil {
			return
		}
		var again bytes.Buffer
		if err := Write(&again, k, p); err != nil || !bytes.HasPrefix(text, again.Bytes()) || len(p) > MaxCall {
			t.Errorf("%q became %q (%v)", text, again.Bytes(), err)
		}
		if k != Call {
			return
		}
		if b, err := ParseCall(p); err == nil {
			if one, err := json.Marshal(b); err != nil {
				t.Errorf("%q: %q (%v)", p, one, err)
			}
		}
	})
}
