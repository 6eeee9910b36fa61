package host

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox/fleet/drivers"
	"github.com/flynnhost/flynn/host/sandbox/fleet/specs"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
	"github.com/flynnhost/flynn/sdk/need"
)

// The limits within which a host has to do things beside a driver that hangs. The machine of a test has other work.
const (
	talkLimit  = 30 * time.Second // what needs no sandbox
	startLimit = 30 * time.Second // from the start to ready
	stopLimit  = 60 * time.Second // TimeoutStopSec of the unit
)

// moody is a docker command that does a subcommand as a file of that name says: after so many seconds; hang: never; stuck: never, and not even
// the end of its process lets go of its output; late: never, but the engine does it in a while.
const moody = `#!/bin/bash
mood=$(cat "%s/$1" 2>/dev/null)
case $mood in
hang) exec sleep 300 ;;
stuck) sleep 300 & wait ;;
late) setsid bash -c 'sleep 3; exec docker "$@"' docker "$@" >/dev/null 2>&1 & exec sleep 300 ;;
?*) sleep "$mood" ;;
esac
exec docker "$@"
`

// The subcommands of the example's calls: capabilities, create, start, remove, list, and what several of them use.
var subcommands = []string{"info", "create", "start", "rm", "ps", "container"}

// slowHome is a host whose sandboxes a plugin makes that does as the test says.
type slowHome struct {
	*cliHome
	engine sandboxtest.Host
	moods  string // folder
	text   string // of the configuration
	events int
}

// newSlowHome writes its configuration. If the driver is proved, a self-test of it has passed.
func newSlowHome(t *testing.T, proved bool, image ...string) *slowHome {
	t.Helper()
	engine := sandboxtest.Engine(t)
	dir, err := os.MkdirTemp("/tmp", "sd") // short, since it holds sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := &slowHome{engine: engine, moods: filepath.Join(dir, "moods"), cliHome: &cliHome{t: t, dir: dir}}
	if err := os.Mkdir(s.moods, 0o700); err != nil {
		t.Fatal(err)
	}
	command := filepath.Join(dir, "docker")
	if err := os.WriteFile(command, fmt.Appendf(nil, moody, s.moods), 0o700); err != nil {
		t.Fatal(err)
	}
	s.text = fmt.Sprintf("[store]\ndir = %q\n[gateway]\nlisten = %q\n[routing]\ndefault_agent = \"main\"\n[models.default]\nprovider = \"demo\"\n"+
		"[agent_configs.main]\ntool_profile = \"coding\"\nsandbox = true\n[sandbox]\nenabled = true\nlocal_frontends = true\nengine = \"driver:box\"\nimage = %q\n"+
		"[plugins.dev_paths]\ndocker-driver = %q\n[drivers.box]\nplugin = \"docker-driver\"\ncommand = %q\n",
		filepath.Join(dir, "s"), need.Address(t), append(image, sandboxtest.Image)[0], sandboxtest.DockerDriver(t), command)
	if err := os.WriteFile(filepath.Join(dir, "flynn.toml"), []byte(s.text), 0o600); err != nil {
		t.Fatal(err)
	}
	if proved {
		s.prove()
	}
	return s
}

// prove records a self-test that has passed.
func (s *slowHome) prove() {
	s.t.Helper()
	c, err := config.Load(filepath.Join(s.dir, "flynn.toml"), os.Getenv, Checks()...)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := os.MkdirAll(c.Store.Dir, 0o700); err != nil {
		s.t.Fatal(err)
	}
	alone, err := drivers.Start(c, nil, slog.New(slog.NewTextHandler(s.t.Output(), nil)))
	if err != nil {
		s.t.Fatal(err)
	}
	defer alone.Close()
	made, _ := specs.New(c).Named("")
	eventually(s.t, "the self-test is recorded", func() bool { return alone.Record(s.t.Context(), drivers.RelianceOn(made), nil) == nil })
}

// run starts the host.
func (s *slowHome) run() {
	s.t.Helper()
	began := time.Now()
	s.cliHome = runCLI(s.t, s.dir, s.text)
	if took := time.Since(began); took > startLimit {
		s.t.Errorf("it was ready after %v", took)
	}
}

// stop stops the host.
func (s *slowHome) stop() {
	s.t.Helper()
	began := time.Now()
	s.end()
	if took := time.Since(began); took > stopLimit {
		s.t.Errorf("it has stopped after %v", took)
	}
}

// mood sets how subcommands are done; "" is as fast as they can be.
func (s *slowHome) mood(mood string, subcommands ...string) {
	s.t.Helper()
	for _, name := range subcommands {
		if err := os.WriteFile(filepath.Join(s.moods, name), []byte(mood), 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
}

// in says something in a conversation.
func (s *slowHome) in(conversation, text string) (event string) {
	s.t.Helper()
	s.events++
	event = fmt.Sprintf("slow-%d", s.events)
	err := s.host.backend().Conversations.Submit(s.t.Context(), message.Message{
		Channel: gateway.ChannelWeb, EventID: event, Text: text, Conversation: message.Conversation{ID: conversation, Kind: message.DM},
		Sender: message.Sender{ID: "me"}, Addressed: true,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return event
}

// answered returns the answer to an event of a conversation, if there is one.
func (s *slowHome) answered(conversation, event string) (text string, is bool) {
	s.t.Helper()
	list, err := s.host.backend().Conversations.History(s.t.Context(), gateway.ChannelWeb, conversation, 100)
	if err != nil {
		s.t.Fatal(err)
	}
	asked := false
	for _, e := range list {
		asked = asked || e.Key == event
		if asked && e.From == gateway.FromAgent && e.Final() {
			return e.Text, true
		}
	}
	return "", false
}

// asked says something and returns the answer, which has to come within a limit.
func (s *slowHome) asked(conversation, text string, limit time.Duration) (answer string) {
	s.t.Helper()
	began := time.Now()
	event := s.in(conversation, text)
	eventually(s.t, "the answer to "+text, func() (is bool) {
		answer, is = s.answered(conversation, event)
		return is
	})
	if took := time.Since(began); took > limit {
		s.t.Errorf("%q was answered after %v: %s", text, took, answer)
	}
	return answer
}

// talks checks that a conversation without a sandbox is as quick as ever.
func (s *slowHome) talks() {
	s.t.Helper()
	word := fmt.Sprintf("hello%d", s.events)
	if answer := s.asked("talk", word, talkLimit); !strings.Contains(answer, word) {
		s.t.Errorf("it says %q to %s", answer, word)
	}
}

// stopped stops the turn of a conversation, which has to end at once.
func (s *slowHome) stopped(conversation, event string) {
	s.t.Helper()
	began := time.Now()
	s.in(conversation, "/stop")
	eventually(s.t, "the turn ends", func() bool {
		_, is := s.answered(conversation, event)
		return is && s.host.runner.RunningTurns() == 0
	})
	if took := time.Since(began); took > talkLimit {
		s.t.Errorf("it stops after %v", took)
	}
}

// works checks that a conversation has a sandbox. The driver may still be thought to hang.
func (s *slowHome) works(conversation string) {
	s.t.Helper()
	eventually(s.t, "the driver is used", func() bool { return s.host.fleet.AsOfNow("") == nil })
	if answer := s.asked(conversation, "!sh echo it-$((40+2))", 2*time.Minute); !strings.Contains(answer, "it-42") {
		s.t.Errorf("in conversation %s: %s", conversation, answer)
	}
}

// left are the containers of the host on the engine.
func (s *slowHome) left() (names []string) {
	s.t.Helper()
	owned, err := s.engine.Driver.List(s.t.Context(), s.host.fleet.Instance())
	if err != nil {
		s.t.Fatal(err)
	}
	for _, o := range owned {
		names = append(names, o.Name+" "+o.State)
	}
	return names
}

// TestADriverThatHangsAtTheStart: the host is ready and answers, says why there is no sandbox, and uses the driver when it recovers. While it
// hangs again, the sandboxes that there are work on.
func TestADriverThatHangsAtTheStart(t *testing.T) {
	for _, call := range []string{"info", "ps"} {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			s := newSlowHome(t, true)
			s.mood("stuck", call)
			s.run()
			s.talks()
			if call == "info" {
				if answer := s.asked("a", "!sh echo one", time.Minute); !strings.Contains(answer, "sandbox is unavailable: driver box: describe the engine: no answer within ") {
					t.Errorf("without a driver: %s", answer)
				}
			}
			event := ""
			if call == "ps" { // earlier sandboxes are looked for first
				event = s.in("b", "!sh echo one")
				s.stopped("b", event)
			}
			s.mood("0.3", subcommands...)
			s.works("a")

			s.mood("hang", "info")
			eventually(t, "the driver is noticed to hang", func() bool { return s.host.fleet.AsOfNow("") != nil })
			if answer := s.asked("a", "!sh echo two-$((1+1))", talkLimit); !strings.Contains(answer, "two-2") {
				t.Errorf("in a sandbox that there is: %s", answer)
			}
			s.reload("memory_limit = \"200m\"\n") // of the driver: its process is another one then
			s.mood("", subcommands...)
			s.works("c")
			s.stop()
			if left := s.left(); len(left) > 0 {
				t.Errorf("left %q", left)
			}
		})
	}
}

// reload adds lines to the configuration, which have to be in force within a limit.
func (s *slowHome) reload(more string) {
	s.t.Helper()
	before := s.host.current.Config()
	s.text += more
	if err := os.WriteFile(filepath.Join(s.dir, "flynn.toml"), []byte(s.text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	began := time.Now()
	if err := s.host.holder.Reload(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	eventually(s.t, "the configuration is in force", func() bool { return s.host.current.Config() != before })
	if took := time.Since(began); took > talkLimit {
		s.t.Errorf("a reload took %v", took)
	}
}

// TestASandboxThatIsNotRemoved: a conversation whose sandbox has other settings after a reload waits until the one before is gone, can be stopped
// meanwhile, and goes on when the driver removes it.
func TestASandboxThatIsNotRemoved(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes the minute that a driver has for a removal")
	}
	t.Parallel()
	s := newSlowHome(t, true)
	s.run()
	s.works("a")
	before := s.left()
	s.mood("stuck", "rm")
	s.text = strings.Replace(s.text, "[sandbox]\n", "[sandbox]\npids_limit = 99\n", 1)
	s.reload("")
	_, events, stop := s.host.backend().Conversations.Watch(gateway.ChannelWeb, "a")
	defer stop()
	event := s.in("a", "!sh echo waits")
	for e := range events {
		if e.Kind == message.ToolProgress && e.Waiting && strings.Contains(e.Text, "waiting until the sandbox before it is removed") {
			break
		}
	}
	s.talks()
	s.stopped("a", event)
	s.mood("", "rm")
	eventually(t, "the conversation goes on", func() bool { // the removal that hangs has its minute first
		answer := s.asked("a", "!sh echo it-$((40+2))", 2*time.Minute)
		return strings.Contains(answer, "it-42")
	})
	if left := s.left(); len(left) != 1 || left[0] == before[0] {
		t.Errorf("before %q, after %q", before, left)
	}
	s.stop()
}

// TestADriverThatMakesSandboxesTooLate: a person sees what a turn waits for and can stop it, the turn ends with the reason at its limit, and what
// the engine makes after that is removed.
func TestADriverThatMakesSandboxesTooLate(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes the two minutes that a driver has for a container")
	}
	t.Parallel()
	s := newSlowHome(t, true)
	s.run()
	s.works("a")
	s.mood("late", "create")
	_, events, stop := s.host.backend().Conversations.Watch(gateway.ChannelWeb, "late")
	defer stop()
	began := time.Now()
	late := s.in("late", "!sh echo never")
	seen := make(chan string, 1)
	go func() {
		for e := range events {
			if e.Kind == message.ToolProgress && e.Waiting {
				seen <- e.Text
				return
			}
		}
	}()
	select {
	case line := <-seen:
		if !strings.Contains(line, "creating the sandbox") {
			t.Errorf("a person sees %q", line)
		}
	case <-time.After(time.Minute):
		t.Error("a person sees nothing")
	}
	s.talks()
	other := s.in("other", "!sh echo never")
	eventually(t, "the other turn waits, too", func() bool { return s.host.runner.RunningTurns() == 2 })
	s.in("other", "/stop")
	eventually(t, "the other turn ends", func() bool { _, is := s.answered("other", other); return is })
	if took := time.Since(began); took > 100*time.Second {
		t.Errorf("a turn was stopped after %v", took)
	}
	eventually(t, "the engine makes them late", func() bool { return len(s.left()) > 1 })
	var answer string
	eventually(t, "the turn ends", func() (is bool) { answer, is = s.answered("late", late); return is })
	if want := "driver box: create a container: no answer within 2m0s"; !strings.Contains(answer, want) {
		t.Errorf("%s, want %q", answer, want)
	}
	s.mood("", "create")
	eventually(t, "what was made late is gone", func() bool { return len(s.left()) == 1 })
	s.works("late")
	s.works("other")
	s.mood("stuck", "rm")
	s.stop()
	s.mood("", "rm")
	s.run()
	eventually(t, "the next host removes what this one could not", func() bool { return len(s.left()) == 0 })
	s.stop()
}

// TestAPullAtTheStartOfASession: a person sees that the image is pulled, stops a turn that waits for a registry that stalls, and is served when
// it goes on.
func TestAPullAtTheStartOfASession(t *testing.T) {
	t.Parallel()
	registry := sandboxtest.NewRegistry(t)
	s := newSlowHome(t, true, registry.Image(t, sandboxtest.Engine(t)))
	s.run()
	registry.Suffer(sandboxtest.Stalled)
	_, events, stop := s.host.backend().Conversations.Watch(gateway.ChannelWeb, "a")
	defer stop()
	event := s.in("a", "!sh wc -c <filler")
	registry.AwaitStall(t)
	for e := range events {
		if e.Kind == message.ToolProgress && e.Waiting && strings.Contains(e.Text, "pulling image 127.0.0.1:") {
			break
		}
	}
	s.talks()
	s.stopped("a", event)
	registry.Suffer(sandboxtest.NoTrouble)
	if answer := s.asked("a", "!sh wc -c </filler", 3*time.Minute); !strings.Contains(answer, fmt.Sprint(sandboxtest.FillerSize)) {
		t.Errorf("with an image that was pulled: %s", answer)
	}
	s.stop()
}

// TestADriverOfManyMoods: whatever is slow or hangs, people talk, turns that wait can be stopped, and the driver is used afterwards.
func TestADriverOfManyMoods(t *testing.T) {
	t.Parallel()
	s := newSlowHome(t, true)
	s.run()
	random := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	for round := range 4 {
		for _, name := range subcommands {
			s.mood(fmt.Sprintf("%.1f", 0.3+random.Float64()), name)
		}
		call, mood := subcommands[random.IntN(len(subcommands))], []string{"hang", "stuck", "late", "4"}[random.IntN(4)]
		t.Logf("round %d: %s %s", round, call, mood)
		s.mood(mood, call)
		conversation := fmt.Sprintf("round%d", round)
		event := s.in(conversation, "!sh echo waits")
		s.talks()
		s.stopped(conversation, event)
		s.mood("", subcommands...)
		s.works(conversation + "-after")
	}
	s.stop()
	if left := s.left(); len(left) > 0 {
		t.Errorf("left %q", left)
	}
}

// TestStopBesideASelfTest: a host stops within its limit while a driver is tested, however slow that is, and leaves nothing of the test.
func TestStopBesideASelfTest(t *testing.T) {
	for _, mood := range []string{"1", "stuck"} {
		t.Run(mood, func(t *testing.T) {
			t.Parallel()
			s := newSlowHome(t, false)
			s.run()
			eventually(t, "the driver is attacked", func() bool { return len(s.host.fleet.SelfTest().Outcomes) > 0 })
			marks, _ := filepath.Glob(filepath.Join(s.dir, "s", "workspaces", ".verify-*", "mark"))
			if len(marks) != 1 {
				t.Fatalf("marks %q", marks)
			}
			text, err := os.ReadFile(marks[0])
			if err != nil {
				t.Fatal(err)
			}
			instance, _, _ := strings.Cut(string(text), "\n")
			if all, err := s.engine.Driver.List(t.Context(), instance); err != nil || len(all) == 0 {
				t.Errorf("the self-test has %+v, %v", all, err)
			}
			s.mood(mood, "rm")
			s.stop()
			s.mood("", "rm")
			if mood == "stuck" { // the next self-test removes it
				s.run()
			}
			eventually(t, "nothing is left of the self-test", func() bool {
				all, err := s.engine.Driver.List(context.Background(), instance)
				return err == nil && len(all) == 0
			})
			s.stop()
		})
	}
}
