package native

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSubordinate(t *testing.T) {
	for _, c := range []struct {
		name, text string
		first      int
	}{
		{"by number", "1:5:5\n12345:100000:65536\n", 100000},
		{"the second is large enough", "12345:7:10\n12345:200000:20003\n", 200000},
		{"too small", "12345:100000:20002\n", 0},
		{"another user's", "123:100000:65536\n1234567:100000:65536\n", 0},
		{"negative, overflow, words", "12345:-1:65536\n12345:99999999999999999999:65536\n12345:a:b\n12345:1\n12345\n::::\n", 0},
		{"zero is root's", "12345:0:65536\n", 0},
		{"controls and no line end", "\x00\r\n\x1b[2J\n12345:100000:65536", 100000},
		{"empty", "", 0},
	} {
		file := filepath.Join(t.TempDir(), "subuid")
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := subordinate(file, 12345)
		if got != c.first || (err != nil) != (c.first == 0) {
			t.Errorf("%s: %d, %v, want %d", c.name, got, err, c.first)
		}
		if err != nil && !strings.Contains(err.Error(), "usermod --add-subuids") {
			t.Errorf("%s: no way out: %v", c.name, err)
		}
	}
	if _, err := subordinate(filepath.Join(t.TempDir(), "none"), 12345); err == nil || !strings.Contains(err.Error(), "usermod") {
		t.Errorf("without the file: %v", err)
	}
}

func TestArrange(t *testing.T) {
	for _, own := range []int{firstSpare, firstSpare + spareCount - 1} {
		if m, err := arrange(own, 100000); err == nil {
			t.Errorf("user %d is mapped twice: %v", own, m)
		}
	}
	for _, own := range []int{1000, firstSpare - 1, firstSpare + spareCount, 1 << 30} {
		m, err := arrange(own, 100000)
		if err != nil {
			t.Fatal(err)
		}
		inside, outside := map[int]bool{}, map[int]bool{}
		for _, r := range m {
			for i := range r.Size {
				if inside[r.Inside+i] || outside[r.Outside+i] {
					t.Fatalf("user %d: an id is mapped twice: %v", own, m)
				}
				inside[r.Inside+i], outside[r.Outside+i] = true, true
			}
		}
	}
}
