package policy

import (
	"encoding/json"
	"testing"
)

// FuzzQuoted holds our JSON strings against those of encoding/json.
func FuzzQuoted(f *testing.F) {
	for _, seed := range []string{"", "plain", "a\"b\\c\n\x00\x7f", "é€🜁", "\xff\xc3(\xed\xa0\x80", "<&>\u2028"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		theirs, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var want, got, again string
		if err := json.Unmarshal(theirs, &want); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(appendQuoted(nil, s), &got); err != nil || got != want {
			t.Errorf("%q became %q, %v", s, got, err)
		}
		if err := json.Unmarshal(appendQuoted(nil, []byte(s)), &again); err != nil || again != want {
			t.Errorf("the bytes of %q became %q, %v", s, again, err)
		}
	})
}
