package plugin

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestTheLogRing(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, c := range map[string]struct {
		lines       int
		after       uint64
		first, last uint64 // of what is returned; 0: nothing
	}{
		"nothing yet":               {},
		"all":                       {lines: 3, first: 1, last: 3},
		"the rest":                  {lines: 3, after: 1, first: 2, last: 3},
		"none new":                  {lines: 3, after: 3},
		"full to the brim":          {lines: recentLines, first: 1, last: recentLines},
		"one too many":              {lines: recentLines + 1, first: 2, last: recentLines + 1},
		"around several times":      {lines: 3*recentLines + 7, first: 2*recentLines + 8, last: 3*recentLines + 7},
		"a reader that is behind":   {lines: 2 * recentLines, after: 5, first: recentLines + 1, last: 2 * recentLines},
		"a reader within":           {lines: 2 * recentLines, after: 2*recentLines - 1, first: 2 * recentLines, last: 2 * recentLines},
		"a reader of another host":  {lines: 3, after: 500, first: 1, last: 3},
		"a reader before any lines": {after: 500},
	} {
		t.Run(name, func(t *testing.T) {
			r := &recent{}
			for i := range c.lines {
				r.add(at, slog.LevelInfo, fmt.Sprint("line ", i+1))
			}
			got := r.after(c.after)
			if c.first == 0 {
				if len(got) > 0 {
					t.Errorf("%d lines", len(got))
				}
				return
			}
			if uint64(len(got)) != c.last-c.first+1 {
				t.Fatalf("%d lines, want those from %d to %d", len(got), c.first, c.last)
			}
			for i, l := range got {
				if l.Seq != c.first+uint64(i) || l.Text != fmt.Sprint("line ", l.Seq) || l.Level != "INFO" || !l.Time.Equal(at) {
					t.Fatalf("line %d is %+v", i, l)
				}
			}
		})
	}
}

// Lines that a reader got stay as they were while the ring turns under them, and a long line is cut.
func TestTheLogRingIsReadWhileItTurns(t *testing.T) {
	r := &recent{}
	r.add(time.Now(), slog.LevelWarn, strings.Repeat("ä", maxRecent))
	if got := r.after(0)[0].Text; len(got) > maxRecent+len("…") || !strings.HasPrefix(got, "ä") {
		t.Errorf("a line of %d bytes", len(got))
	}
	var writing sync.WaitGroup
	for range 2 {
		writing.Go(func() {
			for i := range 2 * recentLines {
				r.add(time.Now(), slog.LevelInfo, fmt.Sprint(i))
			}
		})
	}
	var last, read, missed uint64
	for last < 4*recentLines+1 {
		for _, l := range r.after(last) {
			if l.Seq <= last {
				t.Fatalf("line %d after %d", l.Seq, last)
			}
			missed += l.Seq - last - 1
			read++
			last = l.Seq
		}
	}
	writing.Wait()
	if read+missed != 4*recentLines+1 {
		t.Errorf("%d lines read and %d missed of %d", read, missed, 4*recentLines+1)
	}
}

// A flood of a plugin's is cut to its share of each second; what is left out is said, and the last lines stay readable.
func TestALogFloodIsCutAndSaid(t *testing.T) { synctest.Test(t, floodLog) } // in which all of it comes in one second

func floodLog(t *testing.T) {
	kept := &recent{}
	out := newOutput(slog.New(tee{Handler: slog.DiscardHandler, recent: kept}), map[string]string{"token": "tok-5ecret"})
	var flood strings.Builder
	for i := range 5 * linesPerSec {
		fmt.Fprintln(&flood, "line", i, "tok-5ecret")
	}
	out.stderr(strings.NewReader(flood.String()))
	all := kept.after(0)
	last := all[len(all)-1]
	if !strings.Contains(last.Text, "plugin logs too much") || !strings.Contains(last.Text, "dropped_lines=") || last.Level != "WARN" {
		t.Errorf("the last line is %+v", last)
	}
	if len(all) != linesPerSec+1 || !strings.Contains(last.Text, fmt.Sprint("dropped_lines=", 4*linesPerSec)) {
		t.Errorf("%d lines are kept, and the last one is %q", len(all), last.Text)
	}
	for _, l := range all {
		if strings.Contains(l.Text, "5ecret") {
			t.Fatalf("line %q", l.Text)
		}
	}
}
