package quota

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/sdk/plugintest/rude"
)

// site is a host in which a test says what is held.
type site struct {
	*Keeper
	bytes   map[message.WorkspaceKey]int64
	running map[message.WorkspaceKey]int
	now     time.Time
}

func newSite(l Limits) *site {
	s := &site{bytes: map[message.WorkspaceKey]int64{}, running: map[message.WorkspaceKey]int{}, now: time.Unix(1e9, 0)}
	s.Keeper = New(Config{
		Measure: func(session message.WorkspaceKey) int64 { return s.bytes[session] }, Running: func() map[message.WorkspaceKey]int { return s.running },
		Place: func(session message.WorkspaceKey) string {
			place, _, _ := strings.Cut(string(session), "/")
			return place
		}, Now: func() time.Time { return s.now },
	})
	s.Configure(l)
	return s
}

func refused(err error) bool {
	var r Refusal
	return errors.As(err, &r)
}

func TestOpen(t *testing.T) {
	s := newSite(Limits{SenderSessions: 3})
	s.Restore("old/main", "ann")
	for i := range 5 {
		if opened, err := s.Open("ann", fmt.Sprint("p", i), false); refused(err) != (i >= 3) || opened != (i < 3) {
			t.Errorf("place %d: %v", i, err)
		}
	}
	for _, place := range []string{"p0", "old"} {
		if opened, err := s.Open("ann", place, false); err != nil || opened {
			t.Errorf("%s is open already: %v", place, err)
		}
	}
	for place, sender := range map[string]message.SenderKey{"q": "bob", "p1": "bob", "r": "ann"} {
		if _, err := s.Open(sender, place, place == "r"); err != nil {
			t.Error(err)
		}
	}
	s.now = s.now.Add(day)
	if _, err := s.Open("ann", "next day", false); err != nil {
		t.Error(err)
	}
}

// TestWhatIsOpenedElsewhereCounts: at another host, of which this one hears; each place counts once.
func TestWhatIsOpenedElsewhereCounts(t *testing.T) {
	s := newSite(Limits{SenderSessions: 3})
	for range 2 {
		s.Opened("ann", "x")
		s.Opened("ann", "y")
	}
	for i, place := range []string{"x", "p0", "y", "p1"} {
		if _, err := s.Open("ann", place, false); refused(err) != (i == 3) {
			t.Errorf("%s: %v", place, err)
		}
	}
	s.Opened("ann", "z") // both hosts opened one at the same time
	if _, err := s.Open("ann", "z", false); err != nil {
		t.Error(err)
	}
	s.now = s.now.Add(day)
	if _, err := s.Open("ann", "next day", false); err != nil {
		t.Error(err)
	}
}

func TestTell(t *testing.T) {
	s := newSite(Limits{})
	for i, want := range []bool{true, false, false} {
		if s.Tell("ann") != want {
			t.Errorf("ann, %d", i)
		}
	}
	for _, v := range rude.IDs() {
		if !s.Tell(message.SenderKey(message.SenderKey(v.Text))) || s.Tell(message.SenderKey(v.Text)) {
			t.Error(v.Name)
		}
	}
	s.now = s.now.Add(day)
	if !s.Tell("ann") {
		t.Error("the next day")
	}
}

func TestOpenTakesAnyName(t *testing.T) {
	s := newSite(Limits{SenderSessions: 2})
	for _, v := range rude.IDs() {
		for i := range 3 {
			if _, err := s.Open(message.SenderKey(v.Text), v.Text+fmt.Sprint(" ", i), false); refused(err) != (i == 2) {
				t.Errorf("%s, place %d: %v", v.Name, i, err)
			}
		}
	}
}

func TestSandbox(t *testing.T) {
	s := newSite(Limits{SenderSandboxes: 2, Sandboxes: 4})
	for place, sender := range map[string]string{"a1": "ann", "a2": "ann", "a3": "ann", "b1": "bob", "b2": "bob", "c": "cy", "d": "dan"} {
		s.Restore(message.WorkspaceKey(place+"/main"), message.SenderKey(sender))
	}
	at := func(place message.WorkspaceKey, idle int) Live { // idle for so many minutes, -1 for in use
		return Live{place + "/main", place + "/main", idle >= 0, s.now.Add(-time.Duration(idle) * time.Minute)}
	}
	for _, c := range []struct {
		name  string
		want  string
		live  []Live
		evict int
		no    bool
	}{
		{"none", "a3", nil, -1, false},
		{"one of his", "a3", []Live{at("a1", -1), at("b1", 9)}, -1, false},
		{"two of his, one idle", "a3", []Live{at("a1", -1), at("b1", 9), at("a2", 1)}, 2, false},
		{"two of his, both idle", "a3", []Live{at("a1", 1), at("a2", 2), at("b1", 9)}, 1, false},
		{"two of his, both in use", "a3", []Live{at("a1", -1), at("a2", -1), at("b1", 9)}, -1, true},
		{"the host is full, one of another is idle", "d", []Live{at("a1", -1), at("a2", -1), at("b1", 3), at("b2", -1)}, 2, false},
		{"the host is full and in use", "d", []Live{at("a1", -1), at("a2", -1), at("b1", -1), at("b2", -1)}, -1, true},
		{"nobody's", "nobody", []Live{at("x", -1), at("y", -1), at("z", -1)}, -1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			evict, err := s.Sandbox(message.WorkspaceKey(c.want+"/main"), c.live)
			if evict != c.evict || refused(err) != c.no {
				t.Errorf("got %d, %v", evict, err)
			}
		})
	}
}

func TestProcess(t *testing.T) {
	s := newSite(Limits{SenderProcesses: 2, Processes: 3})
	s.Restore("a1/main", "ann")
	s.Restore("a2/main", "ann")
	s.Restore("b/main", "bob")
	start := func(session message.WorkspaceKey) error {
		return s.Process(session, func() error { s.running[session]++; return nil })
	}
	for i, c := range []struct {
		session message.WorkspaceKey
		no      bool
	}{{"a1/main", false}, {"a2/main", false}, {"a1/main", true}, {"b/main", false}, {"b/main", true}} {
		if err := start(c.session); refused(err) != c.no {
			t.Errorf("start %d: %v", i, err)
		}
	}
	s.running["a1/main"] = 0
	if err := start("a2/main"); err != nil {
		t.Error(err)
	}
	broken := errors.New("broken")
	s.running = map[message.WorkspaceKey]int{}
	if err := s.Process("a1/main", func() error { return broken }); !errors.Is(err, broken) {
		t.Error(err)
	}
}

func TestDisk(t *testing.T) {
	s := newSite(Limits{SessionDisk: 100, SenderDisk: 150, AllDisk: 200})
	s.Restore("a1/main", "ann")
	s.Restore("a2/main", "ann")
	s.Restore("b/main", "bob")
	write := func(session message.WorkspaceKey, bytes int64, no bool) {
		t.Helper()
		err := s.Write(session, bytes)
		if refused(err) != no {
			t.Errorf("%d bytes into %s: %v", bytes, session, err)
		}
		if err == nil {
			s.bytes[session] += bytes
		}
	}
	write("a1/main", 101, true)
	write("a1/main", 90, false)
	write("a1/main", 11, true) // the session's
	write("a2/main", 61, true) // the sender's
	write("a2/main", 60, false)
	write("b/main", 51, true) // the host's
	write("b/main", 50, false)
	s.bytes["a1/main"] = 0 // somebody has deleted it
	write("a1/main", 90, false)
}

// A sender's files in the media store count too.
func TestMediaCounts(t *testing.T) {
	s := newSite(Limits{SenderDisk: 100})
	s.config.Media = func(sender message.SenderKey) int64 { return map[message.SenderKey]int64{"ann": 60}[sender] }
	s.Restore("a/main", "ann")
	s.Restore("b/main", "bob")
	if err := s.Write("a/main", 41); !refused(err) {
		t.Errorf("got %v", err)
	}
	if err := errors.Join(s.Write("a/main", 40), s.Write("b/main", 100)); err != nil {
		t.Error(err)
	}
	if most, _ := s.MediaRoom("ann"); most != 60 {
		t.Errorf("her media may take %d", most)
	}
	if most, _ := s.MediaRoom("bob"); most != 1 {
		t.Errorf("his media may take %d", most)
	}
}

func TestReserve(t *testing.T) {
	s := newSite(Limits{SenderDisk: 250})
	for _, session := range []message.WorkspaceKey{"a1/main", "a2/main", "a3/main", "a4/main"} {
		s.Restore(session, "ann")
	}
	reserve := func(session message.WorkspaceKey, most, want int64) func() {
		t.Helper()
		got, release, err := s.Reserve(session, most)
		if err != nil || got != want {
			t.Fatalf("%s may hold %d (%v), want %d", session, got, err, want)
		}
		return release
	}
	release := reserve("a1/main", 100, 100)
	reserve("a2/main", 100, 100)
	reserve("a3/main", 0, 50) // no limit of its own
	if _, _, err := s.Reserve("a4/main", 100); !refused(err) {
		t.Errorf("got %v", err)
	}
	release()
	release()
	reserve("a4/main", 100, 100)

	t.Run("what holds too much may delete", func(t *testing.T) {
		s := newSite(Limits{SessionDisk: 100})
		s.Restore("a/main", "ann")
		s.bytes["a/main"] = 150
		if got, _, err := s.Reserve("a/main", 200); err != nil || got != 100 {
			t.Errorf("it may hold %d (%v)", got, err)
		}
	})
	t.Run("without limits", func(t *testing.T) {
		s := newSite(Limits{})
		s.bytes["a/main"] = 1 << 40
		for _, most := range []int64{0, 100} {
			if got, _, err := s.Reserve("a/main", most); err != nil || got != most {
				t.Errorf("it may hold %d (%v)", got, err)
			}
		}
	})
	t.Run("a sandbox with a folder of its own", func(t *testing.T) {
		s := newSite(Limits{SenderDisk: 100})
		s.Restore("a1/main", "ann")
		s.Restore("a2/main", "ann")
		if got, _, err := s.Reserve("a1/main\x00box", 80); err != nil || got != 80 {
			t.Errorf("it may hold %d (%v)", got, err)
		}
		if got, _, err := s.Reserve("a2/main", 80); err != nil || got != 20 {
			t.Errorf("the next may hold %d (%v)", got, err)
		}
	})
}

func TestReport(t *testing.T) {
	got := Report(Holdings{
		Senders: map[message.WorkspaceKey]message.SenderKey{"a1": "ann", "a2": "ann", "b": "bob", "x": ""}, Measure: func(session message.WorkspaceKey) int64 { return int64(len(session)) },
		Snapshots: func(session message.WorkspaceKey) int64 { return 10 * int64(len(session)) },
		Media:     map[message.SenderKey]int64{"bob": 2, "cy": 1}, Sandboxes: map[message.WorkspaceKey]int{"a1": 2, "tools:x:server": 1},
		Processes: map[message.WorkspaceKey]int{"a2": 3, "y": 1}, HostProcesses: map[message.WorkspaceKey]int{"a1": 1, "b": 2},
	})
	want := []Held{
		{"ann", 2, 4, 40, 0, 2, 4, 1}, {"bob", 1, 1, 10, 2, 0, 2, 2}, {"", 1, 1, 10, 0, 1, 1, 0}, {"cy", 0, 0, 0, 1, 0, 0, 0},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v", got)
	}
}

func TestSize(t *testing.T) {
	for n, want := range map[int64]string{0: "0 bytes", 1023: "1023 bytes", 1 << 20: "1.0 MiB", 5 << 29: "2.5 GiB", 1 << 60: "1048576.0 TiB"} {
		if got := Size(n); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
}

func TestFreesDisk(t *testing.T) {
	s := newSite(Limits{SenderDisk: 100})
	for _, session := range []message.WorkspaceKey{"a/main", "b/main", "c/main", "d/main"} {
		s.Restore(session, "ann")
	}
	s.Restore("e/main", "bob")
	for session, most := range map[message.WorkspaceKey]int64{"a/main": 30, "b/main": 30, "c/main": 30, "e/main": 30} {
		if _, _, err := s.Reserve(session, most); err != nil {
			t.Fatal(err)
		}
	}
	live := func(session message.WorkspaceKey, minutes int) Live {
		return Live{Session: session, Folder: session, Idle: minutes > 0, Since: s.now.Add(-time.Duration(minutes) * time.Minute)}
	}
	all := []Live{live("a/main", 1), live("b/main", 2), live("c/main", 0), live("e/main", 9)}
	for most, want := range map[int64]int{10: -1, 11: 1, 0: -1} {
		if got := s.FreesDisk("d/main", most, all); got != want {
			t.Errorf("for %d: %d has to go, want %d", most, got, want)
		}
	}
	s.bytes["b/main"] = 30 // no gain
	s.Changed("b/main")
	s.measure("b/main", true)
	if got := s.FreesDisk("d/main", 11, all); got != 0 {
		t.Errorf("%d has to go", got)
	}
	if got := s.FreesDisk("d/main", 11, all[2:]); got != -1 {
		t.Errorf("%d has to go, and none is idle", got)
	}
}

// The share of a sandbox with a folder of its own goes with the session.
func TestForget(t *testing.T) {
	s := newSite(Limits{AllDisk: 100})
	s.Restore("a/main", "ann")
	s.bytes["a/main\x00box"] = 90
	s.measure("a/main\x00box", true)
	s.Forget("a/main")
	if err := s.Write("b/main", 90); err != nil {
		t.Error(err)
	}
}
