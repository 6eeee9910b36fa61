package turnbench

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/internal/hosttest"
)

// peer is another host that runs.
type peer interface {
	// turn says something in a session and returns the time to the answer that holds a text.
	turn(session int, say, answer string) (time.Duration, error)
}

// peers are hosts that the table compares with ours, if the environment names their programs.
var peers = []struct {
	name, env string
	start     func(b *testing.B, t *table, program, model string) peer
}{
	{"PicoClaw", "FLYNN_BENCH_PICOCLAW", newPicoclaw},
}

// overHTTP has the agent of the channel call the fake model as it would a real one.
const overHTTP = `
[agent_configs.remote]
tool_profile = "coding"
model_tier = "fast"

[routing.channels]
platform = "remote"

[models.fast]
provider = "openai"
model = "fake"
base_url = %q
`

// takeRivals compares with other hosts: the same model over HTTP, the same words, each through its own API.
func takeRivals(b *testing.B, t *table) {
	model := newFakeModel(b, nil).url
	f := newFloor(b, t.bin, hosttest.Config{More: fmt.Sprintf(overHTTP, model)})
	t.compare(b, ours, f.peer())
	f.must(b, f.program.Stop())
	for _, p := range peers {
		program := os.Getenv(p.env)
		if program == "" {
			t.note(fmt.Sprintf("%s: not run, since %s does not name its program.", p.name, p.env))
			continue
		}
		t.compare(b, p.name, p.start(b, t, program, model))
	}
}

// floorPeer is our host as its peers are seen.
type floorPeer struct{ *floor }

func (f *floor) peer() peer { return floorPeer{f} }

func (f floorPeer) turn(session int, say, answer string) (time.Duration, error) {
	return f.ask(session, func(int) string { return say }, answer)
}

// pace is the pause before each turn of one person: PicoClaw sends ten messages a second at most, and its turns are not to wait for that.
const pace = 250 * time.Millisecond

// compare measures text and tool turns of one person, and text turns of many.
func (t *table) compare(b *testing.B, side string, p peer) {
	n := max(10, *tableTurns/10)
	for _, c := range []struct{ what, say, answer string }{
		{"text turn, model over HTTP, paced", "hello %d", "It says: "}, {"turn that writes a file, model over HTTP, paced", "WRITE file-%d", "file-%d"},
	} {
		var took []time.Duration
		for i := range n + 3 {
			<-time.After(pace)
			d, err := p.turn(0, fmt.Sprintf(c.say, i), strings.ReplaceAll(c.answer, "%d", fmt.Sprint(i)))
			if err != nil {
				b.Fatalf("%s: %v", side, err)
			}
			if i >= 3 {
				took = append(took, d)
			}
		}
		slices.Sort(took)
		t.put(c.what, side, spread(took))
	}
	began := time.Now()
	took, err := together(2*n, sessions, func(s int) (time.Duration, error) { return p.turn(s, "hello", "It says: hello") })
	if err != nil {
		b.Fatal(errors.Join(fmt.Errorf("%s, side by side", side), err))
	}
	t.put(fmt.Sprintf("text turns, %d sessions, model over HTTP", sessions), side,
		fmt.Sprintf("%.0f/s, %s", float64(len(took))/time.Since(began).Seconds(), spread(took)))
}
