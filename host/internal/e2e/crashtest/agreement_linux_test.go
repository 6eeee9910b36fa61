package crashtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/internal/hosttest"
	"github.com/flynnhost/flynn/host/store/postgres/postgrestest"
)

// TestClusterAgreement changes the configuration of three hosts again and again, and kills one of them between its vote, the decision and what it
// makes of that. Whichever it is, all have the same configuration when it is back. A host whose file cannot be written keeps the others from the change,
// or, if it has voted, gets no work until the file can be written.
func TestClusterAgreement(t *testing.T) {
	if !inside(t) {
		return
	}
	x := newTrio(t)
	met := map[string]int{}
	for range *faultRounds {
		for _, m := range moments {
			if x.killAt(m, x.rng.IntN(len(x.hosts))) {
				met[m.name]++
			}
		}
	}
	for _, m := range moments {
		if t.Logf("killed %d times: %s", met[m.name], m.name); met[m.name] == 0 {
			t.Errorf("no host was killed: %s", m.name)
		}
	}
	x.unwritable("no space left on device", x.fill)
	x.unwritable("read-only file system", x.protect)
	t.Logf("seed %d", x.seed)
}

// moment is one at which a host is killed.
type moment struct {
	name string
	// met is a query whether a revision has come to this moment at a host.
	met string
	// stopped is which host cannot vote meanwhile: the one that is killed, another one, or none.
	stopped string
	// votes says that it is met by the host too that proposes, which votes with that.
	votes bool
}

var moments = []moment{
	{"before its vote", "SELECT EXISTS (SELECT 1 FROM revisions WHERE number = $1 AND state = 'open') AND $2 <> ''", "it", false},
	{"between its vote and the decision", "SELECT EXISTS (SELECT 1 FROM votes v JOIN revisions r ON r.number = v.revision WHERE r.number = $1 AND r.state = 'open' AND v.host = $2)", "another", true},
	{"between the decision and what it tells of it", "SELECT EXISTS (SELECT 1 FROM control c, hosts h WHERE c.revision = $1 AND h.id = $2 AND h.revision < $1)", "", true},
}

// trio is three hosts that agree on their configuration.
type trio struct {
	t     *testing.T
	rng   *rand.Rand
	seed  uint64
	hosts []*hosttest.Program
	disk  string // with the file of the second one
	db    *pgx.Conn
	value int // of the key that is changed
}

func newTrio(t *testing.T) *trio {
	x := &trio{t: t, seed: *seed, disk: filepath.Join(os.TempDir(), "disk"), value: 5}
	if x.seed == 0 {
		x.seed = uint64(time.Now().UnixNano())
	}
	x.rng = rand.New(rand.NewPCG(x.seed, 0))
	x.run("ip", "link", "set", "lo", "up")
	if err := errors.Join(os.Chmod(os.TempDir(), 0o755), os.Mkdir(x.disk, 0o755)); err != nil {
		t.Fatal(err)
	}
	x.run("mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", x.disk)
	server := postgrestest.Start(t)
	database := server.URL(server.Database(t))
	var err error
	if x.db, err = pgx.Connect(t.Context(), database); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.db.Close(context.Background()) })
	bin := hosttest.Build(t)
	for i, name := range []string{"a", "b", "c"} {
		x.hosts = append(x.hosts, hosttest.New(t, hosttest.Config{
			Bin: bin, Database: database, Folder: []string{"", x.disk, ""}[i],
			More: fmt.Sprintf("[cluster]\nhost = %q\n[limits]\nsender_sessions = %d\n", name, x.value),
		}))
		x.start(i)
	}
	x.all("it works", x.value)
	return x
}

func (x *trio) name(host int) string { return string(rune('a' + host)) }

func (x *trio) run(command ...string) {
	if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
		x.t.Fatalf("%q: %v: %s", command, err, out)
	}
}

func (x *trio) start(host int) {
	ctx, cancel := context.WithTimeout(x.t.Context(), time.Minute)
	defer cancel()
	if err := errors.Join(x.hosts[host].Start(), x.hosts[host].Ready(ctx)); err != nil {
		x.t.Fatal(err)
	}
}

func (x *trio) fail(what string) {
	logs := ""
	for _, p := range x.hosts {
		logs += "\n--- " + p.Dir + "\n" + p.Tail()
	}
	x.t.Fatalf("%s; seed %d; the logs end with:%s", what, x.seed, logs)
}

// until waits until something holds.
func (x *trio) until(what string, holds func() bool) {
	for late := time.Now().Add(time.Minute); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			x.fail(what + ": not within a minute")
		}
	}
}

func (x *trio) query(sql string, into any, args ...any) {
	if err := x.db.QueryRow(x.t.Context(), sql, args...).Scan(into); err != nil {
		x.t.Fatal(err)
	}
}

// has reports whether the file of a host has a value.
func (x *trio) has(host, value int) bool {
	text, err := x.hosts[host].Configuration()
	if err != nil {
		x.t.Fatal(err)
	}
	return strings.Contains(text, fmt.Sprintf("sender_sessions = %d\n", value))
}

// status returns why a host gets no work, and its warnings.
func (x *trio) status(host int) (idle, warnings string) {
	var s gateway.Status
	if err := x.hosts[host].Call(x.t.Context(), "/api/v1/status", nil, &s); err != nil {
		x.t.Fatal(err)
	}
	return s.Idle, strings.Join(s.Warnings, "\n")
}

// all waits until all hosts have the revision that was agreed on, with a value, and get work.
func (x *trio) all(what string, value int) {
	for i := range x.hosts {
		x.until(fmt.Sprintf("%s: host %s has %d", what, x.name(i), value), func() bool {
			var taken bool
			x.query("SELECT h.revision = c.revision AND h.expires > extract(epoch FROM clock_timestamp()) * 1000000000 FROM hosts h, control c WHERE h.id = $1", &taken, x.name(i))
			idle, _ := x.status(i)
			return taken && idle == "" && x.has(i, value)
		})
	}
}

// edit changes the value at a host.
func (x *trio) edit(host, value int) <-chan error {
	answer := make(chan error, 1)
	go func() {
		var c gateway.Configuration
		err := x.hosts[host].Call(x.t.Context(), "/api/v1/configuration", nil, &c)
		if err == nil {
			change := gateway.ConfigurationChange{Key: []string{"limits", "sender_sessions"}, Value: value}
			err = x.hosts[host].Call(x.t.Context(), "PUT /api/v1/configuration", gateway.ConfigurationEdit{Version: c.Version, Changes: []gateway.ConfigurationChange{change}}, nil)
		}
		answer <- err
	}()
	return answer
}

// others are the hosts but one.
func (x *trio) others(host int) []int {
	return slices.DeleteFunc(x.rng.Perm(len(x.hosts)), func(i int) bool { return i == host })
}

// killAt kills a host at a moment of a change, and starts it again. It returns false if the moment was too short to be seen.
func (x *trio) killAt(m moment, victim int) bool {
	proposer := victim
	if !m.votes || x.rng.IntN(2) == 0 {
		proposer = x.others(victim)[0]
	}
	stopped := -1
	switch m.stopped {
	case "it":
		stopped = victim
	case "another":
		stopped = x.others(victim)[0]
		if stopped == proposer {
			stopped = 3 - victim - proposer
		}
	}
	var before int64
	x.query("SELECT coalesce(max(number), 0) FROM revisions", &before)
	if stopped >= 0 {
		if err := x.hosts[stopped].Pause(); err != nil {
			x.t.Fatal(err)
		}
	}
	next := x.value + 1
	answer := x.edit(proposer, next)
	met := false
	x.until(m.name, func() bool {
		var settled bool
		x.query(m.met, &met, before+1, x.name(victim))
		x.query("SELECT EXISTS (SELECT 1 FROM hosts h, control c WHERE c.revision = $1 AND h.id = $2 AND h.revision = $1)", &settled, before+1, x.name(victim))
		return met || settled
	})
	if met {
		if err := x.hosts[victim].Kill(); err != nil {
			x.fail(err.Error())
		}
	}
	if stopped >= 0 && stopped != victim {
		if err := x.hosts[stopped].Resume(); err != nil {
			x.t.Fatal(err)
		}
	}
	err := <-answer
	if met {
		x.start(victim)
	}
	var agreed int64
	x.until("it is decided", func() bool {
		var open bool
		x.query("SELECT EXISTS (SELECT 1 FROM revisions WHERE state = 'open')", &open)
		return !open
	})
	x.query("SELECT revision FROM control", &agreed)
	if agreed > before {
		x.value = next
	}
	said := errors.As(err, new(*hosttest.StatusError))
	if err == nil && agreed == before || said && agreed > before {
		x.fail(fmt.Sprintf("%s: the answer is %v, and revision %d is agreed on after %d", m.name, err, agreed, before))
	}
	x.all(m.name, x.value)
	return met
}

// unwritable has the file of the second host be one that cannot be written: before a change, and after it has voted for one.
func (x *trio) unwritable(why string, spoil func() (mend func())) {
	mend := spoil()
	err := <-x.edit(0, x.value+1)
	if err == nil || !strings.Contains(err.Error(), "host b: ") || !strings.Contains(err.Error(), why) {
		x.fail(fmt.Sprintf("%s: a change is answered with %v", why, err))
	}
	mend()
	x.all(why, x.value)

	for proposer := range 2 {
		if err := x.hosts[2].Pause(); err != nil {
			x.t.Fatal(err)
		}
		answer := x.edit(proposer, x.value+1)
		x.until("it has voted", func() (voted bool) {
			x.query("SELECT EXISTS (SELECT 1 FROM votes v JOIN revisions r ON r.number = v.revision WHERE r.state = 'open' AND v.host = 'b')", &voted)
			return voted
		})
		mend := spoil()
		if err := x.hosts[2].Resume(); err != nil {
			x.t.Fatal(err)
		}
		err := <-answer
		if proposer == 0 && err != nil || proposer == 1 && (err == nil || !strings.Contains(err.Error(), "the other hosts have it") || !strings.Contains(err.Error(), why)) {
			x.fail(fmt.Sprintf("%s: what all agree on is answered with %v", why, err))
		}
		x.until("it says why it has no work", func() bool {
			idle, warnings := x.status(1)
			return idle == "differs" && strings.Contains(warnings, why)
		})
		for i, want := range []int{x.value + 1, x.value, x.value + 1} {
			if !x.has(i, want) {
				x.fail(fmt.Sprintf("%s: host %s does not have %d", why, x.name(i), want))
			}
		}
		mend()
		x.value++
		began := time.Now()
		x.all("it mends itself", x.value)
		x.t.Logf("%s: it has what was agreed on %s after the file can be written", why, time.Since(began).Round(time.Millisecond))
	}
}

func (x *trio) fill() (mend func()) {
	path := filepath.Join(x.disk, "filler")
	f, err := os.Create(path)
	if err != nil {
		x.t.Fatal(err)
	}
	defer f.Close()
	if _, err := io.Copy(f, endless{}); !errors.Is(err, unix.ENOSPC) {
		x.t.Fatal(err)
	}
	return func() {
		if err := os.Remove(path); err != nil {
			x.t.Fatal(err)
		}
	}
}

func (x *trio) protect() (mend func()) {
	x.run("mount", "-o", "remount,ro", x.disk)
	return func() { x.run("mount", "-o", "remount,rw", x.disk) }
}
