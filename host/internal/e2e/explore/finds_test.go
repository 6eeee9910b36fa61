package explore

import (
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/internal/hosttest"
	"github.com/flynnhost/flynn/sdk/plugintest/rude"
)

// The finds of exploring, each as a case of its own. The driver's journal checks the end of each as well.
func TestFinds(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	bin := hosttest.Build(t)
	for name, do := range map[string]func(*driver){
		"every command can be approved":          everyCommand,
		"a request outlives a kill":              requestOverAKill,
		"a request ends with its turn":           requestOfAStoppedTurn,
		"questions after a crash are not joined": questionsAfterACrash,
	} {
		t.Run(name, func(t *testing.T) {
			d := newDriver(t, bin, 1)
			d.live(func() { do(d) })
		})
	}
}

// request waits for one to be open, about a message.
func (d *driver) request(m *said) request {
	d.t.Helper()
	for limit := time.Now().Add(time.Minute); ; <-time.After(10 * time.Millisecond) {
		for _, r := range d.requests() {
			if r.message() == m.id {
				return r
			}
		}
		if time.Now().After(limit) {
			d.t.Fatalf("nobody is asked about message %d; the log ends with:\n%s", m.id, d.program.Tail())
		}
	}
}

// No call whose arguments held <, > or & could be approved: the stored request had JSON's escapes for HTML, and was compared by bytes.
func everyCommand(d *driver) {
	for _, c := range rude.Commands() {
		m := d.asks("c-"+c.Name, c.Text)
		d.answer(d.request(m), true, false)
		if !d.await(m) {
			d.t.Errorf("%s: it was approved, and has no answer", c.Name)
		}
	}
}

// Such a request was asked anew under another id at each restart, and the one before stayed open.
func requestOverAKill(d *driver) {
	m := d.asks("c0", "echo a && echo b > rude.txt; cat < rude.txt")
	before := d.request(m)
	for range 3 {
		d.kill()
		if again := d.request(m); again.ID != before.ID {
			d.t.Errorf("asked again as %s, want %s taken up", again.ID, before.ID)
		}
	}
	if open := d.requests(); len(open) != 1 {
		d.t.Errorf("open are %v", open)
	}
	d.answer(before, true, true)
}

// The request of a turn that was stopped could still be approved, and nothing ran.
func requestOfAStoppedTurn(d *driver) {
	m := d.asks("c0", "echo a")
	r := d.request(m)
	if !d.await(d.stopIn("c0", false)) {
		d.t.Error("/stop has no answer")
	}
	for limit := time.Now().Add(time.Minute); len(d.requests()) > 0 && time.Now().Before(limit); {
		<-time.After(10 * time.Millisecond)
	}
	if d.call("/api/v1/approvals/"+r.ID+"/decision", map[string]any{"grant": true}, nil) {
		d.t.Error("the request of a stopped turn was approved")
	}
}

// A question that a crash had left was answered together with the next one of the same name.
func questionsAfterACrash(d *driver) {
	for range 4 {
		d.question("program-0")
		<-time.After(time.Duration(d.rng.IntN(5)) * time.Millisecond)
		d.kill()
		d.question("program-0")
	}
}
