package pairing

import (
	"crypto/rand"
	"strings"
	"testing"
)

func TestParseCode(t *testing.T) {
	for _, c := range []struct {
		name, text, want string
		ok               bool
	}{
		{"as it is", "ABCDEFGH", "ABCDEFGH", true},
		{"as it is shown", "ABCD-EFGH", "ABCDEFGH", true},
		{"as people type", " abcd efgh ", "ABCDEFGH", true},
		{"digits", "2345-6789", "23456789", true},
		{"too short", "ABCDEFG", "", false},
		{"too long", "ABCDEFGHJ", "", false},
		{"a sign that there is not", "ABCDEFG0", "", false},
		{"a letter that becomes a sign in capitals", "abcdefgı", "", false},
		{"other letters", "ÄBCDEFG", "", false},
		{"nothing", "", "", false},
		{"much of nothing", strings.Repeat(" ", 100) + "ABCDEFGH", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, ok := ParseCode(c.text); got != c.want || ok != c.ok {
				t.Errorf("%q, %v", got, ok)
			}
		})
	}
}

func TestCodesAreRead(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		code, err := newCode(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := ParseCode(ShowCode(code)); !ok || got != code {
			t.Fatalf("%q is read back as %q, %v", code, got, ok)
		}
		seen[code] = true
	}
	if len(seen) < 1000 {
		t.Errorf("%d different codes of 1000", len(seen))
	}
	if _, err := newCode(strings.NewReader("short")); err == nil {
		t.Error("a code without randomness")
	}
}

func FuzzParseCode(f *testing.F) {
	for _, s := range []string{"ABCDEFGH", "abcd-efgh", "", "I0O1I0O1", "ſſſſſſſſ", "\xff", "A B C D E F G H"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		code, ok := ParseCode(text)
		if !ok {
			if code != "" {
				t.Fatalf("%q is no code, but %q", text, code)
			}
			return
		}
		if len(code) != codeLen || strings.Trim(code, alphabet) != "" {
			t.Fatalf("%q is read as %q", text, code)
		}
		if again, ok := ParseCode(ShowCode(code)); !ok || again != code {
			t.Fatalf("%q is shown as %q and read back as %q", code, ShowCode(code), again)
		}
	})
}
