package backend

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/internal/jsonform"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/policy/author"
	"github.com/flynnhost/flynn/host/policy/decisionlog"
	"github.com/flynnhost/flynn/host/policy/journal"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/sdk/cut"
	"github.com/flynnhost/flynn/sdk/policy/abi"
)

// Decisions shows the decision log.
type Decisions struct {
	Store interface {
		decisionlog.Source
		LatestDecisions(ctx context.Context, f journal.DecisionFilter, before int64) ([]journal.Listed, error)
	}
}

var _ gateway.Decisions = Decisions{}

// Bounds of an answer: the records looked at, and the bytes of a text in a list and of one decision alone.
const (
	decisionsLooked = 4000
	decisionsBatch  = 200
	listedText      = 2000
	wholeText       = 32 << 10
	shownCalls      = 200
)

// Decisions implements gateway.Decisions.
func (d Decisions) Decisions(ctx context.Context, q gateway.DecisionQuery) ([]gateway.Decision, string, error) {
	before, err := strconv.ParseInt(cmp.Or(q.Cursor, "0"), 10, 64)
	if err != nil || before < 0 {
		return nil, "", gateway.BadRequest(fmt.Sprintf("cursor %.40q is none that an answer had", q.Cursor))
	}
	f := journal.DecisionFilter{Policy: q.Policy, Kind: q.Kind, Since: q.Since, Limit: decisionsBatch, WithoutCalls: true}
	out := []gateway.Decision{}
	for range decisionsLooked / decisionsBatch {
		rows, err := d.Store.LatestDecisions(ctx, f, before)
		if err != nil {
			return nil, "", err
		}
		for i := range rows {
			before = rows[i].ID
			if one := decisionOf(&rows[i], listedText); chosen(&one, &q) {
				if out = append(out, one); len(out) == q.Limit {
					return out, strconv.FormatInt(before, 10), nil
				}
			}
		}
		if len(rows) < decisionsBatch {
			return out, "", nil
		}
	}
	return out, strconv.FormatInt(before, 10), nil
}

// chosen reports whether a query selects a decision.
func chosen(d *gateway.Decision, q *gateway.DecisionQuery) bool {
	words := strings.FieldsFunc(d.Answer, func(c rune) bool { return c == ' ' || c == ',' }) // such as "deny, ask"
	return (q.Agent == "" || d.Agent == q.Agent) && (q.Tool == "" || d.Tool == q.Tool) && (q.Person == "" || d.Person == q.Person) &&
		(q.Outcome == "" || slices.Contains(words, q.Outcome) || q.Outcome == "failed" && d.Error != "")
}

// Decision implements gateway.Decisions.
func (d Decisions) Decision(ctx context.Context, id int64) (gateway.DecisionDetail, error) {
	rows, err := d.Store.LatestDecisions(ctx, journal.DecisionFilter{ID: id, Limit: 1}, 0)
	if err == nil && len(rows) == 0 {
		err = fmt.Errorf("%w: the log has no decision %d", store.ErrNotFound, id)
	}
	if err != nil {
		return gateway.DecisionDetail{}, err
	}
	row := &rows[0]
	out := gateway.DecisionDetail{
		Decision: decisionOf(row, wholeText), File: row.File, Text: clipped(row.Text, wholeText), Args: clippedArgs(row.Args), Facts: []author.Fact{},
		Calls: []author.CallMade{},
	}
	if len(row.Frame) > 0 {
		facts, err := author.FactsOf(row.Frame)
		for _, f := range facts {
			out.Facts = append(out.Facts, author.Fact{Name: f.Name, Value: clipped(f.Value, listedText)})
		}
		if err != nil {
			out.Facts = append(out.Facts, author.Fact{Name: "damaged", Value: err.Error()})
		}
	}
	if record, err := decisionlog.Record(&row.Decision); err == nil {
		for _, c := range author.CallsOf(record.Calls[:min(len(record.Calls), shownCalls)]) {
			c.Args, c.Data = clipped(c.Args, listedText), clipped(c.Data, listedText)
			out.Calls = append(out.Calls, c)
		}
	}
	return out, nil
}

// ExportDecisions implements gateway.Decisions.
func (d Decisions) ExportDecisions(ctx context.Context, f journal.DecisionFilter, w io.Writer) error {
	return decisionlog.Encode(d.Store.EachDecision(ctx, f), w)
}

// decisionOf returns a row of the log with its texts cut.
func decisionOf(l *journal.Listed, text int) gateway.Decision {
	d := gateway.Decision{
		ID: l.ID, At: l.At, Kind: l.Kind, Policy: l.Policy, Digest: l.Digest, Turn: l.Turn, Agent: l.Agent, Person: l.Sender, Channel: l.Channel,
		Answer: clipped(l.Answer, text), Reason: clipped(l.Reason, text), Error: clipped(l.Error, text), Fuel: l.Fuel, Nanos: l.Nanos,
	}
	switch l.Kind {
	case policy.KindRoute, policy.KindTool:
		r := policy.Record{Kind: l.Kind, Frame: l.Frame}
		d.Tool, d.Agent = r.Fact(abi.Tool), cmp.Or(d.Agent, r.Fact(abi.Agent))
		d.Person, d.Channel = cmp.Or(d.Person, message.SenderKey(r.Fact(abi.Sender))), cmp.Or(d.Channel, r.Fact(abi.Channel))
	case "enforce", "violation": // the host's rows begin with the tool
		d.Tool, d.Reason, _ = strings.Cut(d.Reason, ": ")
	}
	return d
}

// clipped is the beginning of a text.
func clipped(s string, most int) string {
	if len(s) > most {
		s = cut.Head(s, most) + " [...]"
	}
	if utf8.ValidString(s) {
		return s
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

func clippedArgs(args json.RawMessage) json.RawMessage {
	if len(args) <= wholeText && json.Valid(args) || len(args) == 0 {
		return args
	}
	text, err := jsonform.Marshal(clipped(string(args), wholeText))
	if err != nil {
		return nil
	}
	return text
}
