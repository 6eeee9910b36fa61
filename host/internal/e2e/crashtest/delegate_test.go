package crashtest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/internal/hosttest"
)

const leadAndHelper = `
[agent_configs.lead]
tool_profile = "coding"
delegates = ["helper"]

[agent_configs.helper]
tool_profile = "coding"

[routing.channels]
web = "lead"
`

// entry is a piece of the conversation as the API tells it.
type entry struct {
	From    string
	Key     string
	Text    string
	IsError bool `json:"is_error"`
	Call    *struct{ Tool string }
}

func (o *operator) history() (entries []entry) {
	o.t.Helper()
	var page struct{ Items []entry }
	o.call("/api/v1/conversations/web/c/entries?limit=500", nil, &page)
	return page.Items
}

func (o *operator) count(is func(entry) bool) (n int) {
	o.t.Helper()
	for _, e := range o.history() {
		if is(e) {
			n++
		}
	}
	return n
}

// delegation is a message that has the lead give work to the helper: after a while, to add a line to the file of effects.
func delegation(id int, background bool) string {
	edit, _ := json.Marshal(map[string]string{"path": effectsFile, "old": lastLine, "new": tag(id) + "\n" + lastLine})
	call, _ := json.Marshal(map[string]any{"agent": "helper", "task": fmt.Sprintf("!slow 300 !tool file.edit %s", edit), "background": background})
	return "!tool agent.delegate " + string(call)
}

// A delegate at work when the process is killed goes on or ends in the next one, in the foreground and in the background: what it was
// given takes effect once at most, and is heard of once.
func TestDelegatesSurviveAKill(t *testing.T) {
	o := &operator{t: t, program: hosttest.New(t, hosttest.Config{Bin: hosttest.Build(t), More: leadAndHelper})}
	o.start()
	o.answered(o.say(fmt.Sprintf(`!tool file.write {"path":%q,"content":%q}`, effectsFile, lastLine)))
	met := func() bool { // a kill has met a turn at work
		log, err := os.ReadFile(o.program.Log)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(log), "turn resumes")
	}
	rounds := 0
	reports, heard := 0, func(e entry) bool { return e.From == "user" && strings.HasPrefix(e.Key, "delegate/") }
	for i := 0; i < 4 || !met() && i < 20; i++ { // on a machine with other work most kills may come too late
		rounds++
		background := i%2 == 1
		id := o.say(delegation(i, background))
		o.until("a delegate at work", func() bool {
			return o.count(func(e entry) bool { return e.Call != nil && e.Call.Tool == "agent.delegate" }) == i+1
		})
		time.Sleep(time.Duration(rand.IntN(350)) * time.Millisecond) // of the child's life
		o.kill()
		o.start()
		o.answered(id)
		if background {
			reports++
			o.until("the report of a delegate in the background", func() bool { return o.count(heard) == reports })
		}
	}
	// Each message and each report is answered once.
	o.until("all answers", func() bool {
		return o.count(func(e entry) bool { return e.From == "agent" && (e.Key != "" || e.IsError) }) == 1+rounds+reports
	})
	if n := o.count(heard); n != reports {
		t.Errorf("%d reports are heard, want %d", n, reports)
	}
	if !met() {
		t.Error("no kill met a turn at work: nothing was tested")
	}
	files, err := filepath.Glob(filepath.Join(o.program.Dir, "store", "workspaces", "*", effectsFile))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range checkEffects(strings.TrimSuffix(string(text), lastLine), nil) {
		t.Error(p)
	}
	interrupted := o.count(func(e entry) bool {
		return e.From == "agent" && strings.Contains(e.Text, "was restarted while this call ran")
	})
	if done := strings.Count(string(text), "["); done+interrupted < rounds {
		t.Errorf("%d took effect and %d were interrupted, of %d", done, interrupted, rounds)
	}
	if err := o.program.Stop(); err != nil {
		t.Error(err)
	}
}
