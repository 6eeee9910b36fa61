// Package explore drives the real program in random order with odd input: messages, commands, requests for approval, restarts, kills and
// reloads. It holds tests only.
//
// Start with TestExplore. The account of what was said, answered and run is journal_test.go; a find becomes a case in finds_test.go.
// Run long with: just explore 1h
package explore

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/internal/hosttest"
	"github.com/flynnhost/flynn/sdk/plugintest/rude"
)

var (
	span = flag.Duration("for", 0, "how long to go on; 0 is one round of steps for each seed")
	seed = flag.Uint64("seed", 0, "seed of the first round; 0 takes one from the clock")
)

// Sizes of a round. Every round has a fresh store.
const (
	rounds        = 2
	steps         = 120
	conversations = 6
	outstanding   = 3 // unanswered messages in a conversation
)

func TestExplore(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	bin := hosttest.Build(t)
	first := *seed
	if first == 0 {
		first = uint64(time.Now().UnixNano())
	}
	began := time.Now()
	for i := uint64(0); i < rounds || time.Since(began) < *span; i++ {
		if !t.Run(fmt.Sprintf("seed %d", first+i), func(t *testing.T) { newDriver(t, bin, first+i).run(steps) }) {
			return // its log is the one to read
		}
	}
}

// owner may approve over the channel; the others are guests.
const owner = "own"

// driver is a round under way. Its methods are for one goroutine.
type driver struct {
	t        *testing.T
	rng      *rand.Rand
	platform *hosttest.Platform
	program  *hosttest.Program
	journal  *journal
	kills    int // of the plugin, in the life of the process that runs
	done     []string
	programs sync.WaitGroup // that ask over the OpenAI API
	over     chan struct{}  // closed when nobody waits for an answer any more
}

// newDriver makes a set-up whose queue mode comes from the seed.
func newDriver(t *testing.T, bin string, seed uint64) *driver {
	d := &driver{t: t, rng: rand.New(rand.NewPCG(seed, 0)), journal: newJournal(), over: make(chan struct{})}
	var err error
	if d.platform, err = hosttest.NewPlatform(hosttest.PlatformConfig{Shown: d.journal.shown}); err != nil {
		t.Fatal(err)
	}
	queue := []string{"collect", "followup"}[d.rng.IntN(2)]
	d.program = hosttest.New(t, hosttest.Config{
		Bin: bin, Platform: d.platform.Address(), Queue: queue, Access: fmt.Sprintf("owners = [%q]", "platform:"+owner), More: "[approvals]\nself = true\n",
	})
	return d
}

// step is something that may happen, and how often it does beside the others.
type step struct {
	name   string
	weight int
	do     func(*driver)
}

var all = []step{
	{"say", 40, (*driver).say},
	{"shell", 16, (*driver).shell},
	{"decide", 16, (*driver).decide},
	{"command", 8, (*driver).command},
	{"stop", 2, (*driver).stop},
	{"forget", 1, (*driver).forget},
	{"halt", 1, (*driver).halt},
	{"ask", 6, (*driver).ask},
	{"pause", 8, (*driver).pause},
	{"kill", 3, (*driver).kill},
	{"restart", 2, (*driver).restart},
	{"reload", 3, (*driver).reload},
	{"bad reload", 2, (*driver).badReload},
	{"kill the plugin", 1, (*driver).killPlugin},
	{"disconnect", 1, (*driver).disconnect},
	{"redeliver", 2, (*driver).redeliver},
}

// run takes a number of random steps.
func (d *driver) run(n int) {
	total := 0
	for _, s := range all {
		total += s.weight
	}
	d.live(func() {
		for range n {
			at := d.rng.IntN(total)
			for _, s := range all {
				if at -= s.weight; at < 0 {
					d.note("%s", s.name)
					s.do(d)
					break
				}
			}
		}
	})
}

// live does things with the program, lets everything come to its end and judges.
func (d *driver) live(do func()) {
	ctx, cancel := context.WithCancel(d.t.Context())
	var platform sync.WaitGroup
	platform.Go(func() {
		if err := d.platform.Run(ctx); err != nil {
			d.t.Error(err)
		}
	})
	defer platform.Wait()
	defer cancel()
	d.start()
	do()
	d.settle()
	close(d.over)
	d.programs.Wait()
	problems := d.journal.judge(d.ran())
	if open := d.requests(); len(open) > 0 {
		problems = append(problems, fmt.Sprintf("all calls have ended, and requests are open: %v", open))
	}
	if len(problems) > 0 {
		log, err := d.program.Dump()
		d.t.Logf("what was done:\n%s\nthe host wrote (%v):\n%s", strings.Join(d.done, "\n"), err, log)
	} else if err := d.program.Stop(); err != nil {
		problems = append(problems, err.Error())
	}
	for _, p := range problems {
		d.t.Error(p)
	}
}

func (d *driver) note(format string, args ...any) {
	d.done = append(d.done, fmt.Sprintf(format, args...))
}

func (d *driver) start() {
	d.t.Helper()
	if err := d.program.Start(); err != nil {
		d.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(d.t.Context(), time.Minute)
	defer cancel()
	if err := d.program.Ready(ctx); err != nil {
		d.t.Fatal(err)
	}
	d.kills = 0
}

// conversation draws one with room for a message, and whether it is a group.
func (d *driver) conversation() (name string, group, room bool) {
	i := d.rng.IntN(conversations)
	name = fmt.Sprintf("c%d", i)
	open, _ := d.journal.open(name)
	return name, i%3 == 2, open < outstanding
}

func (d *driver) post(m *said, group bool, sender string) {
	d.note("  %d in %s: %.100q", m.id, m.conversation, m.text)
	d.platform.Post(hosttest.Event{ID: strconv.Itoa(m.id), Conversation: m.conversation, Group: group, Sender: sender, Text: m.text})
}

// say says something that no chat command and no command of the demo model is, however it goes on.
func (d *driver) say() {
	name, group, room := d.conversation()
	if !room {
		return
	}
	m := d.journal.add(name, plain, func(id int) string { return tag(id) + " " + rude.Text(d.rng) })
	sender := []string{owner, "ann", "bob"}[d.rng.IntN(3)]
	d.post(m, group, sender)
}

// shell asks for a command that leaves a mark, followed by a rude one. Groups are left out: the speaker's name would stand before it.
// Each comes from a sender of its own, since what one sender says while an answer is made is answered as one.
func (d *driver) shell() {
	name, group, room := d.conversation()
	if !room || group {
		return
	}
	commands := rude.Commands()
	d.asks(name, commands[d.rng.IntN(len(commands))].Text)
}

// asks has a private conversation ask for a command.
func (d *driver) asks(conversation, command string) *said {
	m := d.journal.add(conversation, shell, func(id int) string {
		line := fmt.Sprintf("echo x >> %s%d\n%s", mark, id, command)
		return fmt.Sprintf(`!tool shell.exec {"command":%s}`, rude.Quote(line))
	})
	d.post(m, false, fmt.Sprintf("asker-%d", m.id))
	return m
}

// mark is how the files begin that commands write; the rest of the name is the number of the message.
const mark = "ran."

// ran is how often each command has run.
func (d *driver) ran() map[int]int {
	names, err := filepath.Glob(filepath.Join(d.program.Dir, "store", "workspaces", "*", mark+"*"))
	if err != nil {
		d.t.Fatal(err)
	}
	counts := map[int]int{}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			d.t.Fatal(err)
		}
		id, _ := strconv.Atoi(strings.TrimPrefix(filepath.Base(name), mark))
		counts[id] += strings.Count(string(text), "x\n")
	}
	return counts
}

// request is one that waits for a person.
type request struct {
	ID   string
	Args struct{ Command string }
}

var marked = regexp.MustCompile(`>> ` + regexp.QuoteMeta(mark) + `(\d+)\n`)

// message is the number of the message whose command is asked for; 0 where the request does not show it.
func (r request) message() int {
	found := marked.FindStringSubmatch(r.Args.Command)
	if found == nil {
		return 0
	}
	id, _ := strconv.Atoi(found[1])
	return id
}

// call asks the API. It returns false where the API refuses.
func (d *driver) call(path string, body, answer any) bool {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), time.Minute)
	defer cancel()
	err := d.program.Call(ctx, path, body, answer)
	if refused := new(hosttest.StatusError); errors.As(err, &refused) && refused.Status < 500 {
		d.note("  %v", err)
		return false
	}
	if err != nil {
		d.t.Fatalf("%v\nwhat was done:\n%s\nthe log ends with:\n%s", err, strings.Join(d.done, "\n"), d.program.Tail())
	}
	return true
}

func (d *driver) requests() (list []request) {
	d.call("/api/v1/approvals", nil, &list)
	return list
}

// decide answers a request, over the API or in the owner's chat.
func (d *driver) decide() {
	list := d.requests()
	if len(list) == 0 {
		return
	}
	r := list[d.rng.IntN(len(list))]
	grant, chat := d.rng.IntN(3) > 0, d.rng.IntN(2) == 0
	d.answer(r, grant, chat)
}

// answer says yes or no to a request.
func (d *driver) answer(r request, grant, chat bool) {
	id := r.message()
	if id == 0 {
		d.t.Errorf("the request %s does not show the command that it is about: %.300q", r.ID, r.Args.Command)
		return
	}
	fate, word := denied, "deny"
	if grant {
		fate, word = granted, "approve"
	}
	d.note("  %s %s, message %d", word, r.ID, id)
	if !chat {
		if d.call("/api/v1/approvals/"+r.ID+"/decision", map[string]any{"grant": grant}, nil) {
			d.journal.decide(id, fate)
		}
		return
	}
	m := d.journal.add("owners", command, func(int) string { return "/" + word + " " + r.ID })
	d.post(m, false, owner)
	if d.await(m) && decided(m.answer, word) {
		d.journal.decide(id, fate)
	}
}

// decided reports whether an answer in a chat says that a decision counts.
func decided(answer, word string) bool {
	return strings.HasPrefix(answer, map[string]string{"approve": "Approved", "deny": "Denied"}[word])
}

// await waits until a message has its answer.
func (d *driver) await(m *said) bool {
	for limit := time.After(time.Minute); ; {
		d.journal.mu.Lock()
		answered, changed := m.answers > 0, d.journal.changed
		d.journal.mu.Unlock()
		if answered {
			return true
		}
		select {
		case <-changed:
		case <-limit:
			return false // judge reports it
		}
	}
}

// command writes a chat command that changes nothing that the journal knows.
func (d *driver) command() {
	name, group, room := d.conversation()
	if !room {
		return
	}
	list := []string{"/status", "/help", "/agent", "/model", "/new", "/approve", "/approve NOSUCHID22", "/deny \u202e<b>&&"}
	m := d.journal.add(name, command, func(int) string { return list[d.rng.IntN(len(list))] })
	d.post(m, group, owner)
}

// stop ends the answer that is being made. The messages behind it may be answered or not: both are right.
func (d *driver) stop() {
	name, group, _ := d.conversation()
	d.stopIn(name, group)
}

func (d *driver) stopIn(name string, group bool) *said {
	d.journal.excuse(name)
	m := d.journal.add(name, command, func(int) string { return "/stop" })
	d.post(m, group, owner)
	return m
}

// forget deletes a conversation, with all that waits in it.
func (d *driver) forget() {
	name, group, _ := d.conversation()
	d.journal.excuse(name)
	m := d.journal.add(name, command, func(int) string { return "/delete yes" })
	d.post(m, group, owner)
}

// halt refuses every call for a moment.
func (d *driver) halt() {
	d.journal.halted() // before the call: what it stops may be answered before it returns
	d.call("PUT /api/v1/halt", map[string]any{"reason": "explore"}, nil)
	d.pause()
	d.call("DELETE /api/v1/halt", nil, nil)
}

// ask has a program ask over the OpenAI API, and ask the same again as long as nobody answers, as client libraries do. Two of them share a
// name; each must be answered with its own question.
func (d *driver) ask() { d.question(fmt.Sprintf("program-%d", d.rng.IntN(2))) }

func (d *driver) question(user string) {
	m := d.journal.add("api", question, func(id int) string { return tag(id) })
	body := map[string]any{
		"model": "main", "user": user, "messages": []map[string]string{{"role": "user", "content": m.text}},
	}
	d.note("  %d by %s", m.id, body["user"])
	d.programs.Go(func() {
		for {
			ctx, cancel := context.WithTimeout(d.t.Context(), time.Minute)
			var answer struct {
				Choices []struct{ Message struct{ Content string } }
			}
			err := d.program.Call(ctx, "/v1/chat/completions", body, &answer)
			cancel()
			if refused := new(hosttest.StatusError); err == nil && len(answer.Choices) == 1 {
				d.journal.told(m, answer.Choices[0].Message.Content)
				return
			} else if errors.As(err, &refused) && refused.Status < 500 && refused.Status != http.StatusTooManyRequests && refused.Status != http.StatusConflict {
				d.journal.told(m, err.Error())
				return
			}
			select {
			case <-d.over:
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	})
}

func (d *driver) pause() { <-time.After(time.Duration(d.rng.IntN(60)) * time.Millisecond) }

func (d *driver) kill() {
	if err := d.program.Kill(); err != nil {
		d.t.Fatalf("%v; its log ends with:\n%s", err, d.program.Tail())
	}
	d.journal.doubt()
	d.start()
}

func (d *driver) restart() {
	if err := d.program.Stop(); err != nil {
		d.t.Fatal(err)
	}
	d.journal.doubt()
	d.start()
}

// reload changes something that matters to no answer.
func (d *driver) reload() {
	d.configure(fmt.Sprintf("\n[agent_configs.other%d]\nsystem_prompt = \"unused\"\n", d.rng.IntN(1000)))
}

func (d *driver) badReload() {
	d.configure([]string{"\n[nonsense]\na = 1\n", "\n\x00", "\n[[policies]]\nname = \"p\"\npath = \"missing.wasm\"\n", "\n[store"}[d.rng.IntN(4)])
}

// configure saves the file with more below it. A killed process must find a valid file when it starts again, so what is wrong is mended
// at once, or a moment later.
func (d *driver) configure(more string) {
	if err := d.program.Configure(more); err != nil {
		d.t.Fatal(err)
	}
	d.pause()
	if err := d.program.Configure(""); err != nil {
		d.t.Fatal(err)
	}
}

// patience is how many failures of a plugin the host forgives, with a margin; one more and it is quarantined.
const patience = 3

func (d *driver) killPlugin() {
	if d.kills == patience {
		return
	}
	if err := d.platform.KillPlugin(); err == nil {
		d.kills++
	}
}

func (d *driver) disconnect() { d.platform.Disconnect() }

func (d *driver) redeliver() { d.platform.Redeliver(1 + d.rng.IntN(5)) }

// settle decides about what waits until every message has its answer and no call waits any more.
func (d *driver) settle() {
	d.note("settle")
	for limit := time.Now().Add(2 * time.Minute); ; {
		if len(d.requests()) > 0 {
			d.decide()
			continue
		}
		open, changed := d.journal.open("")
		if open == 0 {
			return
		}
		select {
		case <-changed:
		case <-d.program.Ended():
			d.t.Fatalf("flynn ended by itself; its log ends with:\n%s", d.program.Tail())
		case <-time.After(50 * time.Millisecond): // a request tells nobody here that it waits
			if time.Now().After(limit) {
				return // judge reports what is open
			}
		}
	}
}
