package hostlog_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flynnhost/flynn/host/internal/redact"
	"github.com/flynnhost/flynn/host/observe/hostlog"
)

func open() (*hostlog.Log, *slog.Logger, *bytes.Buffer) {
	var printed bytes.Buffer
	kept := hostlog.New(slog.NewTextHandler(&printed, &slog.HandlerOptions{Level: slog.LevelWarn}))
	return kept, slog.New(kept), &printed
}

func messages(records []hostlog.Record) (all []string) {
	for _, r := range records {
		all = append(all, r.Message)
	}
	return all
}

func TestFilters(t *testing.T) {
	kept, log, printed := open()
	log.Info("one", "channel", "irc", "session", "irc:a:main")
	log.With("turn", "t1").Warn("two", "session", "irc:b:main", "error", errors.New("broke"))
	log.Debug("unseen")
	log.WithGroup("g").Error("three", "instance", "irc", slog.Group("inner", "k", 7))
	for name, test := range map[string]struct {
		filter hostlog.Filter
		want   string
	}{
		"all":     {hostlog.Filter{}, "one two three"},
		"level":   {hostlog.Filter{Level: slog.LevelWarn}, "two three"},
		"channel": {hostlog.Filter{Channel: "irc"}, "one"}, // of a group is another key
		"session": {hostlog.Filter{Session: "irc:b:main"}, "two"},
		"turn":    {hostlog.Filter{Turn: "t1"}, "two"},
		"area":    {hostlog.Filter{Area: "observe"}, "one two three"},
		"no area": {hostlog.Filter{Area: "channel"}, ""},
		"after":   {hostlog.Filter{After: 2}, "three"},
		"earlier": {hostlog.Filter{After: 99}, "one two three"},
		"limit":   {hostlog.Filter{Limit: 2}, "two three"},
	} {
		if got := strings.Join(messages(kept.Records(test.filter)), " "); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
	last := kept.Records(hostlog.Filter{After: 2})[0]
	want := []hostlog.Attr{{Key: "g.instance", Value: "irc"}, {Key: "g.inner.k", Value: "7"}}
	if diff := cmp.Diff(want, last.Attrs); diff != "" {
		t.Errorf("attributes (-want +got):\n%s", diff)
	}
	if strings.Contains(printed.String(), "one") || !strings.Contains(printed.String(), "g.inner.k=7") {
		t.Errorf("printed %s", printed)
	}
}

func TestSecretsStayHidden(t *testing.T) {
	kept, log, _ := open()
	log.Warn("call", "key", redact.Secret("hunter22"), "error", fmt.Errorf("with %v", redact.Secret("hunter22")))
	text, err := json.Marshal(kept.Records(hostlog.Filter{}))
	if err != nil || bytes.Contains(text, []byte("hunter22")) {
		t.Errorf("kept %s, %v", text, err)
	}
}

func TestBounds(t *testing.T) {
	kept, log, _ := open()
	for i := range 2500 {
		log.Info(strings.Repeat("ä", 2000), "i", i, "long", strings.Repeat("x", 1<<20))
	}
	all := kept.Records(hostlog.Filter{})
	if len(all) != 2000 || all[0].Seq != 501 || all[1999].Get("i") != "2499" {
		t.Errorf("%d records from %d", len(all), all[0].Seq)
	}
	for _, text := range []string{all[0].Message, all[0].Get("long")} {
		if len(text) > 3<<10 || strings.ToValidUTF8(text, "") != text {
			t.Errorf("kept %d bytes", len(text))
		}
	}
}

func TestRepeats(t *testing.T) {
	kept, log, _ := open()
	for range 3 {
		log.Warn("the model is busy", "error", "429")
	}
	log.Error("once")
	for range 5 {
		log.Info("often, and fine")
	}
	for range 2 {
		log.Warn("connection ended", "instance", "irc", slog.Group("fields", "error", "refused"))
		log.Warn("connection ended", "channel", "telegram")
	}
	two := kept.Repeats(time.Now().Add(-time.Hour), 2)
	if len(two) != 3 || two[1].Instance != "irc" || two[1].Detail != "refused" || two[2].Instance != "telegram" {
		t.Errorf("repeats %+v", two)
	}
	got := kept.Repeats(time.Now().Add(-time.Hour), 3)
	if len(got) != 1 || got[0].Count != 3 || got[0].Detail != "429" || got[0].Area != "observe" {
		t.Errorf("repeats %+v", got)
	}
	if got := kept.Repeats(time.Now().Add(time.Hour), 1); slices.ContainsFunc(got, func(hostlog.Repeat) bool { return true }) {
		t.Errorf("repeats of the future: %+v", got)
	}
}
