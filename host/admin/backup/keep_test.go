package backup

import (
	"bytes"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/internal/filelock"
)

// TestRule draws times of backups and rules: what is kept is what a plain reading of the rule says.
func TestRule(t *testing.T) {
	zone := time.FixedZone("east", 5*3600)
	for range 500 {
		var all []Kept
		for at := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC); len(all) < 1+rand.IntN(120); at = at.Add(-time.Duration(rand.IntN(60*3600)) * time.Second) {
			all = append(all, Kept{Path: at.String(), Time: at})
		}
		r := Rule{rand.IntN(9), rand.IntN(6), rand.IntN(5)}
		surplus := r.Surplus(all, zone)
		want := map[string]bool{all[0].Path: true}
		for _, c := range []struct {
			most int
			of   string
		}{{r.Days, "2006-01-02"}, {r.Weeks, "week"}, {r.Months, "2006-01"}} {
			var spans []string
			for _, k := range all { // the latest of a span comes first
				span := k.Time.In(zone).Format(c.of)
				if c.of == "week" { // begins on Monday
					day := k.Time.In(zone)
					span = day.AddDate(0, 0, -(int(day.Weekday())+6)%7).Format(time.DateOnly)
				}
				if !slices.Contains(spans, span) {
					if spans = append(spans, span); len(spans) <= c.most {
						want[k.Path] = true
					}
				}
			}
		}
		for _, k := range all {
			if slices.ContainsFunc(surplus, func(s Kept) bool { return s.Path == k.Path }) == want[k.Path] {
				t.Fatalf("%+v of %d backups: %s is deleted: %t", r, len(all), k.Path, want[k.Path])
			}
		}
	}
}

// TestRunner makes backups when they are due, makes up for one, keeps those of the rule and nothing else, and says what is wrong.
func TestRunner(t *testing.T) {
	to := filepath.Join(t.TempDir(), "backups")
	h := newHome(t, "data", `[backup]`, `to = "`+to+`"`, `passphrase_file = "secrets/inner/key"`, `timezone = "UTC"`, `keep_days = 2`, `keep_weeks = 0`, `keep_months = 0`)
	var log bytes.Buffer
	r := NewRunner(h.current, nothing, slog.New(slog.NewTextHandler(&log, nil)))
	start := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	at := func(days int, clock string) time.Time {
		c, err := time.Parse("15:04", clock)
		if err != nil {
			t.Fatal(err)
		}
		return time.Date(start.Year(), start.Month(), start.Day()+days, c.Hour(), c.Minute(), 0, 0, time.UTC)
	}
	h.write(t, filepath.Join(to, "flynn-somebody's.tar.gz.age"), "not ours", 0o600)
	h.write(t, filepath.Join(to, Name(at(-300, "00:00"))+".part"), "not ours", 0o600)
	for _, c := range []struct {
		when time.Time
		all  int // backups afterwards
	}{
		{start, 1}, {at(0, "23:59"), 1}, {at(1, "03:29"), 1}, {at(1, "03:30"), 2}, {at(1, "03:31"), 2}, {at(2, "09:00"), 2}, {at(2, "09:01"), 2}, {at(30, "00:00"), 2},
	} {
		if err := r.look(t.Context(), c.when); err != nil {
			t.Fatal(err)
		}
		all, err := List(to)
		if err != nil || len(all) != c.all {
			t.Errorf("at %s: %v (%v)", c.when, all, err)
		}
		if len(all) > 0 && r.Latest() != all[0].Time.Unix() {
			t.Errorf("at %s the latest is of %d", c.when, r.Latest())
		}
	}
	if entries, err := os.ReadDir(to); err != nil || len(entries) != 4 {
		t.Errorf("%v (%v)", entries, err)
	}
	if err := os.RemoveAll(to); err != nil {
		t.Fatal(err)
	}
	h.write(t, to, "a file in its place", 0o600)
	if err := r.look(t.Context(), at(60, "00:00")); err == nil || !strings.Contains(err.Error(), to) {
		t.Errorf("without a folder: %v", err)
	}
	if err := os.Remove(to); err != nil {
		t.Fatal(err)
	}
	left, used := filepath.Join(h.store, scratch+"left"), filepath.Join(h.store, scratch+"used")
	h.write(t, filepath.Join(left, "database"), "left by a crash", 0o600)
	h.write(t, filepath.Join(used, "database"), "of a backup that is being made", 0o600)
	release, err := filelock.TryDir(used)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if r.sweep(); strings.Contains(log.String(), "ERROR") {
		t.Error(log.String())
	}
	for path, want := range map[string]bool{left: false, used: true} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s: %v", path, err)
		}
	}
}
