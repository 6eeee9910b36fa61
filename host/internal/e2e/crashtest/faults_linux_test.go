package crashtest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/internal/hosttest"
	"github.com/flynnhost/flynn/host/store/postgres/postgrestest"
	"github.com/flynnhost/flynn/sdk/need"
)

var faultNames = flag.String("fault", "", "only the faults of TestClusterFaults whose names contain it")

var faultRounds = flag.Int("faults", fromEnvironment("CLUSTER_FAULTS", 1), "rounds with each fault of TestClusterFaults once; the variable CLUSTER_FAULTS sets it as well")

// fault is something that goes wrong with two hosts and their database while people talk.
type fault struct {
	name string
	// do has it happen, to a host if it happens to one, and mends it. It returns how long people waited: for an answer to a message that the host had,
	// or, if no host could answer, from the moment at which it was mended.
	do func(x *faults, host int, had map[int]bool) time.Duration
}

var allFaults = []fault{
	{"a host is killed", (*faults).killHost},
	{"a host is paused", (*faults).pauseHost},
	{"a host is cut off from the database", (*faults).cutOffHost},
	{"all hosts are cut off from the database", (*faults).cutOffAll},
	{"the database is stopped", (*faults).stopDatabase},
	{"the database is killed", (*faults).killDatabase},
	{"the database stands still", (*faults).stall},
	{"the database is slow", (*faults).slow},
	{"the disk of the database is full", (*faults).fill},
	{"the clock of the database is an hour fast", (*faults).fast},
	{"the clock of the database is an hour slow", (*faults).behind},
	{"the hosts are cut off from each other", (*faults).cutBetween},
	{"one host does not hear the other", (*faults).deafen},
	{"the way between the hosts is slow", (*faults).slowBetween},
	{"the way between the hosts stands still", (*faults).holdBetween},
}

// The variable says that the test runs in namespaces of its own, where it may kill, cut and fill as it likes.
const insideFaults = "FLYNN_TEST_CLUSTER_FAULTS"

// TestClusterFaults has everything go wrong that two hosts on one database meet, one thing after the other in random order. Every message
// is answered once, and the pages of both hosts show it once.
func TestClusterFaults(t *testing.T) {
	if !inside(t) {
		return
	}
	x := newFaults(t)
	x.run(func() {
		for range *faultRounds {
			for _, i := range x.rng.Perm(len(allFaults)) {
				if f := allFaults[i]; strings.Contains(f.name, *faultNames) {
					x.meet(f)
				}
			}
		}
	})
	x.report()
	live := 0
	for _, v := range x.pages {
		live += v.live()
		if len(v.wrong) > 0 {
			t.Errorf("a page of %s: %q", v.conversation, v.wrong)
		}
	}
	t.Logf("%d pages have shown %d parts of answers while these were written", len(x.pages), live)
	if t.Failed() {
		x.explain()
	}
	for _, f := range allFaults {
		if took := x.took[f.name]; len(took) > 0 {
			p50, most := quantiles(took)
			t.Logf("%s, %d times: answers after p50 %s, max %s", f.name, len(took), p50.Round(time.Millisecond), most.Round(time.Millisecond))
		}
	}
	t.Logf("seed %d, %s", x.seed, time.Since(x.began).Round(time.Second))
}

// inside reports whether the test runs in namespaces of its own. Otherwise it has run there when inside returns.
func inside(t *testing.T) bool {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	if os.Getenv(insideFaults) == "" {
		inNamespaces(t)
		return false
	}
	return true
}

// inNamespaces runs the test in PID, mount and network namespaces of its own, as their first process.
func inNamespaces(t *testing.T) {
	unshare := []string{"unshare", "--pid", "--mount", "--net", "--fork", "--mount-proc", "--kill-child"}
	if out, err := exec.Command(unshare[0], append(unshare[1:], "iptables", "-L")...).CombinedOutput(); err != nil {
		need.Part(t, "namespace", fmt.Errorf("%w: %s", err, out))
	}
	hosttest.Build(t) // what it needs of the network, it has then
	dir, err := os.MkdirTemp("/var/tmp", "ff")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	args := append(slices.Clone(unshare[1:]), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=10h",
		fmt.Sprintf("-faults=%d", *faultRounds), "-fault="+*faultNames, fmt.Sprintf("-shared=%v", *sharedChannel), fmt.Sprintf("-seed=%d", *seed))
	cmd := exec.Command(unshare[0], args...)
	cmd.Env = append(os.Environ(), insideFaults+"=1", "TMPDIR="+dir)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	if err != nil || !strings.Contains(out.String(), "--- PASS") {
		t.Fatalf("%v: %s", err, out.String())
	}
	t.Log(out.String())
}

// faults is a cluster in whose namespaces all can fail.
type faults struct {
	*cluster
	server *postgrestest.Server
	disk   string // of the database
	ways   []*way // of each host to the database
	links  []*way // of the others to each host
	pages  []*page
	clock  string // the file with what the database's clock is off
	took   map[string][]time.Duration
}

// watched is how many conversations have a page open at each host.
const watched = 3

// databaseSize is the size of the disk on which the database lies.
const databaseSize = 1 << 30

func newFaults(t *testing.T) *faults {
	disk := filepath.Join(os.TempDir(), "disk")
	if err := errors.Join(os.Chmod(os.TempDir(), 0o755), os.Mkdir(disk, 0o755)); err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{{"ip", "link", "set", "lo", "up"}, {"mount", "-t", "tmpfs", "-o", fmt.Sprintf("size=%d,mode=1777", databaseSize), "tmpfs", disk}} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%q: %v: %s", command, err, out)
		}
	}
	x := &faults{disk: disk, clock: filepath.Join(disk, "clock"), took: map[string][]time.Duration{}}
	// A server that fills the disk with its log meets no fault but its own.
	o := postgrestest.Options{Dir: disk, Args: []string{"-c", "max_wal_size=100MB", "-c", "checkpoint_timeout=30s"}}
	library := "/usr/lib/" + machine() + "/faketime/libfaketime.so.1"
	_, err := os.Stat(library)
	need.Part(t, "faketime", err)
	o.Env = []string{"LD_PRELOAD=" + library, "FAKETIME_TIMESTAMP_FILE=" + x.clock, "FAKETIME_NO_CACHE=1", "FAKETIME_DONT_FAKE_MONOTONIC=1"}
	x.setClock(t, "+0")
	x.server = postgrestest.StartWith(t, o)
	database := x.server.Database(t)
	var urls, more []string
	for i := range 2 {
		w := newWay(t, fmt.Sprintf("127.0.0.%d", i+2), "unix", x.server.Socket())
		x.ways, urls = append(x.ways, w), append(urls, w.url(database))
		listen := fmt.Sprintf("127.0.1.%d:7650", i+2) // nothing else is in this namespace
		link := newWay(t, fmt.Sprintf("127.0.2.%d", i+2), "tcp", listen)
		x.links, more = append(x.links, link), append(more, fmt.Sprintf("listen = %q\nadvertise = %q\n", listen, net.JoinHostPort(link.address, link.port)))
	}
	x.cluster = newClusterAt(t, x.server.URL(database), urls, more...)
	x.faulty = true
	for i := range watched {
		for _, host := range x.hosts {
			x.pages = append(x.pages, pageOn(t, host, conversation(i)))
		}
	}
	return x
}

// machine is how Debian names the folder of libraries.
func machine() string {
	var u unix.Utsname
	_ = unix.Uname(&u)
	return unix.ByteSliceToString(u.Machine[:]) + "-linux-gnu"
}

// meet has a fault happen, to a host that has work.
func (x *faults) meet(f fault) {
	x.live()
	x.healthy()
	host, had := x.worker()
	took := f.do(x, host, had)
	x.t.Logf("%s: %s, over at %s", f.name, took.Round(time.Millisecond), time.Now().Format("15:04:05.000"))
	if took > 0 { // otherwise it met no work
		x.took[f.name] = append(x.took[f.name], took)
	}
}

// healthy waits until each host answers again as one without trouble.
func (x *faults) healthy() {
	ctx, cancel := context.WithTimeout(x.t.Context(), time.Minute)
	defer cancel()
	for _, p := range x.hosts {
		if err := p.Ready(ctx); err != nil {
			x.fail(err.Error())
		}
	}
	x.again(time.Now())
	x.shown()
}

// again waits for an answer after a moment, and returns how long it took.
func (x *faults) again(since time.Time) time.Duration {
	for late := time.After(time.Minute); ; {
		_, changed := x.journal.unanswered()
		if at := x.journal.latest(); at.After(since) {
			return at.Sub(since)
		}
		select {
		case <-changed:
		case <-late:
			x.stuck("nothing is answered any more")
		}
	}
}

// stuck fails with what the database does.
func (x *faults) stuck(what string) {
	conn, err := pgx.Connect(x.t.Context(), x.database)
	if err != nil {
		x.fail(what + "; the database does not answer: " + err.Error())
	}
	defer conn.Close(context.Background())
	var doing string
	err = conn.QueryRow(x.t.Context(), `SELECT string_agg(concat_ws(' | ', pid, state, wait_event_type, wait_event, 'blocked by ' || pg_blocking_pids(pid)::text,
		clock_timestamp() - xact_start, clock_timestamp() - state_change, left(query, 160)), E'\n') FROM pg_stat_activity WHERE datname = current_database()`).Scan(&doing)
	x.fail(fmt.Sprintf("%s; the database does (%v):\n%s\n", what, err, doing))
}

// explain logs what the store has about messages that were answered out of order, and when each was answered.
func (x *faults) explain() {
	conn, err := pgx.Connect(x.t.Context(), x.database)
	if err != nil {
		x.t.Fatal(err)
	}
	defer conn.Close(context.Background())
	for _, pair := range x.journal.check().disordered {
		var late, early int
		if _, err := fmt.Sscanf(pair, "%d after %d", &late, &early); err != nil {
			x.t.Fatal(err)
		}
		for _, id := range []int{early, late} {
			var stored string
			err := conn.QueryRow(x.t.Context(), `SELECT coalesce((SELECT concat('inbox ', id, ' ', state) FROM inbox WHERE event_id = $1), 'no inbox') || coalesce((SELECT string_agg(concat('; turn ', t.id, ' ', t.state, ' ',
				to_timestamp(t.started / 1e9)::time, ' to ', to_timestamp(t.ended / 1e9)::time, ', outbox ', o.id, ' ', o.state, ' ', o.note, ' ', o.attempts), '') FROM outbox o JOIN turns t ON t.id = o.turn
				WHERE convert_from(o.reply, 'UTF8') LIKE '%"' || $1 || '"%' OR convert_from(o.reply, 'UTF8') LIKE '%[' || $1 || ']%'), '')`, fmt.Sprint(id)).Scan(&stored)
			x.t.Logf("%s: message %d, answered at %s: %s, %v", pair, id, x.journal.firstOf(map[int]bool{id: true}, time.Time{}).Format("15:04:05.000"), stored, err)
		}
	}
}

func (x *faults) killHost(host int, had map[int]bool) time.Duration {
	took := x.kill(host, had)
	x.start(host)
	return took
}

func (x *faults) pauseHost(host int, had map[int]bool) time.Duration {
	if err := x.hosts[host].Pause(); err != nil {
		x.t.Fatal(err)
	}
	defer x.hosts[host].Resume()
	return x.meanwhile(had)
}

func (x *faults) cutOffHost(host int, had map[int]bool) time.Duration {
	x.ways[host].drop(true)
	defer x.ways[host].drop(false)
	return x.meanwhile(had)
}

// meanwhile lets a fault last that the other host notices, and returns how long it took until it answered.
func (x *faults) meanwhile(had map[int]bool) time.Duration {
	at := time.Now()
	took := x.answered(had, at)
	x.wait(time.Second, 4*time.Second)
	return took
}

// wait waits for a time between two others.
func (x *faults) wait(least, most time.Duration) {
	<-time.After(least + time.Duration(x.rng.Int64N(int64(most-least))))
}

func (x *faults) cutOffAll(int, map[int]bool) time.Duration {
	for _, w := range x.ways {
		w.drop(true)
	}
	x.wait(time.Second, 8*time.Second)
	for _, w := range x.ways {
		w.drop(false)
	}
	return x.again(time.Now())
}

func (x *faults) stopDatabase(int, map[int]bool) time.Duration { return x.without(x.server.Stop) }

func (x *faults) killDatabase(int, map[int]bool) time.Duration { return x.without(x.server.Kill) }

func (x *faults) without(end func()) time.Duration {
	end()
	x.wait(0, 6*time.Second)
	if err := x.server.Run(); err != nil {
		x.t.Fatal(err)
	}
	return x.again(time.Now())
}

func (x *faults) stall(int, map[int]bool) time.Duration {
	for _, w := range x.ways {
		w.hold(true)
	}
	x.wait(time.Second, 8*time.Second)
	for _, w := range x.ways {
		w.hold(false)
	}
	return x.again(time.Now())
}

func (x *faults) slow(int, map[int]bool) time.Duration {
	for _, w := range x.ways {
		w.delay.Store(int64(x.rng.IntN(45)+5) * int64(time.Millisecond))
		defer w.delay.Store(0)
	}
	at := time.Now()
	x.wait(3*time.Second, 6*time.Second)
	return x.again(at)
}

// fill leaves the database no room. It may end by itself then, and is started again when there is room.
func (x *faults) fill(int, map[int]bool) time.Duration {
	path := filepath.Join(x.disk, "filler")
	f, err := os.Create(path)
	if err != nil {
		x.t.Fatal(err)
	}
	defer f.Close()
	if _, err := io.Copy(f, endless{}); !errors.Is(err, unix.ENOSPC) {
		x.t.Fatal(err)
	}
	x.wait(2*time.Second, 6*time.Second)
	if err := os.Remove(path); err != nil {
		x.t.Fatal(err)
	}
	f.Close()
	select {
	case <-x.server.Ended():
		if err := x.server.Run(); err != nil {
			x.t.Fatal(err)
		}
	default:
	}
	return x.again(time.Now())
}

// endless is a file that never ends.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func (x *faults) cutBetween(host int, had map[int]bool) time.Duration {
	return x.handOver(host, had, func(on bool) {
		for _, l := range x.links {
			l.drop(on)
		}
	})
}

// deafen has all that one host sends to the other get lost: what it says by its own connections, and what it answers over those of the other.
func (x *faults) deafen(host int, had map[int]bool) time.Duration {
	from := x.rng.IntN(len(x.links))
	return x.handOver(host, had, func(on bool) {
		for i, l := range x.links {
			if i == from {
				l.rule(on, "--source")
			} else {
				l.rule(on, "--destination")
			}
		}
	})
}

func (x *faults) slowBetween(host int, had map[int]bool) time.Duration {
	delay := int64(x.rng.IntN(600)+50) * int64(time.Millisecond) // some of it is longer than an owner may be silent
	return x.handOver(host, had, func(on bool) {
		for _, l := range x.links {
			l.delay.Store(map[bool]int64{true: delay}[on])
		}
	})
}

func (x *faults) holdBetween(host int, had map[int]bool) time.Duration {
	return x.handOver(host, had, func(on bool) {
		for _, l := range x.links {
			l.hold(on)
		}
	})
}

// handOver has a host hand its work over while the way between the hosts is disturbed, and returns how long pages of both hosts took at most to show
// the latest answers. Afterwards answers are shown everywhere again while they are written.
func (x *faults) handOver(host int, had map[int]bool, disturb func(on bool)) time.Duration {
	disturb(true)
	most := x.shown()
	other, path := x.hosts[1-host], fmt.Sprintf(" /api/v1/cluster/hosts/%s/drain", x.name(host))
	at := time.Now()
	call := func(method string) {
		if err := other.Call(x.t.Context(), method+path, nil, nil); err != nil {
			x.fail(err.Error())
		}
	}
	call("PUT")
	answered := x.answered(had, at)
	for late := time.Now().Add(time.Minute); len(x.owned(host)) > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(late) {
			x.stuck(fmt.Sprintf("a host has not handed over %q", x.owned(host)))
		}
	}
	x.t.Logf("handed over after %s, answered after %s", time.Since(at).Round(time.Millisecond), answered.Round(time.Millisecond))
	most = max(most, x.shown())
	call("DELETE")
	x.wait(0, 2*time.Second)
	most = max(most, x.shown())
	disturb(false)
	x.lively()
	return most
}

// shown waits until all pages show the latest answers, and returns how long that took.
func (x *faults) shown() time.Duration {
	at, late := time.Now(), time.After(time.Minute)
	for i := range watched {
		id := x.journal.latestIn(conversation(i))
		for _, v := range x.pages {
			for has := false; v.conversation == conversation(i) && id > 0 && !has; {
				var changed <-chan struct{}
				if has, changed = v.has(id); has {
					break
				}
				select {
				case <-changed:
				case <-late:
					x.stuck(fmt.Sprintf("a page at %s does not show the answer to %d in %s", v.host.Dir, id, v.conversation))
				}
			}
		}
	}
	return time.Since(at)
}

// lively waits until all pages show an answer while it is written, those of the hosts too that do not write it.
func (x *faults) lively() {
	var before []int
	for _, v := range x.pages {
		before = append(before, v.live())
	}
	for late := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		i := -1
		for n, v := range x.pages {
			if v.live() <= before[n] {
				i = n
			}
		}
		if i < 0 {
			return
		}
		if time.Now().After(late) {
			x.stuck(fmt.Sprintf("a page at %s shows no answer in %s while it is written", x.pages[i].host.Dir, x.pages[i].conversation))
		}
	}
}

func (x *faults) fast(int, map[int]bool) time.Duration { return x.offClock("+3600") }

func (x *faults) behind(int, map[int]bool) time.Duration { return x.offClock("-3600") }

// offClock gives the database another clock for a while, as another machine has that takes its place. A running Postgres does not endure a clock that is
// set back, because its own timers use it: two transactions that are deadlocked at that moment wait until it is as late as before.
func (x *faults) offClock(by string) time.Duration {
	change := func(by string) time.Duration {
		return x.without(func() {
			x.server.Stop()
			x.setClock(x.t, by)
		})
	}
	took := change(by)
	x.wait(2*time.Second, 6*time.Second)
	return max(took, change("+0"))
}

func (x *faults) setClock(t *testing.T, by string) {
	next := x.clock + ".next"
	err := os.WriteFile(next, []byte(by+"\n"), 0o644)
	if err == nil {
		err = os.Rename(next, x.clock)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// way is how a host reaches the database or the other host: an address of its own, and what passes bytes on to what is meant.
type way struct {
	t       *testing.T
	address string
	port    string
	delay   atomic.Int64 // of each portion of bytes, in either direction

	mu   sync.Mutex
	held chan struct{} // closed when bytes pass; nil while they do
}

func newWay(t *testing.T, address, network, target string) *way {
	// It notices that the other side is gone as soon as the database does, which the store asks for it.
	settings := net.ListenConfig{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3}}
	lis, err := settings.Listen(t.Context(), "tcp", address+":0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(lis.Addr().String())
	w := &way{t: t, address: address, port: port}
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	t.Cleanup(func() {
		lis.Close()
		cancel()
		all.Wait()
	})
	all.Go(func() {
		for {
			near, err := lis.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial(network, target)
			if err != nil {
				near.Close()
				continue
			}
			for _, end := range [][2]net.Conn{{near, far}, {far, near}} {
				all.Go(func() { w.pass(ctx, end[0], end[1]) })
			}
		}
	})
	return w
}

func (w *way) url(database string) string {
	return "postgres://flynn@" + net.JoinHostPort(w.address, w.port) + "/" + database
}

// pass passes bytes on until either end closes, which closes the other.
func (w *way) pass(ctx context.Context, from, to net.Conn) {
	defer context.AfterFunc(ctx, func() { from.Close() })()
	defer to.Close()
	r, portion := bufio.NewReaderSize(from, 64<<10), make([]byte, 64<<10)
	for {
		n, err := r.Read(portion)
		if d := time.Duration(w.delay.Load()); d > 0 && n > 0 {
			<-time.After(d)
		}
		w.mu.Lock()
		held := w.held
		w.mu.Unlock()
		if held != nil {
			select {
			case <-held:
			case <-ctx.Done():
			}
		}
		if _, e := to.Write(portion[:n]); err != nil || e != nil {
			return
		}
	}
}

// hold keeps all bytes until they are let go.
func (w *way) hold(on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !on {
		close(w.held)
		w.held = nil
		return
	}
	w.held = make(chan struct{})
}

// drop has the kernel drop all packets to the address and from it, or no longer.
func (w *way) drop(on bool) {
	w.rule(on, "--source")
	w.rule(on, "--destination")
}

// rule has the kernel drop the packets whose source or destination is the address, or no longer.
func (w *way) rule(on bool, match string) {
	action := "-D"
	if on {
		action = "-A"
	}
	if out, err := exec.Command("iptables", action, "INPUT", match, w.address, "--jump", "DROP").CombinedOutput(); err != nil {
		w.t.Fatalf("iptables: %v: %s", err, out)
	}
}
