package redact

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestReader(t *testing.T) {
	for _, c := range []struct {
		name, text, want string
		secrets          []string
	}{
		{"none", "plain", "plain", nil},
		{"too short to tell", "aaab", "aaab", []string{"aaa"}},
		{"in the middle", "x token-1 y", "x ******* y", []string{"token-1"}},
		{"twice in a row", "token-1token-1", "**************", []string{"token-1"}},
		{"only its beginning", "x token-", "x token-", []string{"token-1"}},
		{"a false start before it", "tokentoken-1", "token*******", []string{"token-1"}},
		{"one begins with the other", "token-12", "********", []string{"token-1", "token-12"}},
		{"one inside the other", "xtokenx", "*******", []string{"xtokenx", "tokenx"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for name, src := range map[string]io.Reader{
				"at once": strings.NewReader(c.text), "byte by byte": iotest.OneByteReader(strings.NewReader(c.text)),
				"with its end": iotest.DataErrReader(strings.NewReader(c.text)),
			} {
				got, err := io.ReadAll(Reader(src, c.secrets...))
				if string(got) != c.want || err != nil {
					t.Errorf("%s: got %q (%v), want %q", name, got, err, c.want)
				}
			}
		})
	}
}

// Where the stream breaks off, not even the beginning of a secret comes through.
func TestCut(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct{ text, want string }{
		{"x token-", "x ******"}, {"x t", "x *"}, {"x token-1", "x *******"}, {"token-1x", "*******x"}, {"plain", "plain"},
	} {
		for name, src := range map[string]io.Reader{
			"at once": strings.NewReader(c.text), "byte by byte": iotest.OneByteReader(strings.NewReader(c.text)),
		} {
			got, err := io.ReadAll(Reader(io.MultiReader(src, iotest.ErrReader(broken)), "token-1"))
			if string(got) != c.want || err != broken {
				t.Errorf("%q, %s: got %q (%v), want %q", c.text, name, got, err, c.want)
			}
		}
	}
}

// However a text is cut, no secret comes through and nothing is lost.
func FuzzStream(f *testing.F) {
	f.Add([]byte("some secret-value here"), "secret-value", uint8(3))
	f.Add([]byte("aaaaaaaaaaaaaab"), "aaaaaab", uint8(1))
	f.Fuzz(func(t *testing.T, text []byte, secret string, cut uint8) {
		if len(secret) < minInStream || strings.Trim(secret, "*") != secret {
			return
		}
		s, step := NewStream(secret), int(cut)+1
		var got []byte
		for rest := bytes.Clone(text); len(rest) > 0; {
			n := min(step, len(rest))
			got = append(got, s.Next(rest[:n])...)
			rest = rest[n:]
		}
		got = append(got, s.Rest()...)
		if len(got) != len(text) || bytes.Contains(got, []byte(secret)) {
			t.Errorf("%q became %q", text, got)
		}
	})
}
