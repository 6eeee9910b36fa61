package schedule

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/config/edit"
	"github.com/flynnhost/flynn/host/store"
)

const twoSchedules = `# mine
[routing]
default_agent = "main"
[agent_configs.main]
[access]
owners = ["irc:ann"]
[channels.irc]
plugin = "irc"
[[schedules]]
name = "one" # first
agent = "main"
cron = "0 7 * * *"
timezone = "Europe/Berlin"
text = "hi"
as = "irc:ann"
# the second
[[schedules]]
name = "two"
agent = "main"
every = "30m"
text = "ho"
as = "irc:ann"
`

func TestChangesOfTheFile(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(f *edit.File) error
		want   []string // of the new text
		gone   []string
		err    string
	}{
		{"add", func(f *edit.File) error {
			return do(f, "three", Values{"every": "1h", "text": "a \"b\"\n\x1b[2J \u202e"}, true)
		},
			[]string{`name = "three"`, `as = "irc:ann"`, `agent = "main"`, `\u001b[2J`}, nil, ""},
		{"deliver everything", func(f *edit.File) error {
			return do(f, "three", Values{"every": "1h", "text": "x", "quiet": "", "jitter": ""}, true)
		},
			[]string{`quiet = ""`}, []string{"jitter"}, ""},
		{"another of the name", func(f *edit.File) error { return do(f, "one", Values{"every": "1h", "text": "x"}, true) }, nil, nil, "already"},
		{"no times", func(f *edit.File) error { return do(f, "three", Values{"text": "x"}, true) }, nil, nil, "needs cron or every"},
		{"both times", func(f *edit.File) error {
			return do(f, "three", Values{"text": "x", "cron": "0 7 * * *", "every": "1h"}, true)
		}, nil, nil, "needs cron or every"},
		{"no text", func(f *edit.File) error { return do(f, "three", Values{"every": "1h"}, true) }, nil, nil, "needs text"},
		{"every replaces cron", func(f *edit.File) error { return do(f, "one", Values{"every": "2h", "timezone": ""}, false) },
			[]string{`every = "2h"`, "# first", "# the second"}, []string{"cron", "timezone"}, ""},
		{"text", func(f *edit.File) error { return do(f, "two", Values{"text": "[[schedules]]\nname = \"evil\""}, false) }, []string{`"""` + "\n"}, nil, "?"},
		{"nobody", func(f *edit.File) error { return do(f, "none", Values{"text": "x"}, false) }, nil, nil, "no schedule"},
		{"remove the first", func(f *edit.File) error {
			loaded, err := f.Load(os.Getenv)
			return errors.Join(err, Remove(f, loaded, "one"))
		}, []string{`name = "two"`}, []string{`"one"`}, ""},
		{"remove nobody", func(f *edit.File) error {
			loaded, err := f.Load(os.Getenv)
			return errors.Join(err, Remove(f, loaded, "none"))
		}, nil, nil, "no schedule"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "flynn.toml")
			if err := os.WriteFile(path, []byte(twoSchedules), 0o600); err != nil {
				t.Fatal(err)
			}
			f, err := edit.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			err = c.change(f)
			if c.err != "" && c.err != "?" {
				if err == nil || !strings.Contains(err.Error(), c.err) || f.Diff() != "" {
					t.Fatalf("got %v, and the text\n%s", err, f.Diff())
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			loaded, err := f.Load(os.Getenv)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range loaded.Schedules {
				if s.Name == "evil" {
					t.Error("a text has become a schedule")
				}
			}
			if c.err == "?" {
				return
			}
			for _, w := range c.want {
				if !strings.Contains(string(f.Bytes()), w) {
					t.Errorf("lacks %q:\n%s", w, f.Diff())
				}
			}
			for _, w := range c.gone {
				if strings.Contains(string(f.Bytes()), w) {
					t.Errorf("still has %q:\n%s", w, f.Diff())
				}
			}
		})
	}
}

func do(f *edit.File, name string, v Values, add bool) error {
	c, err := f.Load(os.Getenv)
	if err != nil {
		return err
	}
	if add {
		return Add(f, c, name, v)
	}
	return Change(f, c, name, v)
}

func TestPreviewAcrossAChangeOfTheClocks(t *testing.T) {
	for _, c := range []struct {
		name, timing, zone, after string
		want                      string // of two times
	}{
		{"the night that has no half past two", "30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-29T03:00:00+02:00 2026-03-30T02:30:00+02:00"},
		{"the night that has it twice", "30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", "2026-10-25T02:30:00+02:00 2026-10-26T02:30:00+01:00"},
		{"a span", "30m", "", "2026-03-28T12:10:00Z", "2026-03-28T12:30:00Z 2026-03-28T13:00:00Z"},
		{"as a list shows it", "every 30m0s", "", "2026-03-28T12:10:00Z", "2026-03-28T12:30:00Z 2026-03-28T13:00:00Z"},
		{"less than a minute", "1s", "", "2026-03-28T12:10:00Z", "1s is less than a minute"},
		{"backwards", "-5h", "", "2026-03-28T12:10:00Z", "less than a minute"},
		{"never", "0 0 30 2 *", "", "2026-03-28T12:10:00Z", "never due"},
		{"no zone", "0 7 * * *", "Europe/../../etc/passwd", "2026-03-28T12:10:00Z", "no time zone"},
		{"words", "every day at seven", "", "2026-03-28T12:10:00Z", "five fields"},
		{"nothing", "", "", "2026-03-28T12:10:00Z", "five fields"},
		{"too large", "9999999999h", "", "2026-03-28T12:10:00Z", "five fields"},
	} {
		t.Run(c.name, func(t *testing.T) {
			after, err := time.Parse(time.RFC3339, c.after)
			if err != nil {
				t.Fatal(err)
			}
			_, due, err := Preview(c.timing, c.zone, after, 2)
			if err != nil {
				if !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v, want %s", err, c.want)
				}
				return
			}
			got := due[0].Format(time.RFC3339) + " " + due[1].Format(time.RFC3339)
			if got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestAPauseOutlastsTheHost(t *testing.T) {
	b := newBench(t, hourly(func(e *Entry) { e.CatchUp = CatchUpAll }))
	b.now = b.now.Add(3*time.Hour + 30*time.Minute)
	b.restart()
	b.look() // one is under way, and two wait
	if err := b.s.Pause(t.Context(), "none", "x"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("nobody's: %v", err)
	}
	if err := b.s.Pause(t.Context(), "report", "web:owner: on holiday"); err != nil {
		t.Fatal(err)
	}
	if err := b.s.Pause(t.Context(), "report", "again"); !errors.Is(err, store.ErrConflict) || !strings.Contains(err.Error(), "on holiday") {
		t.Errorf("paused twice: %v", err)
	}
	b.answer("done", "one")
	b.restart()
	for range 3 {
		b.pass(time.Hour)
	}
	list, err := b.s.List(t.Context())
	if err != nil || b.submits != 1 || list[0].Paused != "web:owner: on holiday" || !list[0].Next.IsZero() || list[0].Waiting != 0 {
		t.Fatalf("made %d, %+v, %v, runs %s", b.submits, list, err, b.states())
	}
	if err := b.s.Resume(t.Context(), "report"); err != nil {
		t.Fatal(err)
	}
	b.pass(time.Hour)
	if b.submits != 2 {
		t.Errorf("made %d after it was resumed", b.submits)
	}
	b.entries = append(b.entries, hourly(func(e *Entry) { e.Name = "fresh" }))
	b.restart() // paused before the first look
	if err := b.s.Pause(t.Context(), "fresh", "not yet"); err != nil {
		t.Error(err)
	}
}
