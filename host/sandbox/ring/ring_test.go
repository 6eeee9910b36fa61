package ring

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

// The ring behaves like the tail of an endless buffer.
func TestRing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r Buffer
		var all []byte
		for i := range rapid.IntRange(0, 6).Draw(t, "writes") {
			p := bytes.Repeat([]byte{byte(i), byte(i + 100)}, rapid.IntRange(0, Size*3/4).Draw(t, "size"))
			_, _ = r.Write(p)
			all = append(all, p...)
		}
		oldest := max(len(all)-Size, 0)
		offset := rapid.IntRange(0, len(all)+10).Draw(t, "offset")
		n := rapid.IntRange(0, Size+10).Draw(t, "n")
		got, first, dropped := r.Read(int64(offset), n)
		from := min(max(offset, oldest), len(all))
		if int(first) != from || int(dropped) != oldest {
			t.Fatalf("first %d, dropped %d; want %d, %d", first, dropped, from, oldest)
		}
		if want := all[from:min(from+n, len(all))]; !bytes.Equal(got, want) {
			t.Fatalf("got %d bytes, want %d", len(got), len(want))
		}
	})
}
