package gateway_test

import (
	"encoding/base64"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/charmbracelet/x/vt"

	"github.com/flynnhost/flynn/host/gateway/gatewaytest"
)

// TestScreen compares the screen of the console's terminal with another emulator, after what programs write, in pieces. Left out is where the
// other one differs from xterm: it erases too much above the cursor, and goes to the next line without its beginning.
func TestScreen(t *testing.T) {
	t.Parallel()
	const rows, cols, scripts = 8, 20, 400
	d := open(t, gatewaytest.Demo)
	p := visit(t, browser(t), d)
	p.eval(`import("/rooms/sandboxes/screen.js").then((m) => { window.Screen = m.Screen; })`)
	random := rand.New(rand.NewPCG(16, 10))
	parts := []string{
		"hello", "world ", "\r\n", "\n", "\r", "\b", "\t", "ä", "→", "x\x1b[1mbold\x1b[0m", "\x1b[H", "\x1b[3;5H", "\x1b[8;20H", "\x1b[99;99H", "\x1b[2A", "\x1b[B", "\x1b[3C", "\x1b[2D",
		"\x1b[G", "\x1b[7G", "\x1b[4d", "\x1b[J", "\x1b[2J", "\x1b[K", "\x1b[1K", "\x1b[2K", "\x1b[2L", "\x1b[2M", "\x1b[3P", "\x1b[3@", "\x1b[2X", "\x1b[S", "\x1b[2T",
		"\x1b[2;6r", "\x1b[r", "\x1bD", "\x1bM", "\x1b7", "\x1b8", "\x1b[31;42m", "\x1b[38;5;9m", "\x1b[38;2;1;2;3m", "\x1b[m", "\x1b]0;a title\x07", "\x1b]8;;http://x\x1b\\",
		"\x1b[?25l", "\x1b[?25h", "\x1b[?1049h\x1b[H in it \x1b[2;3H\x1b[J\x1b[?1049l", "\x1b[?2004h", "a long line that does not fit into it", "\x1b[>4;1m", "\x1b[!p", strings.Repeat("y", cols), strings.Repeat("z\r\n", 3),
	}
	type script struct {
		Text string // base64
		Cut  int    // anywhere, also in a sequence
	}
	var all []script
	var written [][]string
	var want, got []string
	for range scripts {
		list := []string{"\x1b7"} // what comes back without it differs between terminals
		for range 1 + random.IntN(25) {
			list = append(list, parts[random.IntN(len(parts))])
		}
		other := vt.NewEmulator(cols, rows)
		if _, err := other.WriteString(strings.Join(list, "")); err != nil {
			t.Fatal(err)
		}
		text := base64.StdEncoding.EncodeToString([]byte(strings.Join(list, "")))
		all, written, want = append(all, script{text, random.IntN(len(text))}), append(written, list), append(want, trimmed(other.String()))
	}
	list, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(p.eval(`JSON.stringify(`+string(list)+`.map(({Text, Cut}) => {
		const all = new TextDecoder().decode(Uint8Array.from(atob(Text), (c) => c.charCodeAt(0)));
		const s = new Screen(8, 20);
		s.write(all.slice(0, Cut));
		s.write(all.slice(Cut));
		return s.text();
	}))`)), &got); err != nil || len(got) != scripts {
		t.Fatalf("%d screens: %v", len(got), err)
	}
	wrong := 0
	for i := range scripts {
		if got[i] != want[i] {
			t.Logf("script %d: %q\n%s\n-- the other\n%s", i, written[i], got[i], want[i])
			wrong++
		}
	}
	// Terminals differ about a line that is full and then erased, before its next letter.
	if wrong > scripts/40 {
		t.Errorf("%d of %d scripts look different", wrong, scripts)
	}
	// Nothing makes it fail or grow without bound.
	p.want(`(() => {
		const s = new Screen(8, 20);
		for (let i = 0; i < 20000; i++) s.write("\x1b[" + "9".repeat(i % 300) + "@\x1b[9999L\x1b[9999M\x1b[9999P\x1b[9999S\u0301\x1b]" + "q".repeat(50));
		s.resize(3, 5);
		s.resize(40, 80);
		s.write("\x1bc");
		return s.lines.length + " " + s.lines.every((l) => l.length === 80) + " " + (s.above.length <= 1100) + " " + (s.rest.length < 5000);
	})()`, "40 true true true")
}

func trimmed(screen string) string {
	lines := strings.Split(screen, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n ")
}
