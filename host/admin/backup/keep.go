package backup

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A name of a backup has the moment at which it was made.
const (
	prefix = "flynn-"
	stamp  = "20060102T150405Z"
	suffix = ".tar.gz.age"
)

// Name returns the file name of a backup that is made at a moment.
func Name(at time.Time) string { return prefix + at.UTC().Format(stamp) + suffix }

// Kept is a backup in a folder.
type Kept struct {
	Path  string    `json:"path"`
	Time  time.Time `json:"time"`
	Bytes int64     `json:"bytes"`
}

// List returns the backups in a folder, latest first. A folder that does not exist has none.
func List(folder string) ([]Kept, error) {
	entries, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list the backups: %w", err)
	}
	all := []Kept{}
	for _, e := range entries {
		inner, ok := strings.CutPrefix(e.Name(), prefix)
		inner, is := strings.CutSuffix(inner, suffix)
		at, err := time.Parse(stamp, inner)
		if !ok || !is || err != nil || !e.Type().IsRegular() {
			continue
		}
		if info, err := e.Info(); err == nil {
			all = append(all, Kept{filepath.Join(folder, e.Name()), at, info.Size()})
		}
	}
	slices.SortFunc(all, func(a, b Kept) int { return cmp.Compare(b.Time.Unix(), a.Time.Unix()) })
	return all, nil
}

// Rule says which backups are kept: the last one of each of so many days, weeks and months that have any. The latest is always kept.
type Rule struct{ Days, Weeks, Months int }

// Surplus returns the backups that a rule does not keep. all has the latest first. Days begin and end in a time zone.
func (r Rule) Surplus(all []Kept, zone *time.Location) (surplus []Kept) {
	spans := []struct {
		most int
		of   func(time.Time) string
		last string
	}{
		{r.Days, func(t time.Time) string { return t.Format(time.DateOnly) }, ""},
		{r.Weeks, func(t time.Time) string {
			year, week := t.ISOWeek()
			return fmt.Sprint(year, "-", week)
		}, ""},
		{r.Months, func(t time.Time) string { return t.Format("2006-01") }, ""},
	}
	for i, k := range all {
		keep := i == 0
		for n := range spans {
			s := &spans[n]
			if span := s.of(k.Time.In(zone)); s.most > 0 && span != s.last {
				s.last, keep = span, true
				s.most--
			}
		}
		if !keep {
			surplus = append(surplus, k)
		}
	}
	return surplus
}
