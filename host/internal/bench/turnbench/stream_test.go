package turnbench

import (
	"fmt"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/internal/hosttest"
)

// BenchmarkStream measures what showing a turn costs it. Two set-ups run side by side and take turns: a plain channel, and one with
// edit, typing and files. The quick turns are those of BenchmarkTurn: they end before anything is shown. The long ones stream for
// more than a second, so that there are drafts and edits; of them the time past the model's own is told.
func BenchmarkStream(b *testing.B) {
	bin := build(b)
	plain, rich := newFloor(b, bin, hosttest.Config{}), newFloor(b, bin, hosttest.Config{Rich: true})
	for _, c := range []struct {
		name     string
		sessions int
		say      func(int) string
		model    time.Duration // the demo model's own time
	}{
		{"quick/alone", 1, text, 0},
		{fmt.Sprintf("quick/sessions=%d", sessions), sessions, text, 0},
		{"long/alone", 1, long, longWords * longPace},
	} {
		for _, side := range []struct {
			name string
			*floor
		}{{"plain", plain}, {"rich", rich}} {
			b.Run(c.name+"/"+side.name, func(b *testing.B) {
				side.model = c.model
				side.turns(b, c.sessions, c.say)
			})
		}
	}
}

// A long turn's answer has so many words, at this pace.
const (
	longWords = 62
	longPace  = 20 * time.Millisecond
)

func long(id int) string {
	words := ""
	for range longWords - 2 { // after "You said:"
		words += " word"
	}
	return fmt.Sprintf("!stream %d%s", longPace.Milliseconds(), words)
}
