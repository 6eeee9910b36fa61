package crashtest

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/internal/hosttest"
)

// operator asks the running program what an operator can, over its API.
type operator struct {
	t       *testing.T
	program *hosttest.Program
	posted  int
}

// start starts the program and waits until it is ready.
func (o *operator) start() {
	o.t.Helper()
	if err := o.program.Start(); err != nil {
		o.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(o.t.Context(), time.Minute)
	defer cancel()
	if err := o.program.Ready(ctx); err != nil {
		o.t.Fatalf("%v\n%s", err, o.program.Tail())
	}
}

func (o *operator) kill() {
	o.t.Helper()
	if err := o.program.Kill(); err != nil {
		o.t.Fatal(err)
	}
}

// call asks the API; body is nil for a GET.
func (o *operator) call(path string, body, answer any) {
	o.t.Helper()
	ctx, cancel := context.WithTimeout(o.t.Context(), time.Minute)
	defer cancel()
	if err := o.program.Call(ctx, path, body, answer); err != nil {
		o.t.Fatal(err)
	}
}

func (o *operator) until(what string, ok func() bool) {
	o.t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			o.t.Fatalf("it never came to this: %s\n%s", what, o.program.Tail())
		}
	}
}

func (o *operator) say(text string) (id string) {
	o.t.Helper()
	o.posted++
	id = fmt.Sprint("m", o.posted)
	o.call("/api/v1/conversations/web/c/messages", map[string]string{"id": id, "text": text}, nil)
	return id
}

// answered waits for the end of the turn that a message began.
func (o *operator) answered(id string) {
	o.t.Helper()
	o.until("an answer to "+id, func() bool {
		var page struct {
			Items []struct {
				From    string
				Key     string
				IsError bool `json:"is_error"`
			}
		}
		o.call("/api/v1/conversations/web/c/entries?limit=500", nil, &page)
		entries := page.Items
		begun := false
		for _, e := range entries {
			begun = begun || e.Key == id
			if begun && e.From == "agent" && (e.Key != "" || e.IsError) {
				return true
			}
		}
		return false
	})
}

// asked waits for the request that a message leads to.
func (o *operator) asked() (id string) {
	o.t.Helper()
	o.until("a request", func() bool {
		var list []struct{ ID string }
		o.call("/api/v1/approvals", nil, &list)
		if len(list) == 1 {
			id = list[0].ID
		}
		return len(list) == 1
	})
	return id
}

// runs is how often the command has run.
func (o *operator) runs() int {
	files, err := filepath.Glob(filepath.Join(o.program.Dir, "store", "workspaces", "*", "ran.*"))
	if err != nil {
		o.t.Fatal(err)
	}
	return len(files)
}

// A lease that was given is there after kill -9 at any point behind the answer, and the call that was asked for runs at most once.
func TestALeaseSurvivesAKill(t *testing.T) {
	o := &operator{t: t, program: hosttest.New(t, hosttest.Config{Bin: hosttest.Build(t)})}
	const command = "!sh mktemp ran.XXXXXX"
	o.start()
	first := o.say(command)
	request := o.asked()
	o.kill() // while a person thinks
	o.start()
	if again := o.asked(); again != request {
		t.Fatalf("asked again as %s, want %s taken up", again, request)
	}
	o.call("/api/v1/approvals/"+request+"/decision", map[string]any{"grant": true, "scope": "session"}, nil)
	o.kill() // between the answer and the end of the call
	o.start()
	o.answered(first)
	ran := o.runs()
	if ran > 1 {
		t.Fatalf("the call that was allowed ran %d times", ran)
	}
	for i := range 2 {
		o.answered(o.say(command)) // and nobody is asked
		if got := o.runs(); got != ran+i+1 {
			t.Fatalf("the command ran %d times, want %d", got, ran+i+1)
		}
	}
	o.kill()
	o.start()
	var grants []struct {
		ID      string
		Uses    int
		Open    bool
		Granter string
	}
	o.call("/api/v1/grants", nil, &grants)
	if len(grants) != 1 || grants[0].ID != request || grants[0].Uses < o.runs() || !grants[0].Open || grants[0].Granter != "web:owner" {
		t.Fatalf("grants are %+v, and the command ran %d times", grants, o.runs())
	}
	var page struct{ Items []struct{ Kind string } }
	o.call("/api/v1/audit?subject="+request, nil, &page)
	audit := page.Items
	if len(audit) != 1+grants[0].Uses || audit[0].Kind != "grant" || audit[1].Kind != "grant_used" || audit[2].Kind != "grant_used" {
		t.Errorf("the audit log has %+v", audit)
	}
	o.call("DELETE /api/v1/grants/"+request, nil, nil)
	last := o.say(command)
	o.call("/api/v1/approvals/"+o.asked()+"/decision", map[string]any{"grant": false}, nil)
	o.answered(last)
	if got := o.runs(); got != ran+2 {
		t.Errorf("after it was revoked the command ran %d times, want %d", got, ran+2)
	}
}
