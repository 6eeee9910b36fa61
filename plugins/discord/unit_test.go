package main

import (
	"github.com/flynnhost/flynn/sdk/channel"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/BurntSushi/toml"
	"github.com/bwmarrin/discordgo"
	"github.com/google/go-cmp/cmp"
)

func body(s string) io.ReadCloser { return io.NopCloser(strings.NewReader(s)) }

func TestDescriptionIsThatOfTheManifest(t *testing.T) {
	var m struct {
		Name, Version string
		Channel       map[string]any
	}
	if _, err := toml.DecodeFile("plugin.toml", &m); err != nil {
		t.Fatal(err)
	}
	d := newSetting(t).starting(nil)
	want := map[string]any{"max_text": int64(maxText), "max_attachment": "10MiB", "min_edit_interval": "1s", "senders": "proved"}
	for _, ability := range d.Abilities() {
		want[ability] = true
	}
	about := (&plugin{}).Describe()
	for name, has := range map[string]bool{
		"idempotent": about.Capabilities.Idempotent, "exclusive": about.Capabilities.Exclusive, "sends_apart": about.Capabilities.SendsApart, "threads": about.Capabilities.Threads,
		"markdown": about.Capabilities.Markdown, "buttons": about.Capabilities.Buttons,
	} {
		if has {
			want[name] = true
		}
	}
	if diff := cmp.Diff(want, m.Channel); diff != "" || m.Name != about.Name || m.Version != about.Version {
		t.Errorf("manifest of %s %s (-described +declared):\n%s", m.Name, m.Version, diff)
	}
	if about.Capabilities.Senders != channel.SendersProved || about.Capabilities.MaxAttachmentBytes != 10<<20 || about.Capabilities.MinEditInterval != time.Second || about.Capabilities.MaxTextRunes != maxText {
		t.Errorf("described as %+v", about.Capabilities)
	}
}

func TestNonce(t *testing.T) {
	a, b := nonce("key", 0), nonce("key", 1)
	if len(a) != 25 || a == b || a != nonce("key", 0) {
		t.Errorf("%q and %q", a, b)
	}
}

func TestRoute(t *testing.T) {
	for in, want := range map[string]string{
		"/channels/1/messages":                     "GET/channels/1/messages",
		"/channels/1/messages?after=3":             "GET/channels/1/messages",
		"/channels/1/messages/2":                   "GET/channels/1/messages/*",
		"/channels/1/messages/2/reactions/%F0/@me": "GET/channels/1/messages/*/reactions/*/@me",
	} {
		if got := route("GET", in); got != want {
			t.Errorf("%s is %s, want %s", in, got, want)
		}
	}
}

func TestPositionIsNeverAhead(t *testing.T) {
	p, err := loadPosition(channel.Config{StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	p.begin(session{ID: "s", Self: "1"})
	if got := p.resume(); got != (session{}) {
		t.Errorf("a session that has not begun is resumed: %+v", got)
	}
	seq := func(want int64) {
		t.Helper()
		if got := p.resume().Seq; got != want {
			t.Errorf("number is %d, want %d", got, want)
		}
	}
	p.passed(1)
	seq(1)
	p.handed(2)
	p.passed(3)
	p.handed(4)
	p.passed(5)
	seq(1)
	p.acked("s", 2, "c", "100", false)
	seq(2)
	p.acked("s", 4, "c", "99", false)
	seq(5)
	if last, _ := p.place("c"); last != "100" {
		t.Errorf("place is %s", last)
	}
	if err := p.save(); err != nil {
		t.Fatal(err)
	}
	again, err := loadPosition(p.config)
	if last, _ := again.place("c"); err != nil || again.resume() != p.resume() || last != "100" {
		t.Errorf("read back: %+v, %v", again, err)
	}
}

func TestABrokenPositionIsSaid(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "position.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := loadPosition(channel.Config{StateDir: dir}); err == nil || !strings.Contains(err.Error(), "remove") {
		t.Errorf("got %v", err)
	}
}

func TestPlacesAreBounded(t *testing.T) {
	p, _ := loadPosition(channel.Config{StateDir: t.TempDir()})
	for i := range maxPlaces + 10 {
		p.start("c"+itoa(int64(i)), itoa(int64(1000+i)))
	}
	if n := len(p.kept.Places); n > maxPlaces {
		t.Errorf("%d places", n)
	}
	if _, ok := p.place("c" + itoa(maxPlaces+9)); !ok {
		t.Error("the youngest is gone")
	}
}

func FuzzReadable(f *testing.F) {
	f.Add("<@1>, hi <@2> <:x:3> <@!1>")
	f.Add("<@1><@1>")
	f.Fuzz(func(t *testing.T, text string) {
		out, entities := readable(text, "1", []*discordgo.User{{ID: "2", Username: "ann"}, nil})
		for _, e := range entities {
			if e.Offset < 0 || e.Length < 0 || e.Offset+e.Length > len(out) {
				t.Errorf("%q has the entity %+v", out, e)
			}
		}
	})
}

func FuzzAnswers(f *testing.F) {
	f.Add(`{"retry_after": 1.5, "global": true}`, "3")
	f.Add(`{"retry_after": 1e300}`, "NaN")
	f.Fuzz(func(t *testing.T, text, header string) {
		if after, ok := seconds(header); ok && after < 0 {
			t.Errorf("%q is %v", header, after)
		}
		c := newClient(settings{})
		if err, ok := c.limited("x", nil, []byte(text)).(*limitedError); !ok || err.after < 0 {
			t.Errorf("%q is %v", text, err)
		}
		_ = refused(400, []byte(text)).Error()
	})
}
