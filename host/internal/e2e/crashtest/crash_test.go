// Package crashtest kills the real program at random points while messages flow, starts it again, and looks whether every
// message was answered exactly once. It holds tests only.
//
// Start with TestCrash. The check is journal_test.go, and findings_test.go shows that it can find
// fault. Run many kills with: go test ./host/internal/e2e/crashtest -run TestCrash -kills 1000 -timeout 60m -v
package crashtest

import (
	"errors"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/internal/hosttest"
	"github.com/flynnhost/flynn/host/store/postgres/postgrestest"
)

var (
	kills         = flag.Int("kills", 15, "kills of each variant; of the plugin alone a fifth of them")
	conversations = flag.Int("conversations", 8, "conversations side by side")
	seed          = flag.Uint64("seed", 0, "seed of kinds and pauses; 0 takes one from the clock")
)

// A process lives for a time between these two.
const (
	leastLife = 5 * time.Millisecond
	mostLife  = 400 * time.Millisecond
	// Answers that take longer than a second show as drafts.
	mostStreamingLife = 3 * time.Second
)

// The figures owed after a start, and those tolerated once. Only the long test checks them, which has the machine for itself.
const (
	owedResumption = time.Second
	mostResumption = 5 * time.Second
	long           = 100 // kills
)

func TestCrash(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	bin := hosttest.Build(t)
	for _, c := range []struct {
		name      string
		forgetful bool
		streams   bool
		queue     string
		kills     int
		kill      func(*trial)
		postgres  bool
	}{
		{"the host", false, false, "", *kills, (*trial).killHost, false},
		{"the host, and keys are not recognised", true, false, "", *kills, (*trial).killHost, false},
		{"host and plugin at once", false, false, "", *kills, (*trial).killBoth, false},
		{"the plugin", false, false, "", max(4, *kills/5), (*trial).killPlugin, false},
		{"the host, while answers show as drafts", false, true, "", max(4, *kills/3), (*trial).killHost, false},
		{"the host, and later messages interrupt", false, false, "interrupt", max(4, *kills/3), (*trial).killHost, false},
		{"the host, and messages are answered one by one", false, false, "followup", max(4, *kills/3), (*trial).killHost, false},
		{"the host, with its store in Postgres", false, false, "", *kills, (*trial).killHost, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			database := ""
			if c.postgres {
				server := postgrestest.Start(t)
				database = server.URL(server.Database(t))
			}
			x := newTrial(t, bin, c.forgetful, c.streams, c.queue, database)
			x.run(c.kills, c.kill)
			x.report(c.kills)
		})
	}
}

// trial is one variant under way.
type trial struct {
	t        *testing.T
	rng      *rand.Rand
	seed     uint64
	platform *hosttest.Platform
	program  *hosttest.Program
	journal  *journal
	talk     *talk
	began    time.Time

	streams     bool
	effective   int // kills that hit with taken-over messages unanswered
	pluginKills int // of the host process that runs
}

func newTrial(t *testing.T, bin string, forgetful, streams bool, queue, database string) *trial {
	x := &trial{t: t, streams: streams, seed: *seed, journal: newJournal(forgetful), began: time.Now()}
	if x.seed == 0 {
		x.seed = uint64(time.Now().UnixNano())
	}
	x.rng = rand.New(rand.NewPCG(x.seed, 0))
	x.talk = newTalk(x.journal, *conversations)
	x.talk.streams = streams
	var err error
	x.platform, err = hosttest.NewPlatform(hosttest.PlatformConfig{Forgetful: forgetful, Shown: x.talk.shown, Acked: x.journal.ack})
	if err != nil {
		t.Fatal(err)
	}
	x.talk.platform = x.platform
	x.program = hosttest.New(t, hosttest.Config{Bin: bin, Platform: x.platform.Address(), Forgetful: forgetful, Rich: streams, Queue: queue, Database: database})
	return x
}

// run lets people talk while it kills, waits until all is answered, and stops the program in order.
func (x *trial) run(kills int, kill func(*trial)) {
	defer serve(x.t, x.platform)()
	x.start()
	x.begin()
	x.talk.while(x.t.Context(), x.seed, func() {
		for n := 0; n < kills || x.effective == 0 && n < 10*kills; n++ { // a machine with other work may not come to any within these lives
			x.live(1 + n/kills)
			kill(x)
		}
		x.live(1)
	})
	x.settle()
	x.recallAll()
	if err := x.program.Stop(); err != nil {
		x.t.Error(err)
	}
}

// begin makes the files of effects, undisturbed.
func (x *trial) begin() {
	for i := range *conversations {
		if !group(i) {
			x.talk.post(i, begin, "ann")
		}
	}
	x.settle()
}

func (x *trial) start() {
	at := time.Now()
	if err := x.program.Start(); err != nil {
		x.t.Fatal(err)
	}
	x.journal.started(at)
	x.pluginKills = 0
}

// live gives the process a random time, some times as long as it is meant to be.
func (x *trial) live(times int) {
	most := mostLife * time.Duration(times)
	if x.streams {
		most = mostStreamingLife
	}
	<-time.After(leastLife + time.Duration(x.rng.Int64N(int64(most-leastLife))))
}

func (x *trial) killHost() {
	if err := x.program.Kill(); err != nil {
		x.t.Fatalf("%v; its log ends with:\n%s", err, x.program.Tail())
	}
	x.noteKill()
	x.start()
}

func (x *trial) noteKill() {
	if x.journal.killed() > 0 {
		x.effective++
	}
}

func (x *trial) killBoth() {
	if err := x.platform.KillPlugin(); err != nil && !errors.Is(err, hosttest.ErrNoPlugin) && !errors.Is(err, os.ErrProcessDone) {
		x.t.Fatal(err)
	}
	x.killHost()
}

// patience is how many failures of a plugin the host forgives, with a margin; one more and it is quarantined.
const patience = 3

// killPlugin kills the plugin as soon as there is one. The host waits longer after each failure and gives up at some
// point, so that it is restarted from time to time, in order.
func (x *trial) killPlugin() {
	if x.pluginKills == patience {
		if err := x.program.Stop(); err != nil {
			x.t.Fatal(err)
		}
		x.start()
	}
	for deadline := time.Now().Add(time.Minute); x.platform.KillPlugin() != nil; {
		if time.Now().After(deadline) {
			x.t.Fatalf("no plugin came back; the log ends with:\n%s", x.program.Tail())
		}
		<-time.After(time.Millisecond)
	}
	x.pluginKills++
	x.noteKill()
}

// settle waits until every message is answered, or until nothing has been for too long.
func (x *trial) settle() {
	const patience = time.Minute
	for {
		open, changed := x.journal.unanswered()
		if open == 0 {
			return
		}
		select {
		case <-changed:
		case <-x.program.Ended():
			x.t.Fatalf("flynn ended by itself; its log ends with:\n%s", x.program.Tail())
		case <-time.After(patience):
			log, err := x.program.Dump()
			x.t.Fatalf("%d messages have no answer after %s; the host wrote (%v):\n%s", open, patience, err, log)
		}
	}
}

// recallAll asks for every note that was said to be written.
func (x *trial) recallAll() {
	question := map[string]int{}
	for _, id := range x.journal.ran(write) {
		question[strconv.Itoa(x.talk.recall(id))] = id
	}
	x.settle()
	for event, id := range question {
		if text := x.journal.textFor(event); text != noteText(id) {
			x.t.Errorf("the note of message %d reads %q, want %q", id, text, noteText(id))
		}
	}
}

// report checks and prints the summary.
func (x *trial) report(kills int) {
	v := x.journal.check()
	for _, p := range v.problems() {
		x.t.Errorf("%s", p)
	}
	ran := x.journal.ran(effect)
	for _, p := range checkEffects(x.effects(), ran) {
		x.t.Error(p)
	}
	x.checkDrafts()
	p50, most := quantiles(x.journal.resumed)
	x.t.Logf("%d kills, %d of them amid work; %d messages: %d lost, %d twice; %d tool calls, %d interrupted; "+
		"%d resends recognised, %d shown again with a mark (%d more than once); resumed after p50 %s, max %s (n=%d); seed %d, %s",
		kills, x.effective, v.total, len(v.lost), len(v.twice), len(ran)+len(x.journal.ran(write))+v.interrupted, v.interrupted,
		x.platform.Repeats(), v.marked, v.thrice, p50, most, len(x.journal.resumed), x.seed, time.Since(x.began).Round(100*time.Millisecond))
	if x.effective == 0 {
		x.t.Error("no kill met any work: nothing was tested")
	}
	if kills >= long && x.pluginKills == 0 && !x.streams && (p50 > owedResumption || most > mostResumption) {
		x.t.Errorf("work resumed %s after the start (max %s), owed are %s", p50, most, owedResumption)
	}
}

// checkDrafts looks for drafts that nothing has completed, and makes sure that there were any.
func (x *trial) checkDrafts() {
	if !x.streams {
		return
	}
	edited := 0
	for _, m := range x.platform.Messages() {
		edited += min(1, m.Edits)
		if m.Draft {
			x.t.Errorf("a draft is left over: %+v", m)
		}
	}
	x.t.Logf("%d answers were drafts first", edited)
	if edited == 0 {
		x.t.Error("no answer was a draft first: nothing was tested")
	}
}

// effects is what the files of effects hold.
func (x *trial) effects() string {
	names, err := filepath.Glob(filepath.Join(x.program.Dir, "store", "workspaces", "*", effectsFile))
	if err != nil {
		x.t.Fatal(err)
	}
	var all strings.Builder
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			x.t.Fatal(err)
		}
		all.WriteString(strings.TrimSuffix(string(text), lastLine))
	}
	return all.String()
}

func quantiles(ds []time.Duration) (p50, most time.Duration) {
	if len(ds) == 0 {
		return 0, 0
	}
	ds = slices.Sorted(slices.Values(ds))
	return ds[len(ds)/2].Round(time.Millisecond), ds[len(ds)-1].Round(time.Millisecond)
}
