//go:build unix

package conform

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/flynnhost/flynn/host/plugin"
	"github.com/flynnhost/flynn/sdk/plugintest/suite"
)

// TestMain plays three parts: the tests, the plugin that they try, and its platform.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if mode, ok := strings.CutPrefix(os.Args[1], "plugin:"); ok {
			play(mode)
			return
		}
		if how, ok := strings.CutPrefix(os.Args[1], "platform:"); ok {
			playStage(how)
			return
		}
	}
	os.Setenv("CGO_ENABLED", "0") // as everything else that the tests build
	goleak.VerifyTestMain(m)
}

// narrowSchema does not take the settings that the actor works with.
const narrowSchema = `{"required":["port"]}`

// makePlugin makes the folder of an actor that does one thing wrong.
func makePlugin(t *testing.T, mode string) string {
	t.Helper()
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	stop := "20s"
	if mode == "hang-shutdown" {
		stop = "2s"
	}
	manifest := fmt.Sprintf(`manifest = 1
name = "actor"
version = "1.0.0"
kinds = ["channel", "tools"]
protocols = [1]
exec = { any = ["bin/actor", "plugin:%s"] }
run = { tls = "none", stop_timeout = %q, start_timeout = "40s" }
config = { secrets = ["token"] }
channel = { edit = true, typing = true, fetch = true, upload = true, senders = "proved", sends_apart = true }
`, mode, stop)
	if mode == "narrow-schema" {
		manifest = strings.Replace(manifest, "config = { ", "config = { schema = \"settings.json\", ", 1)
		if err := os.WriteFile(filepath.Join(dir, "settings.json"), []byte(narrowSchema), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	conform := fmt.Sprintf(`
[fake]
command = [%q, "platform:good"]
redelivers = true
[[calls]]
tool = "echo"
`, self)
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(dir, "bin", "actor")); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{plugin.ManifestName: manifest, FileName: conform} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// A link in the folder is refused, as it should be; the binary is large, so it is linked hard where that works.
	os.Remove(filepath.Join(dir, "bin", "actor"))
	if os.Link(self, filepath.Join(dir, "bin", "actor")) == nil {
		return dir
	}
	text, err := os.ReadFile(self)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "bin", "actor"), text, 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestAGoodPluginPassesEverything(t *testing.T) {
	t.Parallel() // with the plugins of this tree: neither looks at short times
	report, err := Run(t.Context(), Config{Dir: makePlugin(t, "good"), Config: suite.Config{Patience: busy, Slack: busy}})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range report.Results {
		if r.Outcome != suite.Pass {
			t.Errorf("%s: %s: %s", r.Check, r.Outcome, r.Detail)
		}
	}
	for _, c := range broken { // a check that no broken plugin fails may check nothing
		if !slices.ContainsFunc(report.Results, func(r suite.Result) bool { return r.Check == c.check }) {
			t.Errorf("there is no check %q", c.check)
		}
	}
	if n := len(report.Results); n != checks {
		t.Errorf("%d results, want %d", n, checks)
	}
}

// checks is how many there are for a plugin of both kinds.
const checks = 55

// TestAPluginMayWaitForEachAck: one that polls fetches no more until the host has what it fetched.
func TestAPluginMayWaitForEachAck(t *testing.T) {
	t.Parallel()
	report, err := Run(t.Context(), Config{Dir: makePlugin(t, "one-by-one"), Config: suite.Config{Only: []string{"events", "window", "replay", "kill-replay"}, Patience: busy}})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range report.Results {
		if r.Outcome != suite.Pass {
			t.Errorf("%s: %s: %s", r.Check, r.Outcome, r.Detail)
		}
	}
}

// broken are plugins that do one thing wrong each, with the check that is about it and what that says.
var broken = []struct{ mode, check, says string }{
	{"chatty-start", "handshake", `the plugin printed "starting up" on standard output before its handshake`},
	{"crash-start", "handshake", "exit status 3; it wrote: cannot open shared library"},
	{"hang-describe", "handshake", "describe: rpc error: code = DeadlineExceeded"},
	{"needs-environment", "environment", "exit status 4; it wrote: TZ is not set"},
	{"no-health", "health", "unknown service"},
	{"no-controller", "controller", "code = Unimplemented"},
	{"immortal-controller", "controller", "runs 5s after Shutdown of the controller"},
	{"no-lifeline", "lifeline", "after the end of its standard input"},
	{"other-version", "describe", `version is 1.0.0, but the process reports "2.0.0"`},
	{"fickle", "describe", "is not the schema"},
	{"no-grease", "describe-grease", "unknown field 7777"},
	{"hang-shutdown", "shutdown", "shutdown with a grace of 2s: rpc error: code = DeadlineExceeded"},
	{"stay-after-shutdown", "shutdown", "runs 5s after it answered Shutdown"},
	{"large-frames", "frame-limit", "a frame of 1.5 MiB answers OK, want [ResourceExhausted]"},
	{"never-ready", "configure", "did not say STATE_READY within 2s"},
	{"narrow-schema", "schema", "config.schema refuses settings that work"},
	{"no-grease-configure", "configure-grease", "log level 77"},
	{"lenient-keys", "configure-unknown-key", "an unknown key no_such_key: Configure accepts it"},
	{"status-for-fields", "configure-unknown-key", "Configure answers a status instead of field errors"},
	{"panic-type", "configure-wrong-type", "panic: interface conversion"},
	{"lenient-secrets", "configure-missing-secret", "without the secret token: Configure accepts it"},
	{"panic-garbage", "configure-garbage", "the process ended (exit status 2)"},
	{"tells-secret", "secret-in-error", "stands in the answer"},
	{"no-status", "status", "did not say STATE_READY"},
	{"deaf", "events", "the fake platform has a message, but no event came within 10s"},
	{"seq-from-zero", "events", `has the number 0, want 1`},
	{"same-ids", "events", `two events have the id "e"`},
	{"no-sender", "events", "event 1 is malformed: sender.id is empty"},
	{"panic-first-frame", "receive-first-frame", "the process ended (exit status 2)"},
	{"any-first-frame", "receive-first-frame", "a stream that begins with an ack answers"},
	{"no-grease-frame", "receive-grease", "a frame of an unknown kind ends the stream"},
	{"over-window", "window", "with a window of 1 event 2 came before event 1 was acked"},
	{"forgets-sent", "replay", "was not acked and does not come again"},
	{"two-streams", "second-stream", "the first stream is open 10s after a second one has begun"},
	{"crash-rejected", "rejected", "the process ended (exit status 2)"},
	{"rejected-again", "rejected", "event 1 was rejected, and the next stream begins with event 1"},
	{"any-ack", "ack-beyond", "is accepted"},
	{"panic-ack", "ack-beyond", "panic: index out of range"},
	{"acks-early", "kill-replay", "the next process does not deliver it"},
	{"unstable-ids", "kill-replay", "ids have to be stable"},
	{"no-lease-first", "lease-first", "the host has given no lease: event 1"},
	{"lease-from-answer", "lease-late", "its lease had expired when the answer came: event 1"},
	{"listens-on", "lease-expired", "the lease had expired for 1s when the message was written: event 2"},
	{"sends-on", "lease-expired", "after the lease: the outcome is OUTCOME_SENT"},
	{"acks-expired", "lease-successor", "the successor does not get it"},
	{"leases-once", "lease-again", "does not come with the next one"},
	{"receives-early", "lease-sending", "the host lets it send and not receive: event "},
	{"sends-late", "lease-sending", "the outcome is OUTCOME_NOT_SENT (there is no lease), want OUTCOME_SENT"},
	{"any-epoch", "lease-epoch", "a lease of epoch 4 after one of epoch 5 is accepted"},
	{"eager", "before-configure", "Send before Configure answers OK, want [FailedPrecondition]"},
	{"pretends-to-send", "send", "but the fake platform shows nothing"},
	{"sends-twice", "send-duplicate", "the outcome is OUTCOME_SENT, want OUTCOME_DUPLICATE"},
	{"shows-twice", "send-duplicate", "the platform shows the message 2 times"},
	{"no-grease-send", "send-grease", "unknown format"},
	{"crash-cancel", "send-cancel", "the process ended (exit status 2)"},
	{"undeclared-react", "capabilities", "channel.react is false in plugin.toml and Describe, but the call answers OK"},
	{"edits-stale", "edit-stale", "revision 4 was applied after that to revision 5"},
	{"types-for-ever", "typing", "one call shows typing"},
	{"large-chunks", "fetch", "a chunk has 524288 bytes, at most 262144"},
	{"short-media", "fetch", "the head says 525289 bytes, but 525288 arrived"},
	{"crash-fetch", "fetch-unknown", "the process ended (exit status 2)"},
	{"no-handle", "upload", "the answer has no handle"},
	{"broken-schema", "tools-list", "the input schema of tool echo is not a JSON object"},
	{"tool-twice", "tools-list", "tool echo is there twice"},
	{"silent-watch", "tools-watch", "no revision came"},
	{"no-result", "call", "the call ended without a result"},
	{"progress-last", "call", "another frame after the result"},
	{"any-tool", "call-unknown", "the call succeeds"},
	{"any-arguments", "call-arguments", "the call succeeds"},
	{"crash-cancel-call", "call-cancel", "the process ended (exit status 2)"},
}

// busy is what a working plugin gets on a machine with other work.
const busy = 45 * time.Second

// timesWith are those in which one thing that is wrong shows: short where that is waited for in vain, and long where it comes.
func timesWith(mode string) (c suite.Config) {
	c.Patience, c.Slack = 10*time.Second, busy
	switch mode {
	case "never-ready", "no-status":
		c.Patience = time.Second
	case "hang-describe", "immortal-controller", "no-lifeline", "stay-after-shutdown":
		c.Slack = 3 * time.Second
	case "over-window", "no-grease-frame", "types-for-ever", "forgets-sent":
		c.Quiet = busy
	}
	c.Limit = 5 * time.Minute
	return c
}

// TestBrokenPlugins tries them side by side, since most of the time is spent on waiting for what does not come.
func TestBrokenPlugins(t *testing.T) {
	reports, room := make([]suite.Report, len(broken)), make(chan struct{}, 12)
	var trying sync.WaitGroup
	for i, c := range broken {
		dir := makePlugin(t, c.mode)
		trying.Go(func() {
			room <- struct{}{}
			defer func() { <-room }()
			config := Config{Dir: dir, Config: timesWith(c.mode)}
			config.Only = []string{c.check}
			var err error
			if reports[i], err = Run(t.Context(), config); err != nil {
				t.Errorf("%s: %v", c.mode, err)
			}
		})
	}
	trying.Wait()
	for i, c := range broken {
		t.Run(c.mode, func(t *testing.T) {
			for _, r := range reports[i].Results {
				if r.Outcome != suite.Fail || !strings.Contains(r.Detail, c.says) || r.Next == "" {
					t.Errorf("%s: %s: %q, next: %q; want %q in it", r.Check, r.Outcome, r.Detail, r.Next, c.says)
				}
			}
		})
	}
}

func TestWhatCannotBeTriedIsSkipped(t *testing.T) {
	dir := makePlugin(t, "good")
	write := func(text string) {
		if err := os.WriteFile(filepath.Join(dir, FileName), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("")
	report, err := Run(t.Context(), Config{Dir: dir, Config: suite.Config{Only: []string{"kill-replay", "call", "configure-missing-secret"}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range report.Results {
		if r.Outcome != suite.Skip || r.Detail == "" {
			t.Errorf("%s: %s: %q", r.Check, r.Outcome, r.Detail)
		}
	}
	write(`[fake]
command = ["` + os.Args[0] + `", "platform:broken"]`)
	report, err = Run(t.Context(), Config{Dir: dir, Config: suite.Config{Only: []string{"send"}}})
	if err != nil || report.Results[0].Outcome != suite.Fail || !strings.Contains(report.Results[0].Detail, "the stage is not built") {
		t.Errorf("got %+v, %v", report, err)
	}
}

func TestNothingToTry(t *testing.T) {
	dir := makePlugin(t, "good")
	if _, err := Run(t.Context(), Config{Dir: dir, Config: suite.Config{Only: []string{"no-such-check"}}}); err == nil || !strings.Contains(err.Error(), "there is no check") {
		t.Errorf("got %v", err)
	}
	if _, err := Run(t.Context(), Config{Dir: t.TempDir()}); err == nil {
		t.Error("an empty folder can be tried")
	}
	if err := os.WriteFile(filepath.Join(dir, FileName), []byte("[setings]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), Config{Dir: dir}); err == nil || !strings.Contains(err.Error(), "unknown key setings") {
		t.Errorf("got %v", err)
	}
}

func TestEveryCheckHasItsLimit(t *testing.T) {
	began := time.Now()
	report, err := Run(t.Context(), Config{Dir: makePlugin(t, "never-ready"), Config: suite.Config{Only: []string{"status"}, Limit: 500 * time.Millisecond}})
	if err != nil || report.Results[0].Outcome != suite.Fail || !strings.Contains(report.Results[0].Detail, "did not end within 500ms") {
		t.Errorf("got %+v, %v", report, err)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestTheRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, Config{Dir: makePlugin(t, "good"), Config: suite.Config{Only: []string{"send"}}}); err == nil {
		t.Error("a run that was cancelled has no error")
	}
}

func TestFilesAreReadStrictly(t *testing.T) {
	for _, c := range []struct{ name, text, unknown string }{
		{"tables of the plugin", "[settings]\nvariables = { A = \"b\" }\n[settings.more.still]\nx = 1\n[[calls]]\narguments = { a = { b = 1 } }\n", ""},
		{"a table", "[setting]\n", "setting"},
		{"a key of the platform", "[fake]\nredeliver = true\n", "fake.redeliver"},
		{"a key of a call", "[[calls]]\ntools = \"x\"\n", "calls.tools"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := parseFile([]byte(c.text))
			if c.unknown == "" && (err != nil || len(f.Settings) != 2 || f.Calls[0].Arguments["a"] == nil) {
				t.Errorf("got %+v, %v", f, err)
			}
			if c.unknown != "" && (err == nil || !strings.Contains(err.Error(), "unknown key "+c.unknown)) {
				t.Errorf("got %v, want that %s is unknown", err, c.unknown)
			}
		})
	}
}

func FuzzFile(f *testing.F) {
	f.Add([]byte("[fake]\ncommand = [\"x\"]\n[[calls]]\ntool = \"echo\"\n"))
	f.Add([]byte("settings = 1"))
	f.Fuzz(func(t *testing.T, text []byte) { _, _ = parseFile(text) })
}
