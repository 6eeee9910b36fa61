package digest

import (
	"errors"
	"strings"
	"testing"
	"testing/iotest"
)

func TestDigest(t *testing.T) {
	const empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	if got := Of(nil); got != empty {
		t.Errorf("of nothing: %s", got)
	}
	if got, err := Read(strings.NewReader("text")); err != nil || got != Of([]byte("text")) {
		t.Errorf("read: %s, %v", got, err)
	}
	failed := errors.New("failed")
	if _, err := Read(iotest.ErrReader(failed)); !errors.Is(err, failed) {
		t.Errorf("read of a failing reader: %v", err)
	}
	for text, want := range map[string]bool{
		empty: true, strings.ToUpper(empty): false, empty[1:]: false, empty + "0": false, "g" + empty[1:]: false, empty[:20] + "\n" + empty[21:]: false, "": false,
	} {
		if got := Valid(text); got != want {
			t.Errorf("Valid(%q) = %t", text, got)
		}
	}
}
