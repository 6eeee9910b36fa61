package cron

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "not 0"},
		{"* * * *", "not 4"},
		{"* * * * * *", "not 6"},
		{"@daily", "not 1"},
		{"60 * * * *", `minute "60": "60" is not in 0 to 59`},
		{"-1 * * * *", "is not in 0 to 59"},
		{"5-1 * * * *", "runs backwards"},
		{"*/0 * * * *", "is not a step"},
		{"5/15 * * * *", "a step needs a range, such as 5-59/15"},
		{"1,,2 * * * *", `"" is not in`},
		{"* * 0 * *", "is not in 1 to 31"},
		{"* * * 13 *", "is not in 1 to 12"},
		{"* * * * 8", "is not in 0 to 7"},
		{"* * * foo *", `"foo" is not in`},
		{"0 0 30 2 *", "never due: none of its months has such a day"},
		{"0 0 31 4,6 *", "never due"},
		{"+1 * * * *", "is not in"},
		{"0x1 * * * *", "is not in"},
		{"1 * * * * # comment", "not 7"},
		{strings.Repeat("1,", 300) + "1 * * * *", "more than 512 bytes"},
	} {
		if _, err := Parse(c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: error %v, want %q", c.text, err, c.want)
		}
	}
}

func TestNext(t *testing.T) {
	const layout = "2006-01-02 15:04 -0700"
	for _, c := range []struct{ name, cron, zone, after, want string }{
		{"a weekday's morning", "0 7 * * 1-5", "UTC", "2026-11-20 07:00 +0000", "2026-11-23 07:00 +0000"},
		{"names", "30 6 * JAN Mon", "UTC", "2026-11-20 07:00 +0000", "2027-01-04 06:30 +0000"},
		{"Sunday as seven", "0 0 * * 7", "UTC", "2026-11-20 07:00 +0000", "2026-11-22 00:00 +0000"},
		{"either day", "0 0 13 * fri", "UTC", "2026-11-08 00:00 +0000", "2026-11-13 00:00 +0000"},
		{"either day, the week's", "0 0 13 * fri", "UTC", "2026-11-13 00:00 +0000", "2026-11-20 00:00 +0000"},
		{"steps of a star restrict no other day", "0 0 */2 * mon", "UTC", "2026-11-01 00:00 +0000", "2026-11-09 00:00 +0000"},
		{"a leap day", "0 0 29 2 *", "UTC", "2096-03-01 00:00 +0000", "2104-02-29 00:00 +0000"},
		{"the end of a year", "*/20 23 31 12 *", "UTC", "2026-12-31 23:40 +0000", "2027-12-31 23:00 +0000"},
		{"clocks jump over it", "30 2 * * *", "Europe/Berlin", "2026-03-29 01:59 +0100", "2026-03-29 03:00 +0200"},
		{"and then as ever", "30 2 * * *", "Europe/Berlin", "2026-03-29 03:00 +0200", "2026-03-30 02:30 +0200"},
		{"once for all that is jumped over", "*/15 2 * * *", "Europe/Berlin", "2026-03-29 03:00 +0200", "2026-03-30 02:00 +0200"},
		{"twice on the clocks, the first", "30 2 * * *", "Europe/Berlin", "2026-10-25 01:00 +0200", "2026-10-25 02:30 +0200"},
		{"and not the second", "30 2 * * *", "Europe/Berlin", "2026-10-25 02:30 +0200", "2026-10-26 02:30 +0100"},
		{"a zone that jumps at midnight", "0 0 * * *", "America/Santiago", "2026-09-05 12:00 -0400", "2026-09-06 01:00 -0300"},
		{"a zone that left out a day", "0 12 30 12 *", "Pacific/Apia", "2011-12-29 12:00 -1000", "2011-12-31 00:00 +1400"},
		{"half an hour", "15 2 * * *", "Australia/Lord_Howe", "2026-10-04 01:59 +1030", "2026-10-04 02:30 +1100"},
	} {
		t.Run(c.name, func(t *testing.T) {
			z := zone(t, c.zone)
			after, err := time.ParseInLocation(layout, c.after, z)
			if err != nil {
				t.Fatal(err)
			}
			e, err := Parse(c.cron)
			if err != nil {
				t.Fatal(err)
			}
			if got := e.Next(after.In(z)).Format(layout); got != c.want {
				t.Errorf("after %s: %s, want %s", c.after, got, c.want)
			}
		})
	}
}

// matches is the expression's word on what clocks show, found without its bits.
func matches(e Expression, shown time.Time) bool {
	return e.onDay(shown) && has(e.hour, shown.Hour()) && has(e.minute, shown.Minute())
}

// slow goes through real time minute by minute, with the rules as they are written above Parse.
func slow(e Expression, from, to time.Time) []time.Time {
	var out []time.Time
	seen := map[time.Time]bool{}
	for t := from.Add(-3 * time.Hour); t.Before(from); t = t.Add(time.Minute) {
		seen[wall(t)] = true
	}
	last := wall(from.Add(-time.Minute))
	for t := from; !t.After(to); t = t.Add(time.Minute) {
		now, due := wall(t), false
		for w := last.Add(time.Minute); w.Before(now); w = w.Add(time.Minute) { // jumped over
			due = due || !seen[w] && matches(e, w)
			seen[w] = true
		}
		if due || !seen[now] && matches(e, now) {
			out = append(out, t)
		}
		seen[now] = true
		last = now
	}
	return out
}

func TestNextAgainstBruteForce(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	any := func(low, high int) string {
		switch random.IntN(5) {
		case 0:
			return fmt.Sprint(low + random.IntN(high-low+1))
		case 1:
			a := low + random.IntN(high-low+1)
			return fmt.Sprintf("%d-%d/%d", a, a+random.IntN(high-a+1), 1+random.IntN(5))
		case 2:
			return fmt.Sprintf("*/%d", 1+random.IntN(high))
		}
		return "*"
	}
	// each window has a change of the clocks in it
	for _, c := range []struct{ zone, from string }{
		{"UTC", "2026-02-27"}, {"Europe/Berlin", "2026-03-27"}, {"Europe/Berlin", "2026-10-23"}, {"America/New_York", "2026-03-06"},
		{"America/New_York", "2026-10-30"}, {"Australia/Lord_Howe", "2026-04-03"}, {"America/Santiago", "2026-09-04"}, {"Africa/Casablanca", "2026-02-13"},
	} {
		z := zone(t, c.zone)
		from, err := time.ParseInLocation("2006-01-02", c.from, z)
		if err != nil {
			t.Fatal(err)
		}
		to := from.Add(4 * 24 * time.Hour)
		for range 40 {
			text := strings.Join([]string{any(0, 59), any(0, 23), any(1, 31), "*", any(0, 7)}, " ")
			e, err := Parse(text)
			if err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			want := slow(e, from, to)
			var got []time.Time
			for at := e.Next(from.Add(-time.Second)); !at.IsZero() && !at.After(to); at = e.Next(at) {
				got = append(got, at)
			}
			if len(got) != len(want) {
				t.Fatalf("%s, %q from %s: due %d times, want %d\n%v\n%v", c.zone, text, c.from, len(got), len(want), got, want)
			}
			for i := range want {
				if !got[i].Equal(want[i]) {
					t.Fatalf("%s, %q: due at %s, want %s", c.zone, text, got[i], want[i])
				}
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"0 7 * * 1-5", "*/15 0-23/2 1,15 jan-mar SUN", "60 * * * *", "* * 31 2 *", "0 0 29 2 *", "", "*-* * * * *"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		e, err := Parse(text)
		if err != nil {
			return
		}
		at := time.Date(2026, 3, 28, 23, 59, 30, 0, time.UTC)
		for range 3 {
			next := e.Next(at)
			if !next.After(at) || next.Second() != 0 || !matches(e, next) {
				t.Fatalf("%q: after %s comes %s", text, at, next)
			}
			at = next
		}
	})
}
