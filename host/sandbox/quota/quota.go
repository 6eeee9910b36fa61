// Package quota limits what sessions and senders hold on the host: disk space, sandboxes, background processes, new sessions.
//
// Start with Keeper. Callers ask it before they acquire anything on behalf of a sender: Open (a session), Sandbox (a container), Process (a
// background process), Write (bytes that the host writes to a workspace) and Reserve (bytes that a container may write). The error is a
// Refusal, whose text is for people. Nothing that is in use is taken away; idle containers are, the oldest first.
//
// A session belongs to the sender who spoke last in its conversation. If none is known, it counts towards the host's limits only.
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

// Limits are the limits; 0 means no limit.
type Limits struct {
	SenderSessions                   int // begun within a day
	SenderSandboxes, Sandboxes       int // live containers
	SenderProcesses, Processes       int // in the background
	SessionDisk, SenderDisk, AllDisk int64
}

// Refusal says which limit is reached, and how to make room.
type Refusal string

func (r Refusal) Error() string { return string(r) }

// Live is a live container.
type Live struct {
	Session message.WorkspaceKey
	Folder  message.WorkspaceKey // the folder given to Reserve for it
	// Idle is set if nothing runs in it, with Since as the beginning.
	Idle  bool
	Since time.Time
}

// Config configures a Keeper.
type Config struct {
	// Measure returns the size of a session's workspace in bytes.
	Measure func(session message.WorkspaceKey) int64
	// Media returns the size of a sender's media in bytes; nil means none.
	Media func(sender message.SenderKey) int64
	// Running counts the background processes of each session.
	Running func() map[message.WorkspaceKey]int
	// Place returns the conversation scope of a session.
	Place func(session message.WorkspaceKey) string
	Now   func() time.Time // nil means time.Now
}

// Keeper enforces the limits. Its methods are safe for concurrent use.
type Keeper struct {
	config Config

	starting sync.Mutex // held while one background process is counted
	mu       sync.Mutex
	limits   Limits
	sessions map[message.WorkspaceKey]*holding
	total    int64                                      // of all holdings, without reservations
	senders  map[string]message.SenderKey               // who spoke last, by conversation scope
	opened   map[message.SenderKey]map[string]time.Time // by sender, the conversation scopes opened within a day
	told     map[message.SenderKey]time.Time            // by sender, when a refusal was last reported
}

// holding is what a session holds.
type holding struct {
	bytes    int64
	measured bool
	changed  bool      // the size may have changed
	reserved int64     // what its container may write
	gone     bool      // it does not count any more
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
	return &Keeper{config: c, sessions: map[message.WorkspaceKey]*holding{}, senders: map[string]message.SenderKey{}, opened: map[message.SenderKey]map[string]time.Time{}, told: map[message.SenderKey]time.Time{}}
}

// Configure sets the limits. Nothing that exceeds them already is removed.
func (k *Keeper) Configure(l Limits) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.limits = l
}

// Restore registers an existing session with its last sender.
func (k *Keeper) Restore(session message.WorkspaceKey, sender message.SenderKey) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.of(session)
	k.senders[k.config.Place(session)] = sender
}

// Changed records that a session's workspace may change.
func (k *Keeper) Changed(session message.WorkspaceKey) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.of(session).changed = true
}

// sender returns the owner of a session, or "". k.mu is held.
func (k *Keeper) sender(session message.WorkspaceKey) message.SenderKey {
	of, _, _ := strings.Cut(string(session), "\x00") // a folder of one of its sandboxes follows
	return k.senders[k.config.Place(message.WorkspaceKey(of))]
}

// Forget removes a deleted session.
func (k *Keeper) Forget(session message.WorkspaceKey) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for s, h := range k.sessions {
		if s == session || strings.HasPrefix(string(s), string(session)+"\x00") {
			k.total -= h.bytes + h.reserved
			h.gone = true
			delete(k.sessions, s)
		}
	}
	delete(k.senders, k.config.Place(session))
}

// of returns the holding of a session. k.mu is held.
func (k *Keeper) of(session message.WorkspaceKey) *holding {
	h, ok := k.sessions[session]
	if !ok {
		h = &holding{changed: true}
		k.sessions[session] = h
	}
	return h
}

// measureEvery is the interval between measurements of changed workspaces.
const measureEvery = time.Minute

// Run measures workspaces until ctx ends: first all, then those that may have changed.
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

// measure measures a session's workspace if it may have changed, or always.
func (k *Keeper) measure(session message.WorkspaceKey, always bool) {
	k.mu.Lock()
	h := k.of(session)
	if h.measured && !h.changed && !always {
		k.mu.Unlock()
		return
	}
	h.changed = h.reserved > 0 // as long as there is a container
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

// Bytes returns the last measured size of a session's workspace.
func (k *Keeper) Bytes(session message.WorkspaceKey) int64 {
	k.measureOnce(session)
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.of(session).bytes
}

// measureOnce measures a session's workspace unless it has been measured.
func (k *Keeper) measureOnce(session message.WorkspaceKey) {
	k.mu.Lock()
	measured := k.of(session).measured
	k.mu.Unlock()
	if !measured {
		k.measure(session, true)
	}
}

// fits reports whether a session may hold need bytes.
func (k *Keeper) fits(session message.WorkspaceKey, need int64) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	room, _ := k.room(session, need)
	return room >= need
}

// day is how long an opened session counts.
const day = 24 * time.Hour

// Open records that a sender speaks in a conversation scope, and refuses it if that opens too many. It reports whether it counts as opened. free
// exempts the sender from the limit.
func (k *Keeper) Open(sender message.SenderKey, place string, free bool) (opened bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, known := k.senders[place]; !known && !free && k.limits.SenderSessions > 0 {
		places := k.openings(sender)
		if len(places) >= k.limits.SenderSessions {
			return false, Refusal(fmt.Sprintf("you have opened %d conversations within a day, and no more are allowed: go on in one of them", len(places)))
		}
		places[place], opened = k.config.Now(), true
	}
	k.senders[place] = sender
	return opened, nil
}

// Opened records that a sender has opened a scope at another host, if that is not known.
func (k *Keeper) Opened(sender message.SenderKey, place string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, known := k.senders[place]; !known && k.limits.SenderSessions > 0 {
		k.openings(sender)[place] = k.config.Now()
		k.senders[place] = sender
	}
}

// openings returns what a sender has opened within a day. k.mu is held.
func (k *Keeper) openings(sender message.SenderKey) map[string]time.Time {
	now, places := k.config.Now(), k.opened[sender]
	maps.DeleteFunc(places, func(_ string, at time.Time) bool { return now.Sub(at) >= day })
	if places == nil {
		k.forgetOldOpenings(now)
		places = map[string]time.Time{}
		k.opened[sender] = places
	}
	return places
}

// Tell reports whether a sender whom Open has refused should get a message about it, which happens once a day.
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

// maxSenders bounds the senders whose openings are remembered; beyond it, expired entries are dropped first, then all.
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

// Sandbox decides whether a session may have another container besides those that live. If an idle one has to be removed for that, it
// returns its index in live, otherwise -1; call it again once that one is gone.
func (k *Keeper) Sandbox(session message.WorkspaceKey, live []Live) (evict int, err error) {
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

// Process calls enter to begin a background process of a session, unless there are too many. The process must count when enter returns.
func (k *Keeper) Process(session message.WorkspaceKey, enter func() error) error {
	k.starting.Lock()
	defer k.starting.Unlock()
	if err := k.mayStart(session, k.config.Running()); err != nil {
		return err
	}
	return enter()
}

func (k *Keeper) mayStart(session message.WorkspaceKey, running map[message.WorkspaceKey]int) error {
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

// Write refuses bytes that do not fit into a workspace, and otherwise counts them.
func (k *Keeper) Write(session message.WorkspaceKey, bytes int64) error {
	return k.retry(session, func() error { return k.write(session, bytes) })
}

// retry calls try, and if that fails, measures the session's workspace and calls it again: the last measurement may be old.
func (k *Keeper) retry(session message.WorkspaceKey, try func() error) error {
	err := try()
	if err != nil {
		k.measure(session, true)
		err = try()
	}
	return err
}

func (k *Keeper) write(session message.WorkspaceKey, bytes int64) error {
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

// Command refuses a command on the host while the session's workspace exceeds its limit. The files that a command writes are counted when
// it has ended.
func (k *Keeper) Command(session message.WorkspaceKey) error {
	if k.stale(session) {
		k.measure(session, true)
	}
	return k.retry(session, func() error { return k.command(session) })
}

func (k *Keeper) command(session message.WorkspaceKey) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	h := k.of(session)
	if room, why := k.room(session, h.bytes); room < h.bytes {
		return why
	}
	h.changed = true
	return nil
}

// measureShare is the ratio between the minimum interval of measurements and the time that one takes.
const measureShare = 20

// stale reports whether a workspace was not measured yet, or has changed and was not measured for a while.
func (k *Keeper) stale(session message.WorkspaceKey) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	h := k.of(session)
	return !h.measured || h.changed && k.config.Now().Sub(h.at) >= measureShare*h.took
}

// Reserve lets a session's container write up to most bytes to its workspace, 0 for as much as fits, and returns how much it may hold.
// Reserved bytes count as held until release is called. If a session holds too much already, the result may be less than it holds, so that
// it can only delete.
func (k *Keeper) Reserve(session message.WorkspaceKey, most int64) (bytes int64, release func(), err error) {
	need := most
	if most == 0 {
		need = unlimited
	}
	k.measureOnce(session)
	if !k.fits(session, need) { // the last measurement may be old
		k.measure(session, true)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	h := k.of(session)
	room, why := k.room(session, need)
	switch {
	case room >= unlimited:
		return most, func() {}, nil // there is no limit
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

// FreesDisk returns the index in live of the container whose removal lets Reserve return more: of the sender's idle containers with more
// reserved than their workspaces hold, the one that has been idle longest; or -1.
func (k *Keeper) FreesDisk(session message.WorkspaceKey, most int64, live []Live) int {
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

// add adds to the totals. k.mu is held.
func (k *Keeper) add(h *holding, bytes, reserved int64) {
	h.bytes += bytes
	h.reserved += reserved
	if !h.gone {
		k.total += bytes + reserved
	}
}

// room returns how much a session may hold in all, and the refusal if that is too little. The result may be capped at need if that much
// certainly fits, which saves adding up all sessions. k.mu is held.
func (k *Keeper) room(session message.WorkspaceKey, need int64) (bytes int64, why Refusal) {
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

// MediaRoom returns how many bytes the media of a sender may have in addition to the workspaces, 0 for any number, and a refusal if that is
// too little.
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

// fits reports whether a limit, if there is one, allows bytes.
func fits(bytes, limit int64) bool { return limit == 0 || bytes <= limit }

// held returns the size of a session's workspace, or that which it may reach.
func (h *holding) held() int64 { return max(h.bytes, h.reserved) }

// Size formats a number of bytes for people.
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

// Session is the quota of one session. It implements the Quota of package machine.
type Session struct {
	keeper *Keeper
	key    message.WorkspaceKey
}

// Session returns the quota of a session.
func (k *Keeper) Session(key message.WorkspaceKey) Session { return Session{k, key} }

// Write refuses bytes that do not fit into the workspace; see Keeper.Write.
func (s Session) Write(bytes int64) error { return s.keeper.Write(s.key, bytes) }

// Command refuses a command while the workspace exceeds its limit.
func (s Session) Command() error { return s.keeper.Command(s.key) }

// Process calls enter to begin a background process, unless there are too many.
func (s Session) Process(enter func() error) error { return s.keeper.Process(s.key, enter) }
