package crashtest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/internal/hosttest"
)

// TestTheJudgeSeesWhatIsWrong is the control: for each promise, what breaks it is found, and what does not is not.
func TestTheJudgeSeesWhatIsWrong(t *testing.T) {
	reply := func(key, text string) hosttest.Reply { return hosttest.Reply{Key: key, Conversation: "c", Text: text} }
	marked := func(r hosttest.Reply) hosttest.Reply {
		r.Marked = true
		return r
	}
	tool := hosttest.Reply{Key: "k4", Conversation: "c", ReplyTo: "4", Text: "The host was restarted while this call ran."}
	one, two, three := reply("k1", "You said: [1]"), reply("k2", "You said: [2]"), reply("k3", "You said: [3]")
	for _, c := range []struct {
		name      string
		forgetful bool
		replies   []hosttest.Reply
		want      string // substring of the problems; empty for none
	}{
		{"all is well", false, []hosttest.Reply{one, two, three, tool}, ""},
		{"one reply for several messages", false, []hosttest.Reply{reply("k", "You said: [1]\n[2]\n[3]"), tool}, ""},
		{"a lost one", false, []hosttest.Reply{one, three, tool}, "1 lost: [2]"},
		{"the last one lost", false, []hosttest.Reply{one, two, three}, "1 lost: [4]"},
		{"a doubled one", false, []hosttest.Reply{one, two, reply("k2b", "You said: [2]"), three, tool}, "1 answered twice: [2]"},
		{"a doubled one inside another", false, []hosttest.Reply{one, reply("k2", "[2] and [1]"), three, tool}, "1 answered twice: [1]"},
		{"a key shown twice", false, []hosttest.Reply{one, one, two, three, tool}, "1 repeated: [k1: 2 times"},
		{"a key shown twice with a mark, where keys are recognised", false, []hosttest.Reply{one, marked(one), two, three, tool}, "1 repeated: [k1: 2 times"},
		{"a resend with a mark", true, []hosttest.Reply{one, marked(one), two, three, tool}, ""},
		{"a resend that overtakes", true, []hosttest.Reply{marked(one), one, two, three, tool}, ""},
		{"a resend after later ones", true, []hosttest.Reply{one, two, marked(one), three, tool}, ""},
		{"a resend without a mark", true, []hosttest.Reply{one, one, two, three, tool}, "1 repeated: [k1: 2 times, 2 without"},
		{"a third appearance, all but one marked", true, []hosttest.Reply{one, marked(one), marked(one), two, three, tool}, ""},
		{"a third appearance, one not marked", true, []hosttest.Reply{one, marked(one), one, two, three, tool}, "1 repeated: [k1: 3 times, 2 without"},
		{"out of order", false, []hosttest.Reply{two, one, three, tool}, "1 out of order: [1 after 2 in c]"},
		{"out of order inside a reply", false, []hosttest.Reply{reply("k", "[2] [1] [3]"), tool}, "1 out of order: [1 after 2 in c]"},
		{"in the wrong place", false, []hosttest.Reply{{Key: "k1", Conversation: "d", Text: "[1]"}, two, three, tool}, "1 strange: [k1 shows in d"},
		{"a failure instead of an answer", false, []hosttest.Reply{reply("k1", "I could not answer this"), two, three, tool}, "1 lost: [1]"},
		{"an answer to nothing", false, []hosttest.Reply{one, two, three, reply("k9", "hello"), tool}, "1 strange: [k9"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newJournal(c.forgetful)
			for i := range 4 {
				if i == 3 {
					l.post("c", write)
				} else {
					l.post("c", plain)
				}
			}
			for _, r := range c.replies {
				l.show(r)
			}
			got := strings.Join(l.check().problems(), "; ")
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("the check says %q, want %q", got, c.want)
			}
		})
	}
}

func TestResumptionIsMeasuredOnNewConnectionsOnly(t *testing.T) {
	l := newJournal(false)
	killed := time.Now()
	for range 4 {
		l.post("c", plain)
	}
	l.ack("1")
	l.ack("2")
	l.ack("3")
	l.show(hosttest.Reply{Key: "k1", Text: "[1]"})
	if n := l.killed(); n != 2 {
		t.Fatalf("%d messages wait, want 2", n)
	}
	l.started(killed)
	for i, r := range []hosttest.Reply{
		{Text: "[2]", Link: killed.Add(-time.Second), At: killed.Add(1 * time.Millisecond)}, // the last words of the old plugin
		{Text: "[4]", Link: killed.Add(time.Second), At: killed.Add(1200 * time.Millisecond)},
		{Text: "[3]", Link: killed.Add(time.Second), At: killed.Add(1300 * time.Millisecond)},
	} {
		r.Key = fmt.Sprint("later", i)
		l.show(r)
	}
	if len(l.resumed) != 1 || l.resumed[0] != 1300*time.Millisecond {
		t.Errorf("measured %v, want 1.3s", l.resumed)
	}
}

// TestEffectsAreCounted is the control of the file of effects.
func TestEffectsAreCounted(t *testing.T) {
	for _, c := range []struct{ name, file, want string }{
		{"each once", "[1]\n[2]\n", ""},
		{"one twice", "[1]\n[2]\n[1]\n", "[1] took effect 2 times"},
		{"one that was answered is missing", "[2]\n", "[1] was answered but took no effect"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := strings.Join(checkEffects(c.file, []int{1, 2}), "; ")
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
