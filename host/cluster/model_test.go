package cluster

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/sqlite"
)

// The model makes processes of three hosts start, renew, stop for a while, lose the store, die and come back, in any order, and lets the
// store be rolled back as by a failover to a replica. The store and its clock are real: time passes by moving the leases back. A term
// lasts hours, so that the time that the test itself takes does not count.
const (
	modelTerm  = 4*time.Hour + 30*time.Second // never ends at the time of an event
	modelEvery = time.Hour
	modelReach = 20*time.Minute + 7*time.Second // nor this, nor its double
)

// fault is a mistake that the model has to find.
type fault string

const (
	noIncarnation fault = "incarnations are not compared"
	hostClock     fault = "leases expire by the clock of the claiming host"
	timeOfReply   fault = "a term counts from the answer to the renewal"
	keepsCache    fault = "what is in memory is kept when a key is lost"
	sameEpoch     fault = "a claim does not change the epoch"
	notHeldBack   fault = "effects are not held back"
	noWait        fault = "a host does not wait for its predecessor"
	noGrace       fault = "leases are not extended after a rollback"
	survives      fault = "incarnations survive a rollback"
	deafToLoss    fault = "signals of lost keys are ignored"
	trustsClaims  fault = "the answer to a claim counts though the key was lost since"
	sendsUnmarked fault = "a send that may have happened is repeated without a mark"
	farReach      fault = "a host acts for its whole lease though its connection may have ended"
	neverSweeps   fault = "nobody looks for what dead hosts leave"
)

// faults are all of them, each with a seed with which it is found at once. If the model changes, it takes longer.
var faults = map[fault]string{
	noIncarnation: "1123251510043029431",
	hostClock:     "14499837990786210849",
	timeOfReply:   "9008796574951294592",
	keepsCache:    "14091084859694450251",
	sameEpoch:     "3854626994432771699",
	notHeldBack:   "10459307559233168415",
	noWait:        "17693901479965014580",
	noGrace:       "12517299701008628733",
	survives:      "17629625172182212053",
	deafToLoss:    "14727549982576821300",
	trustsClaims:  "16792084259776341642",
	sendsUnmarked: "15112745103955972072",
	farReach:      "15610633084748703285",
	neverSweeps:   "3746402024347188949",
}

const deliveries = store.OwnerKey("channel irc")

var errCut = errors.New("the store cannot be reached")

// truth is what must be so, whatever the processes believe.
type truth struct {
	host     map[store.OwnerKey]string
	granted  map[store.OwnerKey]int // when the key went to that host
	expires  map[string]time.Duration
	parted   map[string]time.Duration // when a host whose connection has ended cannot act any more
	reach    map[string]time.Duration
	begins   map[string]time.Duration // when the predecessor of a process cannot act any more
	open     map[int64]store.OwnerKey // messages without an answer
	answers  map[store.OwnerKey]int
	messages int
	unsent   map[string]bool
	clean    map[string]int // sends that are not marked as possible repetitions
	sends    map[string]int
}

func (v truth) clone() truth {
	v.host, v.granted, v.expires, v.open = maps.Clone(v.host), maps.Clone(v.granted), maps.Clone(v.expires), maps.Clone(v.open)
	v.begins, v.parted, v.reach = maps.Clone(v.begins), maps.Clone(v.parted), maps.Clone(v.reach)
	v.answers, v.unsent, v.clean, v.sends = maps.Clone(v.answers), maps.Clone(v.unsent), maps.Clone(v.clean), maps.Clone(v.sends)
	return v
}

type world struct {
	*rapid.T
	random *rand.Rand // rapid prefers small numbers, and with them some actions
	backend
	fault fault
	truth
	now     time.Duration
	count   int // of what has happened
	procs   []*process
	current map[string]*process
	watched bool                   // connections that end are noticed
	acted   map[store.OwnerKey]int // order of the latest owner that has begun an effect
	saved   *truth
	restore func()
}

// process is one start of a host.
type process struct {
	w              *world
	store          store.Store
	m              *Member
	host           string
	start          int           // when it began, in world.count
	begun          time.Duration // the same, in world.now
	rate, skew     float64       // of its clocks
	paused, cut    bool
	connected      bool // holds the lock of its host
	dead, outdated bool // outdated: from before a rollback
	stage          int  // of its renewal: 1 sent, 2 carried out
	sent           time.Time
	lease          store.Lease
	renewal        store.Renewal
	err            error
	last           time.Duration // of its renewals
	want           map[store.OwnerKey]bool
	jobs           map[store.OwnerKey]*job
	late           []late
	cache          map[store.OwnerKey]int // answers of a conversation
	orders         map[*hold]int
	beaten         bool // its lease was renewed
}

type job struct {
	stage int
	claim *claim
	owner store.Owner
	err   error
	order int
	hold  *hold
	row   mailbox.InboxRow
	base  int
	out   mailbox.OutboxRow
}

// Lost implements Work.
func (p *process) Lost(key store.OwnerKey) {
	if p.w.fault != keepsCache {
		delete(p.cache, key)
	}
	p.abandon(key)
}

// abandon ends a job. An effect that was admitted, or a write that was sent, may still happen.
func (p *process) abandon(key store.OwnerKey) {
	if j := p.jobs[key]; j != nil && j.stage >= 4 {
		p.late = append(p.late, late{key, j})
	}
	delete(p.jobs, key)
}

type late struct {
	key store.OwnerKey
	job *job
}

// Signaled implements Work.
func (p *process) Signaled(key store.OwnerKey) { p.want[key] = true }

// Controlled implements Work.
func (p *process) Controlled() {}

// Stopped implements Work.
func (p *process) Stopped(store.OwnerKey) {}

// Admitted implements Work.
func (p *process) Admitted() []store.Count { return nil }

// Counted implements Work.
func (p *process) Counted(store.Count) {}

// Vacant implements Work.
func (p *process) Vacant() {
	if p.w.fault == neverSweeps {
		return
	}
	ctx := context.Background()
	pending, err := p.store.PendingInbox(ctx)
	for _, r := range pending {
		p.want[store.ConversationOwner(r.Message.ConversationKey())] = true
	}
	unsent, err2 := p.store.UnsentOutbox(ctx)
	if len(unsent) > 0 {
		p.want[deliveries] = true
	}
	if err := errors.Join(err, err2); err != nil {
		p.w.Fatal(err)
	}
}

func (p *process) clock() time.Time {
	return time.Unix(0, 0).Add(time.Duration(float64(p.w.now-p.begun) * p.rate))
}

func (p *process) runs() bool { return !p.dead && !p.paused }

func (p *process) String() string { return fmt.Sprintf("%s (start %d)", p.host, p.start) }

func newWorld(t *rapid.T, b backend, f fault) *world {
	w := &world{T: t, random: rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1)), backend: b, fault: f, current: map[string]*process{}, acted: map[store.OwnerKey]int{}, truth: truth{
		host: map[store.OwnerKey]string{}, granted: map[store.OwnerKey]int{}, expires: map[string]time.Duration{}, begins: map[string]time.Duration{}, parted: map[string]time.Duration{}, reach: map[string]time.Duration{}, open: map[int64]store.OwnerKey{},
		answers: map[store.OwnerKey]int{}, unsent: map[string]bool{}, clean: map[string]int{}, sends: map[string]int{},
	}}
	w.watched = w.between(0, 3) > 0
	w.begin("a")
	return w
}

func (w *world) begin(host string) {
	w.count++
	p := &process{
		w: w, store: w.join(host), host: host, start: w.count, begun: w.now, rate: 1 + float64(w.between(-8, 8))/100,
		skew: float64(w.between(-8, 8)), want: map[store.OwnerKey]bool{}, jobs: map[store.OwnerKey]*job{},
		cache: map[store.OwnerKey]int{}, orders: map[*hold]int{}, connected: true,
	}
	if old := w.current[host]; old != nil {
		old.connected = false
	}
	p.m = New(Config{Owners: p.store, Term: modelTerm, Every: modelEvery, Reach: modelReach, Now: p.clock, Log: slog.New(slog.DiscardHandler)})
	p.m.work = p
	w.procs = append(w.procs, p)
	w.current[host], w.begins[host] = p, w.expires[host]
}

func (w *world) between(low, high int) int { return low + w.random.IntN(high-low+1) }

func pick[T any](w *world, list []T) T { return list[w.random.IntN(len(list))] }

// owner returns the host that owns a key.
func (w *world) owner(key store.OwnerKey) string {
	if host, is := w.host[key]; is {
		return host
	}
	return store.DefaultHost
}

func (w *world) alive(host string) bool {
	from, parted := w.parted[host]
	return w.expires[host] > w.now && (!parted || from > w.now)
}

// notice lets a process see that the connection of another host has ended.
func (w *world) notice(by *process) {
	for _, host := range slices.Sorted(maps.Keys(w.expires)) {
		if p := w.current[host]; host == by.host || p != nil && p.connected || w.current[by.host] != by {
			continue
		}
		if err := by.store.(*sqlite.Store).Ended(context.Background(), host, "SELECT ? <> ''"); err != nil {
			w.Fatalf("%s notices the end of %s: %v", by, host, err)
		}
		if _, is := w.parted[host]; !is && w.reach[host] > 0 && w.expires[host] > w.now {
			w.parted[host] = max(w.now+w.reach[host], w.begins[host])
		}
	}
}

// order says when a process was granted a key that its host owns.
func (w *world) order(p *process, key store.OwnerKey) int { return max(w.granted[key], p.start) }

// valid reports whether a write of a process for a key must succeed.
func (w *world) valid(p *process, key store.OwnerKey, order int) bool {
	return w.current[p.host] == p && w.owner(key) == p.host && w.order(p, key) == order
}

// through returns the store through which a process's request goes.
func (w *world) through(p *process) store.Store {
	if w.fault == noIncarnation && w.current[p.host] != nil {
		return w.current[p.host].store
	}
	return p.store
}

// grant makes a host the owner in truth, as a claim must do.
func (w *world) grant(p *process, key store.OwnerKey) (want error) {
	switch owner := w.owner(key); {
	case w.current[p.host] != p:
		return store.ErrFenced
	case owner == p.host:
	case w.alive(owner):
		return store.ErrOwned
	default:
		w.count++
		w.host[key], w.granted[key] = p.host, w.count
	}
	return nil
}

func (w *world) claim(p *process, key store.OwnerKey) (store.Owner, error) {
	ctx := context.Background()
	before, err := p.store.Owner(ctx, key)
	if err != nil {
		w.Fatal(err)
	}
	ahead := time.Duration(0)
	if w.fault == hostClock {
		ahead = time.Duration(p.skew * float64(time.Hour))
	}
	w.advance(ahead)
	o, err := w.through(p).Claim(ctx, key)
	w.advance(-ahead)
	if want := w.grant(p, key); !errors.Is(err, want) {
		w.Fatalf("%s claims %s of %+v: error is %v, want %v", p, key, before, err, want)
	}
	if err == nil && o.Host != before.Host && w.fault == sameEpoch {
		w.lower(key)
		o.Epoch--
	}
	return o, err
}

// wrote compares the outcome of a write for a key with what it must be.
func (w *world) wrote(p *process, key store.OwnerKey, j *job, what string, err error) bool {
	valid := w.valid(p, key, j.order)
	if valid == errors.Is(err, store.ErrFenced) || err != nil && !errors.Is(err, store.ErrFenced) {
		w.Fatalf("%s of %s for %s, whose owner is %q: valid is %v, error is %v", what, p, key, w.owner(key), valid, err)
	}
	return err == nil
}

// renew does the next step of a renewal: it is sent, carried out, heard.
func (w *world) renew(p *process) {
	switch p.stage {
	case 0:
		if p.runs() {
			p.sent, p.lease, p.stage = p.clock(), p.m.lease(nil), 1
			if !w.watched {
				p.lease.Reach = 0
			}
		}
	case 1:
		if p.cut || p.paused && !p.connected {
			p.stage = 0
			return
		}
		p.renewal, p.err = w.through(p).Renew(context.Background(), p.lease)
		if w.current[p.host] != p && !errors.Is(p.err, store.ErrFenced) {
			w.Fatalf("%s was replaced, and renews: %v", p, p.err)
		}
		if w.current[p.host] == p {
			if p.err != nil {
				w.Fatalf("%s renews: %v", p, p.err)
			}
			w.expires[p.host], p.last = w.now+modelTerm, w.now
			w.reach[p.host], p.connected, p.renewal.Watched = p.lease.Reach, true, w.watched
			delete(w.parted, p.host)
		}
		p.stage = 2
	case 2:
		if !p.runs() {
			return
		}
		p.stage = 0
		if p.cut {
			return
		}
		if w.fault == timeOfReply {
			p.sent = p.clock()
		}
		if w.fault == farReach {
			p.renewal.Watched = false
		}
		if w.fault == noWait {
			p.renewal.Wait = 0
		}
		if w.fault == deafToLoss {
			p.renewal.Signals = slices.DeleteFunc(p.renewal.Signals, func(s store.Signal) bool { return s.Kind == store.SignalLost })
		}
		if w.fault == trustsClaims {
			defer func() {
				for c := range p.m.claiming {
					c.lost = 0
				}
			}()
		}
		n, err := p.m.hear(p.sent, p.lease.Reach, p.renewal, p.err)
		if err == nil {
			p.beaten = true
			p.m.pass(n)
		}
	}
}

// beat lets a process renew as a whole.
func (w *world) beat(p *process) {
	for p.stage != 0 {
		w.renew(p)
	}
	for range 3 {
		w.renew(p)
	}
}

// pass lets time pass. Processes that run carry out before what they have admitted.
func (w *world) pass(d time.Duration) {
	for _, p := range w.procs {
		for _, key := range slices.Sorted(maps.Keys(p.jobs)) {
			if j := p.jobs[key]; p.runs() && j.stage == 4 {
				w.effect(p, key, j)
			}
		}
	}
	w.now += d
	w.advance(d)
}

// message lets a process take a message.
func (w *world) message(p *process, conversation string) {
	w.messages++
	m := message.Message{
		Channel: "irc", EventID: fmt.Sprint("e", w.count, ".", w.messages), Text: "hi", Conversation: message.Conversation{ID: conversation, Kind: message.Group},
		Sender: message.Sender{ID: "ann"},
	}
	w.count++
	key := store.ConversationOwner(m.ConversationKey())
	row, _, err := w.through(p).AppendInbox(context.Background(), m, mailbox.InboxNew, "")
	if fenced := w.current[p.host] != p; fenced != errors.Is(err, store.ErrFenced) || !fenced && err != nil {
		w.Fatalf("%s takes a message: %v", p, err)
	}
	if err != nil {
		return
	}
	w.open[row.ID] = key
	if w.expires[p.host] != 0 {
		w.grant(p, key)
	}
	p.want[key] = true
}

// work does the next step of a process's work for a key.
func (w *world) work(p *process, key store.OwnerKey) {
	j := p.jobs[key]
	if j == nil && !p.want[key] {
		return
	}
	if j == nil {
		j = &job{}
		p.jobs[key] = j
	}
	switch j.stage {
	case 0:
		w.enter(p, key, j)
	case 1:
		w.entered(p, key, j)
	case 2:
		w.load(p, key, j)
	case 3:
		w.check(p, key, j)
	case 4:
		w.effect(p, key, j)
	case 5:
		w.commit(p, key, j)
	}
}

func (w *world) enter(p *process, key store.OwnerKey, j *job) {
	if p.m.may(nil) != nil && w.fault != notHeldBack {
		return
	}
	h, c := p.m.claims(key)
	if h != nil {
		j.hold, j.order, j.stage = h, p.orders[h], 2
		return
	}
	if p.cut {
		p.m.claimed(c, store.Owner{}, errCut)
		return
	}
	delete(p.want, key) // set again by what comes until the answer is there
	j.claim, j.stage = c, 1
	j.owner, j.err = w.claim(p, key)
	j.order = w.order(p, key)
}

func (w *world) entered(p *process, key store.OwnerKey, j *job) {
	j.stage = 0
	if p.cut {
		p.m.claimed(j.claim, store.Owner{}, errCut)
		p.want[key] = true
		return
	}
	h, err := p.m.claimed(j.claim, j.owner, j.err)
	switch {
	case err != nil:
		p.over(key, j)
	case h != nil:
		p.orders[h], p.want[key] = j.order, true
		j.hold, j.stage = h, 2
	default:
		p.want[key] = true
	}
}

func (w *world) load(p *process, key store.OwnerKey, j *job) {
	if p.cut {
		return
	}
	ctx := context.Background()
	over := func() {
		delete(p.jobs, key)
		delete(p.want, key)
	}
	if key == deliveries {
		rows, err := p.store.UnsentOutbox(ctx)
		if err != nil {
			w.Fatal(err)
		}
		if len(rows) == 0 {
			over()
			return
		}
		j.out = rows[0]
		if j.out.State == mailbox.OutboxSending && w.fault != sendsUnmarked {
			j.out.Reply.PossibleDuplicate = true
		}
		j.out.State = mailbox.OutboxSending
		err = w.through(p).SetOutbox(store.WithEpoch(ctx, key, j.hold.epoch), j.out)
		if !w.wrote(p, key, j, "an attempt", err) {
			p.over(key, j)
			return
		}
		j.stage = 3
		return
	}
	rows, err := p.store.PendingInbox(ctx)
	if err != nil {
		w.Fatal(err)
	}
	rows = slices.DeleteFunc(rows, func(r mailbox.InboxRow) bool { return store.ConversationOwner(r.Message.ConversationKey()) != key })
	if len(rows) == 0 {
		over()
		return
	}
	j.row = rows[0]
	if _, is := p.cache[key]; !is {
		turns, err := p.store.History(ctx, "irc", j.row.Message.Conversation.ID, 1000)
		if err != nil {
			w.Fatal(err)
		}
		p.cache[key] = len(turns)
	}
	j.base, j.stage = p.cache[key], 3
}

// over ends a job, which may not be the current one of its key.
func (p *process) over(key store.OwnerKey, j *job) {
	if p.jobs[key] == j {
		delete(p.jobs, key)
	}
	p.late = slices.DeleteFunc(p.late, func(l late) bool { return l.job == j })
}

// check admits an effect, and checks that no other process can own the key by now.
func (w *world) check(p *process, key store.OwnerKey, j *job) {
	if err := p.m.may(j.hold); errors.Is(err, store.ErrFenced) && w.fault != notHeldBack {
		delete(p.jobs, key)
		return
	} else if err != nil && w.fault != notHeldBack {
		return
	}
	if owner := w.owner(key); owner != p.host && !p.outdated {
		w.Fatalf("%s begins an effect for %s, which %q owns", p, key, owner)
	}
	if w.acted[key] > j.order {
		w.Fatalf("%s, the owner of %s since %d, begins an effect after the owner since %d has", p, key, j.order, w.acted[key])
	}
	w.acted[key], j.stage = j.order, 4
}

// effect carries out what was admitted.
func (w *world) effect(p *process, key store.OwnerKey, j *job) {
	j.stage = 5
	if key != deliveries || p.outdated { // what was written before a rollback may be gone
		return
	}
	w.sends[j.out.Reply.Key]++
	if j.out.Reply.PossibleDuplicate {
		return
	}
	if w.clean[j.out.Reply.Key]++; w.clean[j.out.Reply.Key] > 1 {
		w.Fatalf("%s sends %s again without a mark", p, j.out.Reply.Key)
	}
}

func (w *world) commit(p *process, key store.OwnerKey, j *job) {
	if p.cut {
		return
	}
	ctx := store.WithEpoch(context.Background(), key, j.hold.epoch)
	if key == deliveries {
		j.out.State = mailbox.OutboxSent
		if w.wrote(p, key, j, "a delivery", w.through(p).SetOutbox(ctx, j.out)) {
			delete(w.unsent, j.out.Reply.Key)
		}
		p.over(key, j)
		return
	}
	w.count++
	id := fmt.Sprintf("t%06d", w.count)
	t := turnlog.Turn{
		ID: id, Session: "s", Agent: "a", Channel: "irc", Conversation: j.row.Message.Conversation, Sender: "irc:ann", Inbox: []int64{j.row.ID},
		State: turnlog.TurnDone, Started: time.Unix(1, 0), Ended: time.Unix(2, 0),
	}
	r := message.Reply{Key: "answer of " + id, Channel: "irc", Conversation: j.row.Message.Conversation, Text: "ho"}
	err := w.through(p).CommitTurn(ctx, turnlog.Commit{Turn: t, InboxState: mailbox.InboxDone, Replies: []message.Reply{r}})
	if !w.wrote(p, key, j, "an answer", err) {
		p.over(key, j)
		return
	}
	if j.base != w.answers[key] {
		w.Fatalf("%s answers in %s with %d answers in mind; there are %d", p, key, j.base, w.answers[key])
	}
	w.answers[key]++
	delete(w.open, j.row.ID)
	w.unsent[r.Key] = true
	p.cache[key] = j.base + 1
	p.want[deliveries] = true
	p.over(key, j)
}

// leave stops a process in good order.
func (w *world) leave(p *process) {
	p.dead, p.connected, p.jobs, p.late = true, false, map[store.OwnerKey]*job{}, nil
	if err := p.m.leave(context.Background()); (w.current[p.host] != p) != errors.Is(err, store.ErrFenced) && !p.m.fenced {
		w.Fatalf("%s leaves: %v", p, err)
	} else if err != nil {
		return
	}
	if w.current[p.host] == p {
		w.gone(p)
	}
}

func (w *world) gone(p *process) {
	if w.begins[p.host] > w.now {
		w.expires[p.host] = w.begins[p.host]
		return
	}
	delete(w.expires, p.host)
	for key, host := range w.truth.host {
		if host == p.host {
			w.truth.host[key] = ""
		}
	}
}

// release lets a process give up a key. Work that has begun is given up with it, which is safe because it is bound to the epoch.
func (w *world) release(p *process, key store.OwnerKey) {
	if p.m.held[key] == nil {
		return
	}
	if j := p.jobs[key]; j != nil && j.stage == 4 {
		w.effect(p, key, j)
	}
	if err := p.m.Release(context.Background(), key); (err == nil) != (w.current[p.host] == p) {
		w.Fatalf("%s releases %s: %v", p, key, err)
	} else if err == nil && w.owner(key) == p.host {
		w.truth.host[key] = ""
	}
}

// rollBack takes the store back to what it was, as a failover to a replica that lags.
func (w *world) rollBack() {
	w.truth = w.saved.clone()
	w.restore()
	grace := modelTerm
	if w.fault == noGrace {
		grace = 0
	}
	w.failedOver(grace, w.fault != survives)
	for _, p := range w.procs {
		p.outdated = true
	}
	w.current, w.parted = map[string]*process{}, map[string]time.Duration{}
	for host := range w.expires {
		w.expires[host] = w.now + modelTerm
		w.begins[host] = w.expires[host]
	}
	w.saved = nil
}

// save keeps the state of the store. Leases that are kept are as old as the state.
func (w *world) save() {
	v := w.truth.clone()
	w.saved, w.restore = &v, w.backend.save()
}

var conversations = []string{"#one", "#two"}

func keys() []store.OwnerKey {
	keys := []store.OwnerKey{deliveries}
	for _, c := range conversations {
		keys = append(keys, store.ConversationOwner(message.NewConversationKey("irc", c)))
	}
	return keys
}

// action is something that may happen; it does nothing if there is no process that it could happen to.
type action struct {
	weight int
	do     func()
}

func (w *world) actions() []action {
	to := func(ok func(*process) bool, do func(*process)) func() {
		return func() {
			var list []*process
			for _, p := range w.procs {
				if !p.dead && ok(p) {
					list = append(list, p)
				}
			}
			if len(list) > 0 {
				do(pick(w, list))
			}
		}
	}
	any := func(*process) bool { return true }
	well := func(p *process) bool { return p.runs() && !p.cut }
	member := func(p *process) bool { return well(p) && p.beaten } // before that, others would not notice its death
	work := func(p *process, key store.OwnerKey, steps int) {
		for range steps {
			if p.runs() {
				w.work(p, key)
			}
		}
	}
	return []action{
		{20, to((*process).runs, func(p *process) { work(p, pick(w, keys()), w.between(1, 6)) })},
		{10, func() {
			for _, p := range w.procs {
				for _, key := range keys() {
					work(p, key, 6)
				}
			}
		}},
		{6, to((*process).runs, func(p *process) { // what was begun before a key was lost
			if len(p.late) == 0 {
				return
			}
			if l := p.late[0]; l.job.stage == 4 {
				w.effect(p, l.key, l.job)
			} else {
				w.commit(p, l.key, l.job)
			}
		})},
		{15, func() {
			w.pass(time.Duration(pick(w, []int{5, 20, 30, 60, 120, 300})) * time.Minute)
			lazy := w.between(0, 4) // 0: nobody renews; 1: every other
			for i, p := range w.procs {
				if p.runs() && w.now-p.last >= modelEvery && (lazy > 1 || lazy == 1 && i%2 == 0) {
					w.beat(p)
				}
			}
		}},
		{20, to(member, func(p *process) { w.message(p, pick(w, conversations)) })},
		{8, to(member, func(p *process) { // which another may have
			n := w.between(0, 1)
			to(well, func(q *process) { w.release(q, keys()[1+n]) })()
			w.message(p, conversations[n])
			work(p, keys()[1+n], w.between(0, 6))
		})},
		{10, to(any, w.renew)},
		{8, to((*process).runs, w.beat)},
		{5, to(func(p *process) bool { return well(p) && p.stage == 0 }, func(p *process) { // the answer is late
			w.renew(p)
			w.renew(p)
			w.pass(time.Duration(w.between(1, 200)) * time.Minute)
			w.renew(p)
		})},
		{4, to((*process).runs, func(p *process) { p.paused = true })},
		{6, to(func(p *process) bool { return p.paused }, func(p *process) { p.paused = false })},
		{4, to(any, func(p *process) { p.cut = true })},
		{6, to(func(p *process) bool { return p.cut }, func(p *process) { p.cut = false })},
		{2, to(any, func(p *process) { p.dead, p.connected = true, false })},
		{4, to(any, func(p *process) { p.connected = false })}, // until it renews
		{6, to(well, w.notice)},
		{2, to(well, w.leave)},
		{5, to(well, func(p *process) { w.release(p, pick(w, keys())) })},
		{6, func() {
			if len(w.procs) < 8 {
				w.begin(pick(w, []string{"a", "b", store.DefaultHost}))
			}
		}},
		{2, w.save},
		{1, func() {
			if w.saved != nil {
				w.rollBack()
			}
		}},
	}
}

// happen lets so many things happen.
func (w *world) happen(steps int) {
	var list []func()
	for _, a := range w.actions() {
		for range a.weight {
			list = append(list, a.do)
		}
	}
	for range steps {
		pick(w, list)()
	}
}

// settle lets those that live go on without trouble until everything is done.
func (w *world) settle() {
	for _, p := range w.procs {
		p.paused, p.cut = false, false
		if w.between(0, 2) == 0 || p.outdated || w.current[p.host] != p {
			p.dead, p.connected = true, false
		}
	}
	w.pass(0)
	late := modelTerm + modelEvery // a host that has just died lives that long for the store, and the others look as often
	if !slices.ContainsFunc(w.procs, func(p *process) bool { return !p.dead && p.m.may(nil) == nil }) {
		late += modelTerm/2 + modelEvery // for those that have to wait for their predecessors first
		if !slices.ContainsFunc(w.procs, (*process).runs) {
			w.begin("b")
		}
	}
	left := maps.Clone(w.open)
	from := w.now
	for w.now-from < 2*(sweepEvery+10)*modelEvery {
		for _, p := range w.procs {
			if p.dead {
				continue
			}
			w.beat(p)
			for range 10 * (len(w.open) + len(w.unsent) + 1) {
				for _, key := range keys() {
					w.work(p, key)
				}
			}
		}
		if w.now-from >= late {
			for _, key := range left {
				if o := w.current[w.owner(key)]; o == nil || o.dead {
					w.Fatalf("%s after the last death %s still belongs to %q", w.now-from, key, w.owner(key))
				}
			}
		}
		if len(w.open)+len(w.unsent) == 0 {
			break
		}
		w.pass(modelEvery)
	}
	if len(w.open)+len(w.unsent) > 0 {
		w.Fatalf("in the end there are %d messages without an answer and %d unsent answers", len(w.open), len(w.unsent))
	}
	for key, n := range w.clean {
		if n > 1 || w.sends[key] == 0 {
			w.Fatalf("%s was sent %d times, %d of them without a mark", key, w.sends[key], n)
		}
	}
}

func model(b func(*rapid.T) backend, f fault) func(*rapid.T) {
	return func(t *rapid.T) {
		w := newWorld(t, b(t), f)
		w.happen(rapid.SampledFrom([]int{20, 60, 120}).Draw(t, "steps"))
		w.settle()
	}
}

// TestModel finds nothing in the store and in Member, and finds each of the faults that are planted.
func TestModel(t *testing.T) {
	fresh := sqliteBackend(t)
	t.Run("no fault", func(t *testing.T) { rapid.Check(t, model(fresh, "")) })
	for _, f := range slices.Sorted(maps.Keys(faults)) {
		t.Run(strings.ReplaceAll(string(f), " ", "_"), func(t *testing.T) {
			setFlags(t, map[string]string{"rapid.checks": "5000", "rapid.nofailfile": "true", "rapid.shrinktime": "0s", "rapid.seed": faults[f]})
			found := &recorder{TB: t}
			done := make(chan struct{})
			go func() {
				defer close(done)
				rapid.Check(found, model(fresh, f))
			}()
			<-done
			if !found.failed {
				t.Errorf("the model did not find that %s", f)
			}
			t.Logf("%s", found.text)
		})
	}
}

func setFlags(t *testing.T, all map[string]string) {
	for name, value := range all {
		old := flag.Lookup(name).Value.String()
		if err := flag.Set(name, value); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { flag.Set(name, old) })
	}
}
