// Package quota bounds what sessions and senders hold of the host together: disk, sandboxes, background processes, new sessions.
//
// Start with Keeper. Whatever a stranger can make the host hold asks it first: Open (a session), Sandbox (a container), Process (a
// background process), Write (bytes that the host puts into a workspace) and Reserve (bytes that a container may). It says no with a
// Refusal, whose words are for people. Nothing is taken away that is in use; what is idle is, oldest first, where a Live says so.
//
// A session belongs to the sender who spoke last in its place. Where none is known it counts for the host alone.
package quota

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/message"
)

// Limits are what may be held; 0 is no limit.
type Limits struct {
	SenderSessions                   int // begun within a day
	SenderSandboxes, Sandboxes       int // containers that live
	SenderProcesses, Processes       int // in the background
	SessionDisk, SenderDisk, AllDisk int64
}

// Refusal says what is full, and what makes room.
type Refusal string

func (r Refusal) Error() string { return string(r) }

// Live is a container that lives.
type Live struct {
	Session string
	Folder  string // what Reserve was asked about for it
	// Idle says that nothing runs in it, Since since when.
	Idle  bool
	Since time.Time
}

// Config is what a Keeper needs.
type Config struct {
	// Measure returns what a session's workspace takes, in bytes.
	Measure func(session string) int64
	// Media returns what the media of a sender take besides, in bytes; nil is nothing.
	Media func(sender message.SenderKey) int64
	// Running counts the background processes of each session.
	Running func() map[string]int
	// Place returns the place that a session is in.
	Place func(session string) string
	Now   func() time.Time // nil is time.Now
}

// Keeper counts. Its methods are safe for concurrent use.
type Keeper struct {
	config Config

	starting sync.Mutex // held while one background process is counted in
	mu       sync.Mutex
	limits   Limits
	sessions map[string]*holding
	total    int64                                      // of all holdings, what is reserved besides
	senders  map[string]message.SenderKey               // who spoke last, by place
	opened   map[message.SenderKey]map[string]time.Time // by sender, each place that he opened within a day
	told     map[message.SenderKey]time.Time            // by sender, when he last was told that he has opened too many
}

// holding is what a session holds.
type holding struct {
	bytes    int64
	measured bool
	changed  bool      // bytes may be less or more by now
	reserved int64     // what its container may hold
	gone     bool      // it is not counted any more
	at       time.Time // when it was measured, and how long that took
	took     time.Duration
}

// New returns a Keeper without limits.
func New(c Config) *Keeper {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Media == nil {
		c.Media = func(message.SenderKey) int64 { return 0 }
	}
	return &Keeper{config: c, sessions: map[string]*holding{}, senders: map[string]message.SenderKey{}, opened: map[message.SenderKey]map[string]time.Time{}, told: map[message.SenderKey]time.Time{}}
}

// Configure sets the limits. Nothing that is over them already is removed.
func (k *Keeper) Configure(l Limits) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.limits = l
}

// Restore takes over a session that there was before, and who spoke in it last.
func (k *Keeper) Restore(session string, sender message.SenderKey) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.of(session)
	k.senders[k.config.Place(session)] = sender
}

// Changed says that a session's workspace may change.
func (k *Keeper) Changed(session string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.of(session).changed = true
}

// sender is the one whom a session belongs to, or "". k.mu is held.
func (k *Keeper) sender(session string) message.SenderKey {
	session, _, _ = strings.Cut(session, "\x00") // what follows is a folder of one of its sandboxes
	return k.senders[k.config.Place(session)]
}

// Forget drops a session that was deleted.
func (k *Keeper) Forget(session string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for s, h := range k.sessions {
		if s == session || strings.HasPrefix(s, session+"\x00") {
			k.total -= h.bytes + h.reserved
			h.gone = true
			delete(k.sessions, s)
		}
	}
	delete(k.senders, k.config.Place(session))
}

// of is a session's holding. k.mu is held.
func (k *Keeper) of(session string) *holding {
	h, ok := k.sessions[session]
	if !ok {
		h = &holding{changed: true}
		k.sessions[session] = h
	}
	return h
}

// measureEvery is the time between two looks at the workspaces that have changed.
const measureEvery = time.Minute

// Run measures workspaces until ctx ends: all at first, then those that may have changed.
func (k *Keeper) Run(ctx context.Context) error {
	tick := time.NewTicker(measureEvery)
	defer tick.Stop()
	for {
		k.mu.Lock()
		sessions := slices.Collect(maps.Keys(k.sessions))
		k.mu.Unlock()
		for _, s := range sessions {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			k.measure(s, false)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// measure looks at a session's workspace if it may have changed, or in any case.
func (k *Keeper) measure(session string, always bool) {
	k.mu.Lock()
	h := k.of(session)
	if h.measured && !h.changed && !always {
		k.mu.Unlock()
		return
	}
	h.changed = h.reserved > 0 // as long as a container lives
	k.mu.Unlock()
	began := k.config.Now()
	bytes := k.config.Measure(session)
	ended := k.config.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	h.at, h.took = ended, ended.Sub(began)
	k.add(h, bytes-h.bytes, 0)
	h.measured = true
}

// Bytes returns what a session's workspace takes, as it was last measured.
func (k *Keeper) Bytes(session string) int64 {
	k.measureOnce(session)
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.of(session).bytes
}

// measureOnce measures a session's workspace unless that was done before.
func (k *Keeper) measureOnce(session string) {
	k.mu.Lock()
	measured := k.of(session).measured
	k.mu.Unlock()
	if !measured {
		k.measure(session, true)
	}
}

// fits reports whether a session may hold so much.
func (k *Keeper) fits(session string, need int64) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	room, _ := k.room(session, need)
	return room >= need
}

// day is how long an opened session counts.
const day = 24 * time.Hour

// Open takes down that a sender speaks in a place, and refuses it where that opens one place too many. free says that this sender may
// open any number.
func (k *Keeper) Open(sender message.SenderKey, place string, free bool) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, known := k.senders[place]
	if !known && !free {
		if err := k.open(sender, place); err != nil {
			return err
		}
	}
	k.senders[place] = sender
	return nil
}

func (k *Keeper) open(sender message.SenderKey, place string) error {
	limit, now := k.limits.SenderSessions, k.config.Now()
	if limit == 0 {
		return nil
	}
	places := k.opened[sender]
	maps.DeleteFunc(places, func(_ string, at time.Time) bool { return now.Sub(at) >= day })
	if len(places) >= limit {
		return Refusal(fmt.Sprintf("you have opened %d conversations within a day, and no more are allowed: go on in one of them", len(places)))
	}
	if places == nil {
		k.forgetOldOpenings(now)
		places = map[string]time.Time{}
		k.opened[sender] = places
	}
	places[place] = now
	return nil
}

// Tell reports whether a sender whom Open has refused is to be told so, which he is once a day.
func (k *Keeper) Tell(sender message.SenderKey) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.config.Now()
	if at, ok := k.told[sender]; ok && now.Sub(at) < day {
		return false
	}
	if len(k.told) >= maxSenders {
		clear(k.told)
	}
	k.told[sender] = now
	return true
}

// maxSenders bounds whose openings are remembered; beyond it those go that are over first, and then all.
const maxSenders = 10_000

// forgetOldOpenings makes room for another sender. k.mu is held.
func (k *Keeper) forgetOldOpenings(now time.Time) {
	if len(k.opened) < maxSenders {
		return
	}
	maps.DeleteFunc(k.opened, func(_ message.SenderKey, places map[string]time.Time) bool {
		maps.DeleteFunc(places, func(_ string, at time.Time) bool { return now.Sub(at) >= day })
		return len(places) == 0
	})
	if len(k.opened) >= maxSenders {
		clear(k.opened)
	}
}

// Sandbox decides whether a session may have another container beside those that live. Where an idle one has to go for that it
// returns the place of it in live, otherwise -1; ask again once it is gone.
func (k *Keeper) Sandbox(session string, live []Live) (evict int, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	sender := k.sender(session)
	his := func(l Live) bool { return sender != "" && k.sender(l.Session) == sender }
	everybody := func(Live) bool { return true }
	if limit := k.limits.SenderSandboxes; over(limit, live, his) {
		if i := oldestIdle(live, his); i >= 0 {
			return i, nil
		}
		return -1, Refusal(fmt.Sprintf("you have %d sandboxes in which something runs, and no more are allowed: end a background process", limit))
	}
	if limit := k.limits.Sandboxes; over(limit, live, everybody) {
		if i := oldestIdle(live, everybody); i >= 0 {
			return i, nil
		}
		return -1, Refusal(fmt.Sprintf("this host has %d sandboxes in which something runs, and no more are allowed: try again later", limit))
	}
	return -1, nil
}

func over(limit int, live []Live, counts func(Live) bool) bool {
	n := 0
	for _, l := range live {
		if counts(l) {
			n++
		}
	}
	return limit > 0 && n >= limit
}

func oldestIdle(live []Live, counts func(Live) bool) int {
	oldest := -1
	for i, l := range live {
		if l.Idle && counts(l) && (oldest < 0 || l.Since.Before(live[oldest].Since)) {
			oldest = i
		}
	}
	return oldest
}

// Process has enter begin a background process of a session, which must count by the time enter returns, unless there are too many.
func (k *Keeper) Process(session string, enter func() error) error {
	k.starting.Lock()
	defer k.starting.Unlock()
	if err := k.mayStart(session, k.config.Running()); err != nil {
		return err
	}
	return enter()
}

func (k *Keeper) mayStart(session string, running map[string]int) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	sender := k.sender(session)
	his, all := 0, 0
	for s, n := range running {
		all += n
		if sender != "" && k.sender(s) == sender {
			his += n
		}
	}
	switch l := k.limits; {
	case l.SenderProcesses > 0 && his >= l.SenderProcesses:
		return Refusal(fmt.Sprintf("you have %d background processes, and no more are allowed: end one first", his))
	case l.Processes > 0 && all >= l.Processes:
		return Refusal(fmt.Sprintf("this host has %d background processes, and no more are allowed: try again later", all))
	}
	return nil
}

// Write refuses bytes for a workspace that has no room for them, and counts them otherwise.
func (k *Keeper) Write(session string, bytes int64) error {
	return k.retry(session, func() error { return k.write(session, bytes) })
}

// retry measures a session's workspace and tries again where try fails: the last measurement may be old.
func (k *Keeper) retry(session string, try func() error) error {
	err := try()
	if err != nil {
		k.measure(session, true)
		err = try()
	}
	return err
}

func (k *Keeper) write(session string, bytes int64) error {
	k.measureOnce(session)
	k.mu.Lock()
	defer k.mu.Unlock()
	h := k.of(session)
	room, why := k.room(session, h.bytes+bytes)
	if h.bytes+bytes > room {
		return why
	}
	k.add(h, bytes, 0)
	h.changed = true
	return nil
}

// Command refuses a command on the host while the session's workspace holds more than it may. What a command writes is counted only after
// its end.
func (k *Keeper) Command(session string) error {
	if k.stale(session) {
		k.measure(session, true)
	}
	return k.retry(session, func() error { return k.command(session) })
}

func (k *Keeper) command(session string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	h := k.of(session)
	if room, why := k.room(session, h.bytes); room < h.bytes {
		return why
	}
	h.changed = true
	return nil
}

// measureShare is how much longer than a measurement takes a workspace goes without another one.
const measureShare = 20

// stale reports whether a workspace was not measured yet, or has changed and was not measured for a while.
func (k *Keeper) stale(session string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	h := k.of(session)
	return !h.measured || h.changed && k.config.Now().Sub(h.at) >= measureShare*h.took
}

// Reserve lets a session's container hold up to most bytes in its workspace, 0 for as much as there is room, and returns how much it
// may. What is reserved counts as held until release is called. A session that holds too much already may hold less than it does, so
// that all it can do is delete.
func (k *Keeper) Reserve(session string, most int64) (bytes int64, release func(), err error) {
	need := most
	if most == 0 {
		need = unlimited
	}
	k.measureOnce(session)
	if !k.fits(session, need) { // what is known may be old
		k.measure(session, true)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	h := k.of(session)
	room, why := k.room(session, need)
	switch {
	case room >= unlimited:
		return most, func() {}, nil // nothing counts it
	case room <= 0 && h.bytes == 0:
		return 0, nil, why
	case most == 0 || room < most:
		most = max(room, 1)
	}
	k.add(h, 0, most)
	h.changed = true
	var once sync.Once
	return most, func() {
		once.Do(func() {
			k.mu.Lock()
			defer k.mu.Unlock()
			k.add(h, 0, -most)
		})
	}, nil
}

// FreesDisk returns the place in live of the container that has to go for Reserve to return more: of the sender's idle ones that keep more
// reserved than their workspaces take, the one that has been idle longest; or -1.
func (k *Keeper) FreesDisk(session string, most int64, live []Live) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	sender := k.sender(session)
	if l := k.limits.SessionDisk; l > 0 {
		most = min(most, l)
	}
	if sender == "" || most == 0 || k.limits.SenderDisk == 0 {
		return -1
	}
	his := k.config.Media(sender)
	for s, h := range k.sessions {
		if s != session && k.sender(s) == sender {
			his += h.held()
		}
	}
	if his+most <= k.limits.SenderDisk {
		return -1 // something else is in the way
	}
	return oldestIdle(live, func(l Live) bool {
		h := k.sessions[l.Folder]
		return h != nil && h.reserved > h.bytes && k.sender(l.Session) == sender
	})
}

// unlimited is more than any disk has.
const unlimited = int64(1) << 62

// add counts what is more. k.mu is held.
func (k *Keeper) add(h *holding, bytes, reserved int64) {
	h.bytes += bytes
	h.reserved += reserved
	if !h.gone {
		k.total += bytes + reserved
	}
}

// room is how much a session may hold in all, and what to say where that is too little. It is no more than need where that is known to be
// there without adding up what all sessions hold. k.mu is held.
func (k *Keeper) room(session string, need int64) (bytes int64, why Refusal) {
	of, sender := k.of(session), k.sender(session)
	var his int64 // without this session
	if sender != "" && k.limits.SenderDisk > 0 {
		his = k.config.Media(sender)
	}
	if l := k.limits; need < unlimited && fits(need, l.SessionDisk) && fits(his+k.total+need, l.SenderDisk) && fits(k.total+need, l.AllDisk) {
		return need, ""
	}
	bytes = unlimited
	tighten := func(limit, others int64, words string) {
		if left := limit - others; limit > 0 && left < bytes {
			bytes, why = left, Refusal(fmt.Sprintf(words, Size(others+of.held()), Size(limit)))
		}
	}
	var all int64 // without this session
	for s, h := range k.sessions {
		if h == of {
			continue
		}
		all += h.bytes
		if sender != "" && k.sender(s) == sender {
			his += h.held()
		}
	}
	tighten(k.limits.SessionDisk, 0, "the files of this conversation take %s of %s: delete some first")
	if sender != "" {
		tighten(k.limits.SenderDisk, his, "the files of your conversations, with those that you have sent, take %s of %s: delete some first")
	}
	tighten(k.limits.AllDisk, all, "the files of all conversations on this host take %s of %s: its owner has to make room")
	return bytes, why
}

// MediaRoom returns how many bytes the media of a sender may take beside his workspaces, 0 for any number, and what to say where that is too
// little.
func (k *Keeper) MediaRoom(sender message.SenderKey) (most int64, why error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	limit := k.limits.SenderDisk
	if limit == 0 || sender == "" {
		return 0, nil
	}
	var his int64
	for s, h := range k.sessions {
		if k.sender(s) == sender {
			his += h.held()
		}
	}
	return max(limit-his, 1), Refusal(fmt.Sprintf("the files of your conversations take %s of %s: delete some first", Size(his), Size(limit)))
}

// fits reports whether a limit, if it is one, allows so much.
func fits(bytes, limit int64) bool { return limit == 0 || bytes <= limit }

// held is what a session's workspace takes, or may come to take.
func (h *holding) held() int64 { return max(h.bytes, h.reserved) }

// Size writes a number of bytes for people.
func Size(n int64) string {
	const unit = 1 << 10
	f, names := float64(n), []string{"bytes", "KiB", "MiB", "GiB", "TiB"}
	i := 0
	for ; f >= unit && i < len(names)-1; i++ {
		f /= unit
	}
	if i == 0 {
		return fmt.Sprintf("%d bytes", n)
	}
	return fmt.Sprintf("%.1f %s", f, names[i])
}

// Session is what one session may hold. It implements the Quota of package machine.
type Session struct {
	keeper *Keeper
	key    string
}

// Session returns the quota of a session.
func (k *Keeper) Session(key string) Session { return Session{k, key} }

// Write refuses bytes that the workspace has no room for; see Keeper.Write.
func (s Session) Write(bytes int64) error { return s.keeper.Write(s.key, bytes) }

// Command refuses a command while the workspace holds more than it may.
func (s Session) Command() error { return s.keeper.Command(s.key) }

// Process has enter begin a background process, unless there are too many.
func (s Session) Process(enter func() error) error { return s.keeper.Process(s.key, enter) }
