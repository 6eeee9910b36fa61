package approval_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/flynnhost/flynn/host/internal/jsonform"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/store/sqlite"
	"github.com/flynnhost/flynn/host/tool"
	"github.com/flynnhost/flynn/host/tool/approval"
	"github.com/flynnhost/flynn/host/tool/consent"
	"github.com/flynnhost/flynn/sdk/plugintest/rude"
)

// careful is a provider's tool about each call of which a person is asked, and which can be allowed for longer.
type careful struct{}

func (careful) Spec() tool.Spec {
	return tool.Spec{Name: "p.touch", Effect: tool.Write, Provider: "p", Approve: tool.ApproveAlways}
}

func (careful) Run(_ context.Context, c tool.Call) (tool.Result, error) {
	return tool.Result{Text: string(c.Args)}, nil
}

// asking is a host that is stopped and started again as often as a test likes, over one store.
type asking struct {
	t         *testing.T
	dir       string
	rows      *sqlite.Store
	approvals *approval.Service
	e         *tool.Enforcer
}

func newAsking(t *testing.T) *asking {
	a := &asking{t: t, dir: t.TempDir()}
	registry := tool.NewRegistry()
	if err := registry.Register(careful{}); err != nil {
		t.Fatal(err)
	}
	var err error
	if a.e, err = tool.NewEnforcer(tool.EnforcerConfig{Registry: registry}); err != nil {
		t.Fatal(err)
	}
	a.start()
	t.Cleanup(func() { _ = a.rows.Close() })
	return a
}

func (a *asking) start() {
	a.t.Helper()
	var err error
	if a.rows, err = sqlite.Open(a.t.Context(), a.dir); err != nil {
		a.t.Fatal(err)
	}
	if a.approvals, err = approval.New(approval.Config{Store: a.rows, Grants: a.rows}); err != nil {
		a.t.Fatal(err)
	}
}

func (a *asking) restart() {
	a.t.Helper()
	if err := a.rows.Close(); err != nil {
		a.t.Fatal(err)
	}
	a.start()
}

// call makes the call of a turn; asked hears of each request, and may end the process by cancel.
func (a *asking) call(turn string, args json.RawMessage, asked func(r consent.Approval, cancel func())) tool.Decision {
	a.t.Helper()
	ctx, cancel := context.WithCancel(a.t.Context())
	defer cancel()
	s := tool.Subject{
		Message: message.Message{Channel: "irc", Sender: message.Sender{ID: strings.TrimSuffix(turn, "'")}}, Role: "owner", Door: "channel", Agent: "main",
		Session: message.SessionKey("irc:#" + strings.TrimSuffix(turn, "'") + ":main"), Turn: turn, Offered: tool.NewSet("p.touch"),
	}
	v, err := a.e.Admit(ctx, s, model.ToolCall{ID: "c", Name: "p.touch", Args: args}, a.approvals, func(_ tool.Decision, r consent.Approval) { asked(r, cancel) })
	if err != nil && ctx.Err() == nil {
		a.t.Fatalf("admit %.200s: %v", args, err)
	}
	return v
}

// journey is one call on its way: request, store, restart, approval, restart, use of the lease.
type journey struct {
	turn       string
	args, want json.RawMessage
	first      consent.Approval
}

// request makes the call until a person is asked. It reports whether the arguments are taken: where they are not, nobody is asked.
func (a *asking) request(j *journey) bool {
	a.t.Helper()
	var err error
	if j.want, _, err = jsonform.Canonical(j.args); err != nil {
		v := a.call(j.turn, j.args, func(_ consent.Approval, cancel func()) { cancel() })
		if v.Action != tool.Deny {
			a.t.Errorf("%.200q: %s, want it refused: %v", j.args, v.Action, err)
		}
		return false
	}
	a.call(j.turn, j.args, func(r consent.Approval, cancel func()) { j.first = r; cancel() })
	return true
}

// approve makes the call again, in another process: it is asked about as before, approved, and runs.
func (a *asking) approve(j *journey) {
	a.t.Helper()
	kept, err := a.rows.Approval(a.t.Context(), j.first.ID)
	if err != nil || string(kept.Args) != string(j.want) {
		a.t.Fatalf("%.200q is kept as %.200q, want %.200q, error %v", j.args, kept.Args, j.want, err)
	}
	card := approval.Text(kept, a.approvals.Offer(kept), time.Now())
	for _, escape := range []string{`\u003c`, `\u003e`, `\u0026`} {
		if strings.Contains(card, escape) && !strings.Contains(string(j.want), escape) {
			a.t.Errorf("the card of %.200q has escapes for HTML:\n%s", j.want, card)
		}
	}
	asked := 0
	v := a.call(j.turn, j.args, func(r consent.Approval, _ func()) {
		if asked++; r.ID != j.first.ID {
			a.t.Errorf("%.200q is asked about anew after a restart: %s after %s", j.args, r.ID, j.first.ID)
		}
		a.decide(r)
	})
	if v.Action != tool.Run || string(v.Args) != string(j.want) || asked != 1 {
		a.t.Fatalf("%.200q, approved: %s with %.200q after %d requests: %q", j.args, v.Action, v.Args, asked, v.Reasons)
	}
}

// again makes the call once more, which its lease covers.
func (a *asking) again(j *journey) {
	a.t.Helper()
	v := a.call(j.turn+"'", j.args, func(r consent.Approval, cancel func()) {
		a.t.Errorf("%.200q is asked about in spite of its lease, as %s", j.args, r.ID)
		cancel()
	})
	if v.Action != tool.Run {
		a.t.Errorf("%.200q under a lease: %s: %q", j.args, v.Action, v.Reasons)
	}
}

// decide says yes to a request, for as long as it can be said.
func (a *asking) decide(r consent.Approval) {
	a.t.Helper()
	lease := approval.Lease{Scope: consent.GrantSession}
	if !approval.Showable(r) {
		lease = approval.Lease{}
	}
	if err := a.approvals.Grant(context.Background(), r.ID, lease, "web:owner"); err != nil {
		a.t.Errorf("approve %.200q: %v", r.Args, err)
	}
}

// operators are what a shell reads in a line besides words.
var operators = []string{
	"&&", "||", "|", "|&", ";", ";;", "&", ">", ">>", ">|", ">&2", "2>&1", "&>", "<", "<<EOF\nx\nEOF\n", "<<<", "<>", "<(ls)", ">(cat)", "$(ls)", "`ls`", "$((1<2))",
	"${a:-b}", "(", ")", "{", "}", "!", "[[ a < b ]]", "*", "?", "~", "#", "\\", "'", `"`, "\n", "\r\n", "\t", "$'\\x00'", "\u0000",
}

// shapes are arguments that only JSON can write.
var shapes = []string{
	``, ` `, `{}`, `{"a":null}`, `{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, `{"\ud800":1,"\udfff":2}`, `{"a":"\ud800"}`, `{"a":"\udc00\ud800"}`, `{"a":"\ud83d\ude00"}`,
	`{"a":-0}`, `{"a":-0.0}`, `{"a":1e400}`, `{"a":-1e400}`, `{"a":1e-400}`, `{"a":12345678901234567890123}`, `{"a":1.0}`, `{"a":1E2}`, `{"a":0.1e1}`,
	`{"a":` + strings.Repeat("9", 64) + `}`, `{"a":` + strings.Repeat("9", 65) + `}`, `{"a":` + strings.Repeat("[", 63) + strings.Repeat("]", 63) + `}`,
	`{"a":` + strings.Repeat("[", 65) + strings.Repeat("]", 65) + `}`, `{"a":` + strings.Repeat(`{"a":`, 5000) + `1` + strings.Repeat(`}`, 5001),
	`{"b":1,"a":2}`, " {\n\t\"a\" : 1 } ", `{"a":"\/\u003c\u003E\u0026"}`, `{"a":"\\u003c"}`, `{"":""}`, `[]`, `"x"`, `null`, `{"a":tru}`, `{"a":1}x`, "\ufeff{}", "{\"a\":\"\xff\"}",
	`{"a":"` + strings.Repeat("<&>", 20_000) + `"}`, `{"a":"` + strings.Repeat("x", jsonform.MaxArgs) + `"}`, `{"a":[true,false,null,{"<":">"}]}`,
}

// classes are texts of each class of Unicode: its first and last characters, and some of the middle.
func classes() map[string]string {
	out := map[string]string{}
	for name, table := range unicode.Categories {
		var b strings.Builder
		for _, r := range table.R16 {
			b.WriteRune(rune(r.Lo))
			if b.Len() > 100 {
				break
			}
		}
		for i := len(table.R32) - 1; i >= 0 && b.Len() < 200; i-- {
			b.WriteRune(rune(table.R32[i].Hi))
		}
		out[name] = b.String()
	}
	return out
}

func object(t *testing.T, v any) json.RawMessage {
	t.Helper()
	text, err := json.Marshal(v) // with escapes for HTML, as some models write them
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// everyKind are arguments of every kind that a model may write.
func everyKind(t *testing.T) []json.RawMessage {
	var all []json.RawMessage
	for _, s := range shapes {
		all = append(all, json.RawMessage(s))
	}
	for _, v := range rude.Arguments() {
		all = append(all, json.RawMessage(v.Text))
	}
	for _, op := range operators {
		all = append(all, object(t, map[string]string{"command": "echo a" + op + "echo b"}))
	}
	for _, v := range rude.Commands() {
		all = append(all, object(t, map[string]string{"command": v.Text}))
	}
	byName := classes()
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		all = append(all, object(t, map[string]any{name: byName[name], byName[name]: name}))
	}
	r := rand.New(rand.NewPCG(13, 19))
	for range 20 {
		all = append(all, object(t, map[string]any{rude.Text(r): []any{rude.Text(r), r.Float64(), r.Int64()}}))
	}
	return all
}

// TestArgumentsComeThrough sends every kind of argument through request, store, restart, approval and lease.
func TestArgumentsComeThrough(t *testing.T) {
	all, taken := everyKind(t), 0
	for batch := range slices.Chunk(all, 25) {
		a := newAsking(t)
		var under []*journey
		for i, args := range batch {
			if j := (&journey{turn: fmt.Sprintf("turn%d", i), args: args}); a.request(j) {
				under = append(under, j)
			}
		}
		a.restart()
		for _, j := range under {
			a.approve(j)
		}
		a.restart()
		for _, j := range under {
			if approval.Showable(j.first) { // what is too long for a lease was approved once
				a.again(j)
			}
		}
		taken += len(under)
	}
	if taken < len(all)/2 {
		t.Errorf("only %d of %d arguments were taken", taken, len(all))
	}
}

// TestRequestsOfOlderVersionsMatch writes a request and a lease as a flynn without package jsonform did.
func TestRequestsOfOlderVersionsMatch(t *testing.T) {
	for _, lasting := range []bool{false, true} {
		a := newAsking(t)
		args := json.RawMessage(`{"command":"echo a && echo b > c < d","list":["<&>"]}`)
		var asked consent.Approval
		a.call("turn", args, func(r consent.Approval, cancel func()) { asked = r; cancel() })
		old := asked
		old.ID, old.Args = "OLDER", object(t, old.Args)
		if !strings.Contains(string(old.Args), `\u0026\u0026`) {
			t.Fatalf("the escaped arguments are %s", old.Args)
		}
		if err := a.rows.MoveApproval(t.Context(), asked.ID, consent.ApprovalPending, consent.ApprovalDenied, "x", time.Now()); err != nil {
			t.Fatal(err)
		}
		if err := a.rows.AddApproval(t.Context(), old); err != nil {
			t.Fatal(err)
		}
		if lasting {
			if err := a.approvals.Grant(t.Context(), "OLDER", approval.Lease{Scope: consent.GrantStanding}, "web:owner"); err != nil {
				t.Fatal(err)
			}
		}
		a.restart()
		n := 0
		v := a.call("turn", args, func(r consent.Approval, _ func()) {
			if n++; r.ID != "OLDER" {
				t.Errorf("asked anew as %s", r.ID)
			}
			a.decide(r)
		})
		if v.Action != tool.Run || lasting != (n == 0) {
			t.Errorf("lasting %v: %s after %d requests: %q", lasting, v.Action, n, v.Reasons)
		}
	}
}
