package livetest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/internal/hosttest"
	"github.com/flynnhost/flynn/plugins/telegram/telegramtest"
	"github.com/flynnhost/flynn/sdk/plugintest/fake"
)

// change is one replacement in a source file.
type change struct{ file, old, new string }

// versionByArgument makes a plugin say that it is the version that its last argument names.
func versionByArgument(file string) []change {
	return []change{
		{file, `Version: "0.1.0"`, `Version: started.Args[len(started.Args)-1]`},
		{file, "import (\n", "import (\n\tstarted \"os\"\n"},
		// The version 0.9.0 never gets ready.
		{file, "c channel.Config) error {\n", "c channel.Config) error {\n\tif started.Args[len(started.Args)-1] == \"0.9.0\" {\n\t\tselect {}\n\t}\n"},
	}
}

// buildChanged builds a program of this tree with changes that stand in no file of it.
func buildChanged(t testing.TB, out, pkg string, changes []change) {
	t.Helper()
	dir := t.TempDir()
	replace := map[string]string{}
	for _, c := range changes {
		from, err := filepath.Abs(filepath.Join(root, pkg, c.file))
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, c.file)
		source := replace[from]
		if source == "" {
			source = from
		}
		text, err := os.ReadFile(source)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Count(string(text), c.old) != 1 {
			t.Fatalf("%s has %q other than once", c.file, c.old)
		}
		if err := os.WriteFile(to, []byte(strings.Replace(string(text), c.old, c.new, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[from] = to
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "build", "-buildvcs=false", "-overlay", filepath.Join(dir, "overlay.json"), "-o", out+"/", "./"+pkg)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", pkg, err, text)
	}
}

// release writes the folder of a version of a plugin, with the program that buildChanged has built.
func (s *site) release(pkg, version string) (dir string) {
	s.t.Helper()
	name := filepath.Base(pkg)
	dir = filepath.Join(s.dir, "releases", name+"-"+version)
	if err := os.MkdirAll(filepath.Join(dir, "bin"), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Link(filepath.Join(s.dir, "built", name), filepath.Join(dir, "bin", name)); err != nil {
		s.t.Fatal(err)
	}
	if err := describe(dir, pkg); err != nil {
		s.t.Fatal(err)
	}
	manifest, err := os.ReadFile(filepath.Join(dir, "plugin.toml"))
	if err != nil {
		s.t.Fatal(err)
	}
	text := regexp.MustCompile(`(?m)^version\s*=.*$`).ReplaceAllString(string(manifest), fmt.Sprintf("version = %q", version))
	text = regexp.MustCompile(`(?m)^exec\s*=.*$|^\[exec\]\n([a-z0-9-]+ = .*\n)+`).ReplaceAllString(text, "")
	text = fmt.Sprintf("exec = { any = [\"bin/%s\", %q] }\n", name, version) + text
	limit := "1m"
	if version == "0.9.0" {
		limit = "1s"
	}
	text = startTimeout.ReplaceAllString(text, "")
	if !strings.Contains(text, "[run]\n") {
		text += "\n[run]\n"
	}
	text = strings.Replace(text, "[run]\n", fmt.Sprintf("[run]\nstart_timeout = %q\n", limit), 1)
	if err := os.WriteFile(filepath.Join(dir, "plugin.toml"), []byte(text), 0o644); err != nil {
		s.t.Fatal(err)
	}
	return dir
}

// traffic has people write over a channel, one message after the other, and notes when each was answered.
type traffic struct {
	t   testing.TB
	say func(n int, text string)

	mu       sync.Mutex
	said     int
	answers  map[string]int // by word
	doubtful int            // answers with a word that they may be duplicates
	times    []time.Time    // of answers
}

var trafficWord = regexp.MustCompile(`w[0-9]+x`)

// answered takes one answer. Messages that came together are answered together.
func (f *traffic) answered(text string, doubtful bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if doubtful {
		f.doubtful++
	}
	for _, word := range trafficWord.FindAllString(text, -1) {
		f.answers[word]++
	}
	f.times = append(f.times, time.Now())
}

// mostWaiting is how many messages wait for an answer before people write no more. A busy machine answers fewer than they would write.
const mostWaiting = 250

// flow lets messages flow until ctx ends.
func (f *traffic) flow(ctx context.Context, each time.Duration) {
	tick := time.NewTicker(each)
	defer tick.Stop()
	for n := 0; ; {
		select {
		case <-tick.C:
			f.mu.Lock()
			waiting := n - len(f.answers)
			f.mu.Unlock()
			if waiting >= mostWaiting {
				continue
			}
			f.say(n, fmt.Sprintf("w%dx", n))
			n++
			f.mu.Lock()
			f.said = n
			f.mu.Unlock()
		case <-ctx.Done():
			return
		}
	}
}

// begun waits until some of the traffic was answered.
func (f *traffic) begun(s *site) {
	s.t.Helper()
	f.mu.Lock()
	before := len(f.answers)
	f.mu.Unlock()
	s.eventually("messages are answered", func() error {
		f.mu.Lock()
		defer f.mu.Unlock()
		if len(f.answers) < before+10 {
			return fmt.Errorf("%d of %d", len(f.answers), f.said)
		}
		return nil
	})
}

// settled waits until every message was answered, and checks that each was answered once.
func (f *traffic) settled(s *site, name string) {
	s.t.Helper()
	s.eventually("every message of "+name+" is answered", func() error {
		f.mu.Lock()
		defer f.mu.Unlock()
		if len(f.answers) < f.said {
			return fmt.Errorf("%d of %d", len(f.answers), f.said)
		}
		return nil
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	for word, times := range f.answers {
		if times != 1 {
			s.t.Errorf("%s: %s was answered %d times", name, word, times)
		}
	}
	if f.doubtful > 0 {
		s.t.Errorf("%s: %d answers say that they may be duplicates", name, f.doubtful)
	}
}

// gap is the longest time without an answer between two moments.
func (f *traffic) gap(begin, end time.Time) (longest time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	last := begin
	for _, at := range append(slices.Clone(f.times), end) {
		if at.After(begin) && !at.After(end) {
			longest, last = max(longest, at.Sub(last)), at
		}
	}
	return longest
}

// depot is a host with an exclusive channel, Telegram with the offset of its updates as its cursor, and a parallel one.
type depot struct {
	*site
	flows map[string]*traffic // by plugin
	stop  func()              // ends what people say
}

const depotConfig = `
[agent_configs.helper]
[routing]
default_agent = "helper"
[models.default]
provider = "demo"
[access]
mode = "open"
rate_per_minute = 100_000
conversation_rate_per_minute = 100_000
unknown_rate_per_minute = 100_000
[gateway]
listen = "127.0.0.1:%PORT%"
[store]
dir = "%DIR%/store"
[plugins]
dir = "%DIR%/plugins"
[sessions]
private = "conversation"
[channels.telegram]
plugin = "telegram"
token_env = "FLYNN_LIVETEST_TELEGRAM"
api_url = "URL"
stream = false
[channels.lines]
plugin = "lines-channel"
address = "ADDRESS"
`

// packages of the two plugins, by name.
var packages = map[string]string{"telegram": "plugins/telegram", "lines-channel": "examples/lines-channel"}

func newDepot(t testing.TB) *depot {
	t.Helper()
	tg := telegramtest.Start(t)
	lines := &traffic{t: t, answers: map[string]int{}}
	platform, err := hosttest.NewPlatform(hosttest.PlatformConfig{Shown: func(r hosttest.Reply) { lines.answered(r.Text, r.Marked) }})
	if err != nil {
		t.Fatal(err)
	}
	lines.say = func(n int, text string) {
		platform.Post(hosttest.Event{ID: text, Conversation: fmt.Sprint("c", n%50), Sender: "ann", Text: text})
	}
	var chats []*telegramtest.Chat
	for n := range 50 {
		chats = append(chats, tg.Private(fmt.Sprint("Ann", n)))
	}
	updates := &traffic{t: t, answers: map[string]int{}, say: func(n int, text string) { chats[n%len(chats)].Say(text) }}
	tg.Watch(func(r fake.Report) {
		if r.Shown != nil {
			updates.answered(r.Shown.Text, strings.Contains(r.Shown.Text, "possibly again"))
		}
	})
	d := &depot{flows: map[string]*traffic{"telegram": updates, "lines-channel": lines}}
	d.site = newSite(t, strings.NewReplacer("URL", tg.URL, "ADDRESS", platform.Address()).Replace(depotConfig))
	buildChanged(t, filepath.Join(d.dir, "built"), packages["telegram"], versionByArgument("channel.go"))
	buildChanged(t, filepath.Join(d.dir, "built"), packages["lines-channel"], versionByArgument("main.go"))
	for _, pkg := range packages {
		d.mustFlynn("plugin", "install", d.release(pkg, "0.1.0"))
	}
	d.start()

	ctx, cancel := context.WithCancel(context.Background())
	var talking sync.WaitGroup
	serving, end := context.WithCancel(context.Background())
	var served sync.WaitGroup
	served.Go(func() { _ = platform.Run(serving) })
	for _, f := range d.flows {
		talking.Go(func() { f.flow(ctx, 20*time.Millisecond) })
	}
	d.stop = func() { cancel(); talking.Wait() }
	t.Cleanup(func() { d.stop(); end(); served.Wait() })
	return d
}

// moves runs a command that moves a plugin to another version, and returns what it said and how long nothing was answered meanwhile.
func (d *depot) moves(name string, args ...string) (said string, gap time.Duration, err error) {
	d.t.Helper()
	f := d.flows[name]
	f.begun(d.site)
	begin := time.Now()
	_, said, err = d.flynn("", args...)
	f.begun(d.site) // the answers that came after it end the gap
	end := time.Now()
	return said, f.gap(begin, end), err
}

// runs checks that the only instance of a plugin runs in a version, and waits until it is ready.
func (d *depot) runs(name, version string) {
	d.t.Helper()
	type plugin struct {
		Name, Version string
		Instances     []gateway.PluginStatus
	}
	d.eventually(name+" is ready", func() error {
		list := run[[]plugin](d.site, "plugin", "list")
		n := slices.IndexFunc(list, func(p plugin) bool { return p.Name == name })
		if n < 0 {
			d.t.Fatalf("%s is not in the list", name)
		}
		p := list[n]
		if p.Version != version || len(p.Instances) != 1 || p.Instances[0].Version != version {
			d.t.Fatalf("%s should run in version %s: %+v", name, version, p)
		}
		if p.Instances[0].State != "ready" {
			return fmt.Errorf("it is %+v", p)
		}
		return nil
	})
}

// TestUpgradesWhileMessagesFlow upgrades both channels from another process, offers each a version that never gets ready, and rolls
// the exclusive one back. Nothing is lost and nothing is answered twice.
func TestUpgradesWhileMessagesFlow(t *testing.T) {
	t.Parallel()
	d := newDepot(t)
	for name, pkg := range packages {
		next, stuck := d.release(pkg, "0.2.0"), d.release(pkg, "0.9.0")
		for _, step := range []struct {
			what, version string
			args          []string
			refused       string
			skip          bool // each step takes the seconds in which a version proves itself
		}{
			{"upgrade", "0.2.0", []string{"plugin", "upgrade", name, next}, "", false},
			{"upgrade to one that is not ready in time", "0.2.0", []string{"plugin", "upgrade", name, stuck}, "plugin " + name + " stays at 0.2.0, which keeps running: version 0.9.0: ", false},
			{"rollback", "0.1.0", []string{"plugin", "rollback", name}, "", name != "telegram"},
		} {
			if step.skip {
				continue
			}
			said, gap, err := d.moves(name, step.args...)
			if (err != nil) != (step.refused != "") || !strings.Contains(said, step.refused) {
				t.Errorf("%s, %s: %v: %s", name, step.what, err, said)
			}
			d.runs(name, step.version)
			t.Logf("%s, %s: at most %s without an answer", name, step.what, gap.Round(time.Millisecond))
		}
	}
	d.stop()
	for name, f := range d.flows {
		f.settled(d.site, name)
		t.Logf("%s: %d messages were answered once each", name, f.said)
	}
}

// BenchmarkUpgrade prints for how long nobody is answered while a channel of the running program moves to another version.
func BenchmarkUpgrade(b *testing.B) {
	d := newDepot(b)
	for _, c := range []struct{ kind, plugin string }{{"exclusive", "telegram"}, {"parallel", "lines-channel"}} {
		next := d.release(packages[c.plugin], "0.2.0")
		b.Run(c.kind, func(b *testing.B) {
			var gaps []time.Duration
			for b.Loop() {
				for _, args := range [][]string{{"plugin", "upgrade", c.plugin, next}, {"plugin", "rollback", c.plugin}} {
					said, gap, err := d.moves(c.plugin, args...)
					if err != nil {
						b.Fatal(err, said)
					}
					gaps = append(gaps, gap)
				}
			}
			slices.Sort(gaps)
			b.ReportMetric(float64(gaps[len(gaps)/2].Microseconds())/1000, "ms-gap-p50")
			b.ReportMetric(float64(gaps[len(gaps)-1].Microseconds())/1000, "ms-gap-max")
		})
	}
	d.stop()
	for name, f := range d.flows {
		f.settled(d.site, name)
	}
}
