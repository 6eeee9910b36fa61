package host

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/admin"
	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model/usage"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/fleet/specs"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
	"github.com/flynnhost/flynn/sdk/need"
)

// pretended is the program of another agent in the language of the smallest shell: it keeps what it was told by session, speaks JSON, and
// does as it is told.
const pretended = `
prompt=$(cat)
mkdir -p "$HOME/sessions"
[ "$2" = new ] || [ -e "$HOME/sessions/$1" ] || { echo "no such session: $1" >&2; exit 3; }
echo "$prompt" >>"$HOME/sessions/$1"
echo '{"type":"delta","text":"let me "}'
echo '{"type":"delta","text":"think"}'
case "$prompt" in
*hang*) echo >"$PWD/hangs"; (trap "" TERM; sleep 1000) & sleep 1000 ;;
*forget*) rm -r "$HOME/sessions" ;;
*break*) echo "it broke" >&2; exit 5 ;;
*key*) env >"$PWD/env" ;;
esac
echo '{"type":"end","result":"message '$(grep -c . "$HOME/sessions/$1")' in '$PWD': '"$(tail -n 1 "$HOME/sessions/$1")"'","usage":{"in":7,"out":3,"usd":0.25}}'
`

// cliHome is a host with the agent main of kind cli.
type cliHome struct {
	t    *testing.T
	dir  string
	host *Host
	end  func()
	sent int
}

// cliHost starts a host. more is put into the agent's [cli].
func cliHost(t *testing.T, dir, more string, adjust ...func(*Config)) *cliHome {
	t.Helper()
	return startCLI(t, dir, fmt.Sprintf(`
command = ["sh", "-c", '''%s''', "pretended", "{session}", "new"]
resume = ["sh", "-c", '''%s''', "pretended", "{session}", "old"]
session_from = "given"
output = "json-lines"
fields = { delta = ["text type=delta"], answer = ["result type=end"], input = ["usage.in"], output = ["usage.out"], cost = ["usage.usd"] }
unknown_session = ["no such session"]
timeout_seconds = 120
%s
`, pretended, pretended, more), adjust...)
}

// startCLI starts a host with such an agent.
func startCLI(t *testing.T, dir, program string, adjust ...func(*Config)) *cliHome {
	t.Helper()
	return runCLI(t, dir, fmt.Sprintf(`
[store]
dir = %q
[gateway]
listen = "127.0.0.1:0"
[routing]
default_agent = "main"
[sandbox]
enabled = true
image = %q
mount_roots = [%q]
[agent_configs.main]
kind = "cli"
sandbox = true
[agent_configs.main.cli]
%s
`, filepath.Join(dir, "s"), sandboxtest.Image, filepath.Join(dir, "login"), program), adjust...)
}

// runCLI runs a host.
func runCLI(t *testing.T, dir, text string, adjust ...func(*Config)) *cliHome {
	t.Helper()
	path := filepath.Join(dir, "flynn.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c := Config{Path: path, Getenv: os.Getenv, Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	for _, f := range adjust {
		f(&c)
	}
	h, err := New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx) }()
	eventually(t, "the host is ready", h.ready.Load) // before that it is still listing the messages that it has
	s := &cliHome{t: t, dir: dir, host: h}
	var over bool
	s.end = func() {
		if over {
			return
		}
		over = true
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(s.end)
	return s
}

// sweepVolumes leaves the engine as it was.
func (s *cliHome) sweepVolumes(h sandboxtest.Host) {
	s.t.Cleanup(func() {
		s.end()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		left, err := h.Driver.ListVolumes(ctx, s.host.fleet.Instance())
		if err != nil {
			s.t.Error(err)
		}
		for _, v := range left {
			if err := h.Driver.RemoveVolume(ctx, v.Name); err != nil {
				s.t.Error(err)
			}
		}
	})
}

// say sends a message of the owner's at the web page.
func (s *cliHome) say(text string) (event string) {
	s.t.Helper()
	s.sent++
	event = fmt.Sprintf("%d-%d", time.Now().UnixNano(), s.sent)
	err := s.host.backend().Conversations.Submit(s.t.Context(), message.Message{
		Channel: gateway.ChannelWeb, EventID: event, Text: text, Conversation: message.Conversation{ID: "c", Kind: message.DM},
		Sender: message.Sender{ID: "me"}, Addressed: true,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return event
}

// ask sends a message and waits for the answer to it.
func (s *cliHome) ask(text string) gateway.Entry {
	s.t.Helper()
	return s.answer(s.say(text))
}

func (s *cliHome) answer(event string) (last gateway.Entry) {
	s.t.Helper()
	eventually(s.t, "the answer to "+event, func() bool {
		list, err := s.host.backend().Conversations.History(s.t.Context(), gateway.ChannelWeb, "c", 100)
		asked := false
		for _, e := range list {
			asked = asked || e.Key == event
			if asked && e.From == gateway.FromAgent && e.Final() {
				last = e
				return true
			}
		}
		return err != nil
	})
	return last
}

func (s *cliHome) workspace() string {
	return s.host.fleet.Dir("web:c:main")
}

func (s *cliHome) expect(got gateway.Entry, want ...string) {
	s.t.Helper()
	for _, w := range want {
		if !strings.Contains(got.Text, w) {
			s.t.Errorf("the answer is %q, want %q", got.Text, w)
		}
	}
}

func TestAgentOfKindCLI(t *testing.T) {
	engine := sandboxtest.Engine(t)
	dir := t.TempDir()
	s := cliHost(t, dir, "")
	s.sweepVolumes(engine)
	_, events, leave := s.host.broker.Watch(gateway.ChannelWeb, "c")
	defer leave()

	s.expect(s.ask("first"), "message 1 in /workspace: first")
	var shown strings.Builder
	for len(events) > 0 {
		if e := <-events; e.Kind == message.TextDelta {
			shown.WriteString(e.Text)
		}
	}
	if shown.String() != "let me think" {
		t.Errorf("shown while it ran: %q", shown.String())
	}
	s.expect(s.ask("second"), "message 2 in /workspace: second")
	s.expect(s.ask("please break"), "exit code 5", "it broke")
	s.expect(s.ask("third"), "message 4 in")

	s.end() // a new host, and a new container, go on with the session
	s = cliHost(t, dir, "")
	s.expect(s.ask("fourth"), "message 5 in /workspace: fourth")
	t.Run("a session that the program has forgotten", func(t *testing.T) {
		s.expect(s.ask("forget everything"), "message")
		got := s.ask("anew")
		s.expect(got, "no longer knows our earlier conversation", "message 1 in /workspace: anew")
		s.expect(s.ask("again"), "message 2 in")
	})
	t.Run("stop ends it with its children", func(t *testing.T) {
		event := s.say("hang")
		eventually(t, "it hangs", func() bool { _, err := os.Stat(filepath.Join(s.workspace(), "hangs")); return err == nil })
		if !s.host.runner.Stop("web:c") {
			t.Error("nothing to stop")
		}
		s.expect(s.answer(event), "Stopped.")
		list, err := s.host.backend().Conversations.History(t.Context(), gateway.ChannelWeb, "c", 100)
		if err != nil {
			t.Fatal(err)
		}
		var last *gateway.Entry
		for _, e := range list {
			if e.Call != nil {
				last = &e
			}
		}
		if last == nil || !strings.Contains(last.Text, "was stopped with everything that it had started") || !strings.Contains(last.Text, "0 processes left") {
			t.Errorf("the call says %+v", last)
		}
	})
	t.Run("usage is counted", func(t *testing.T) {
		turns, err := s.host.store.History(t.Context(), gateway.ChannelWeb, "c", 1)
		if err != nil || len(turns) != 1 {
			t.Fatal(turns, err)
		}
		s.ask("more")
		turns, _ = s.host.store.History(t.Context(), gateway.ChannelWeb, "c", 1)
		steps, err := s.host.store.Steps(t.Context(), turns[0].ID)
		if err != nil {
			t.Fatal(err)
		}
		if last := string(steps[len(steps)-1].Data); !strings.Contains(last, `"input":7`) || !strings.Contains(last, `"provider":"cli"`) {
			t.Errorf("the last step is %s", last)
		}
		rows, err := s.host.store.ListUsage(t.Context(), usage.Filter{Limit: 1})
		if err != nil || len(rows) != 1 {
			t.Fatal(rows, err)
		}
		if u := rows[0]; u.Turn != turns[0].ID || u.Agent != "main" || u.Provider != "cli" || u.Input != 7 || u.Output != 3 || u.Cost != 250_000_000 || !u.Estimated {
			t.Errorf("the row is %+v", u)
		}
	})
	t.Run("the volume goes with the session", func(t *testing.T) {
		volumes := func() []driver.Owned {
			list, err := engine.Driver.ListVolumes(t.Context(), s.host.fleet.Instance())
			if err != nil {
				t.Fatal(err)
			}
			return list
		}
		if list := volumes(); len(list) != 1 || list[0].Labels[driver.LabelSession] != "web:c:main" {
			t.Fatalf("volumes: %v", list)
		}
		if err := s.host.backend().Sessions.DeleteSession(t.Context(), "web:c:main", "terminal:owner", false); err != nil {
			t.Fatal(err)
		}
		if list := volumes(); len(list) != 0 {
			t.Errorf("left: %v", list)
		}
		s.expect(s.ask("after that"), "message 1 in")
		// A host that dies as soon as the store has deleted the session.
		if err := s.host.store.DeleteSession(t.Context(), turnlog.Deletion{Key: "web:c:main", At: time.Now()}); err != nil {
			t.Fatal(err)
		}
		s.end()
		if list := volumes(); len(list) != 1 {
			t.Fatalf("volumes: %v", list)
		}
		s = cliHost(t, dir, "")
		eventually(t, "the next start removes the rest", func() bool {
			left, err := s.host.store.ListLeftovers(t.Context(), turnlog.LeftContainers)
			return err == nil && len(left) == 0 && len(volumes()) == 0
		})
	})
}

// TestAgentOfKindCLIAtAGateway: the program of one agent reaches a model gateway of this machine, with a key that it does not have, and
// nothing else there. No other agent has that way.
func TestAgentOfKindCLIAtAGateway(t *testing.T) {
	engine := sandboxtest.Engine(t)
	dir := t.TempDir()
	seen := make(chan string, 10)
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Host + " " + r.Header.Get("Authorization")
		fmt.Fprint(w, "an answer of the model")
	}))
	defer model.Close()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	own := free.Addr().String()
	free.Close()
	if err := os.WriteFile(filepath.Join(dir, "key"), []byte("a-key-of-the-gateway"), 0o600); err != nil {
		t.Fatal(err)
	}
	const program = `command = ["sh", "-c", 'sh -c "$(cat)" 2>&1']` + "\noutput = \"text\"\n"
	s := runCLI(t, dir, fmt.Sprintf(`
[store]
dir = %q
[gateway]
listen = %q
[routing]
default_agent = "main"
[sandbox]
enabled = true
image = %q
[agent_configs.main]
kind = "cli"
[agent_configs.main.cli]
%sapi_key_file = %q
api_host = "model.invalid"
api_header = "Authorization"
api_prefix = "Bearer "
api_address = %q
[agent_configs.other]
kind = "cli"
[agent_configs.other.cli]
%sallowlist = ["model.invalid"]
`, filepath.Join(dir, "s"), own, sandboxtest.Image, program, filepath.Join(dir, "key"), model.URL, program))
	s.sweepVolumes(engine)

	s.expect(s.ask("wget -q -O - http://model.invalid/v1/messages; env | grep -c a-key-of || true"), "an answer of the model0")
	if got := <-seen; got != "model.invalid Bearer a-key-of-the-gateway" {
		t.Errorf("the gateway has seen %q", got)
	}
	s.expect(s.ask("wget -S -O - "+model.URL+"/ || wget -S -O - http://model.invalid:8080/ || echo nothing"), "nothing", "403")
	s.expect(s.ask("wget -S -O - http://"+own+"/ || echo nothing"), "nothing", "403")
	if other := specs.CLI(s.host.current.Load().Config, "other"); len(other.Credentials) != 0 || len(other.Allowlist) != 1 {
		t.Errorf("the other agent has %+v", other)
	}
	if len(seen) > 0 {
		t.Errorf("the gateway has seen %q as well", <-seen)
	}
}

// A volume whose session is gone is removed at the start; another host's stays.
func TestVolumesOfSessionsThatAreGone(t *testing.T) {
	engine := sandboxtest.Engine(t)
	dir := t.TempDir()
	s := cliHost(t, dir, "")
	s.sweepVolumes(engine)
	s.ask("hello")
	instance := s.host.fleet.Instance()
	s.end()
	other := "other-" + instance
	for _, v := range []struct{ name, instance, session string }{
		{"flynn-test-gone-" + instance, instance, "web:gone:main"}, {"flynn-test-other-" + instance, other, "web:c:main"},
	} {
		labels := map[string]string{driver.LabelInstance: v.instance, driver.LabelVolume: specs.CLIVolume, driver.LabelSession: v.session}
		if _, err := engine.Driver.EnsureVolume(t.Context(), strings.ToLower(v.name), labels); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		_ = engine.Driver.RemoveVolume(context.Background(), strings.ToLower("flynn-test-other-"+instance))
	})
	s = cliHost(t, dir, "")
	s.expect(s.ask("again"), "message 2 in")
	eventually(t, "of this host the session's volume alone is left", func() bool {
		mine, err := engine.Driver.ListVolumes(t.Context(), instance)
		return err == nil && len(mine) == 1 && mine[0].Labels[driver.LabelSession] == "web:c:main"
	})
	s.end()
	c, err := config.Load(filepath.Join(dir, "flynn.toml"), os.Getenv, Checks()...)
	if err != nil {
		t.Fatal(err)
	}
	if left, err := admin.DeleteSession(t.Context(), c, nil, "web:c:main", "terminal:owner"); left != nil || err != nil {
		t.Errorf("delete the session: %v, %v", left, err)
	}
	if mine, err := engine.Driver.ListVolumes(t.Context(), instance); err != nil || len(mine) != 0 {
		t.Errorf("the session is deleted, and left %v, %v", mine, err)
	}
	if theirs, err := engine.Driver.ListVolumes(t.Context(), other); err != nil || len(theirs) != 1 {
		t.Errorf("of another host: %v, %v", theirs, err)
	}
}

func TestAgentOfKindCLIWithoutAnEngine(t *testing.T) {
	t.Setenv("DOCKER_HOST", "tcp://"+need.Address(t)) // nobody answers there
	s := cliHost(t, t.TempDir(), "")
	began := time.Now()
	s.expect(s.ask("hello"), "I could not answer this", "sandbox is unavailable: ", "start Docker")
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
}

// A budget is charged with the usage that a program reports, across a restart, and then refuses the next run.
func TestBudgetOfAProgram(t *testing.T) {
	engine := sandboxtest.Engine(t)
	dir := t.TempDir()
	// Where it is noon: no day ends in the middle of the test.
	budget := fmt.Sprintf("[budgets]\nhost_usd_per_day = 0.4\ntime_zone = \"Etc/GMT%+d\"\n", time.Now().UTC().Hour()-12)
	s := cliHost(t, dir, budget)
	s.sweepVolumes(engine)
	s.expect(s.ask("first"), "message 1 in")
	s.expect(s.ask("second"), "message 2 in")
	s.expect(s.ask("third"), "the daily budget of this host has no room")
	s.end()
	s = cliHost(t, dir, budget)
	s.expect(s.ask("fourth"), "the daily budget of this host has no room")
}
