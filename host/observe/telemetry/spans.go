// Package telemetry sends the traces of turns to a collector of OpenTelemetry, as spans over OTLP/HTTP in JSON.
//
// Start with New and Exporter.Offer. A span has the facts of package explain, without anything that people, models or tools wrote: no
// text, no arguments, no results. The exporter never delays a turn: spans that it cannot send are counted and dropped.
package telemetry

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/observe/explain"
)

// The JSON of OTLP 1.9: ids are lower-case hex, 64-bit numbers are strings.

type export struct {
	ResourceSpans []resourceSpans `json:"resourceSpans"`
}

type resourceSpans struct {
	Resource   resource     `json:"resource"`
	ScopeSpans []scopeSpans `json:"scopeSpans"`
}

type resource struct {
	Attributes []attribute `json:"attributes"`
}

type scopeSpans struct {
	Scope scope  `json:"scope"`
	Spans []span `json:"spans"`
}

type scope struct {
	Name string `json:"name"`
}

type span struct {
	TraceID    string      `json:"traceId"`
	SpanID     string      `json:"spanId"`
	ParentID   string      `json:"parentSpanId,omitempty"`
	Name       string      `json:"name"`
	Kind       int         `json:"kind"`
	Start      string      `json:"startTimeUnixNano"`
	End        string      `json:"endTimeUnixNano"`
	Attributes []attribute `json:"attributes,omitempty"`
	Status     status      `json:"status"`
}

// Kinds of spans, and the status of one that failed.
const (
	kindInternal = 1
	kindServer   = 2
	kindClient   = 3
	statusError  = 2
)

type status struct {
	Code int `json:"code,omitempty"`
}

type attribute struct {
	Key   string `json:"key"`
	Value value  `json:"value"`
}

type value struct {
	String *string  `json:"stringValue,omitempty"`
	Int    *string  `json:"intValue,omitempty"`
	Double *float64 `json:"doubleValue,omitempty"`
	Array  *values  `json:"arrayValue,omitempty"`
}

type values struct {
	Values []value `json:"values"`
}

func text(key, s string) attribute { return attribute{key, value{String: &s}} }

func number(key string, n int64) attribute {
	s := strconv.FormatInt(n, 10)
	return attribute{key, value{Int: &s}}
}

func float(key string, f float64) attribute { return attribute{key, value{Double: &f}} }

func list(key string, s string) attribute {
	return attribute{key, value{Array: &values{[]value{{String: &s}}}}}
}

// wrap is a request to a collector.
func wrap(spans []span) export {
	return export{[]resourceSpans{{
		Resource:   resource{[]attribute{text("service.name", "flynn")}},
		ScopeSpans: []scopeSpans{{scope{"github.com/flynnhost/flynn"}, spans}},
	}}}
}

// drawer makes the spans of one turn. Their ids are derived from the ids of the turns, so that a turn that is sent twice has the same.
type drawer struct {
	trace explain.Trace
	root  string // trace id
	spans []span
}

// spansOf returns the spans of a turn. A delegated turn is below the call that delegated it; first names the trace.
func spansOf(t explain.Trace, first string) []span {
	d := &drawer{trace: t, root: digest(first, 16)}
	above := ""
	if t.Parent != "" {
		above = d.id(t.Parent, "call", t.ParentCall)
	}
	turn := d.add(above, "invoke_agent "+t.Agent, kindServer, t.Started, t.Ended, t.State == "failed",
		text("gen_ai.operation.name", "invoke_agent"), text("gen_ai.agent.name", t.Agent), text("gen_ai.conversation.id", string(t.Session)),
		text("flynn.turn", t.ID), text("flynn.turn.state", t.State), text("flynn.channel", t.Channel), float("flynn.cost_usd", t.CostUSD))
	d.route(turn)
	for _, s := range t.Steps {
		d.step(turn, s)
	}
	for _, a := range t.Deliveries {
		d.add(turn, "deliver "+a.Channel, kindClient, t.Ended, t.Ended, a.State == "dead", text("flynn.channel", a.Channel), text("flynn.delivery.state", a.State),
			number("flynn.delivery.attempts", int64(a.Attempts)))
	}
	return d.spans
}

func (d *drawer) route(turn string) {
	if len(d.trace.Route) == 0 {
		return
	}
	begin, end := d.trace.Route[0].At, d.trace.Route[0].At
	var took time.Duration
	attributes := []attribute{}
	for _, r := range d.trace.Route {
		took += time.Duration(r.Nanos)
		if r.At.After(end) {
			end = r.At
		}
		attributes = append(attributes, text("flynn.route."+r.By, r.Answer))
	}
	d.add(turn, "route", kindInternal, begin.Add(-took), end, false, attributes...)
}

func (d *drawer) step(turn string, s explain.Step) {
	begin := s.At
	if len(s.Attempts) > 0 {
		begin = s.Attempts[0].At
	}
	attributes := []attribute{
		text("gen_ai.operation.name", "chat"), text("gen_ai.provider.name", s.Provider), text("gen_ai.request.model", s.Model),
		text("gen_ai.response.model", s.Model), number("gen_ai.usage.input_tokens", s.Tokens.Input+s.Tokens.CacheRead+s.Tokens.CacheWrite),
		number("gen_ai.usage.output_tokens", s.Tokens.Output), float("flynn.cost_usd", s.CostUSD), text("flynn.tier", s.Tier),
	}
	if s.Stop != "" {
		attributes = append(attributes, list("gen_ai.response.finish_reasons", s.Stop))
	}
	if s.Task != "" {
		attributes = append(attributes, text("flynn.task", s.Task))
	}
	d.add(turn, strings.TrimSpace("chat "+s.Model), kindClient, begin, s.At, s.Error != "", attributes...)
	for _, c := range s.Calls {
		if c.Outcome != "" {
			d.call(turn, c)
		}
	}
}

func (d *drawer) call(turn string, c explain.ToolCall) {
	begin, end := c.Started, c.Ended
	if c.Host != nil {
		begin = c.Host.At
	}
	if len(c.Policies) > 0 && c.Policies[0].At.Before(begin) {
		begin = c.Policies[0].At
	}
	for _, a := range c.Approvals {
		if a.Created.Before(begin) {
			begin = a.Created
		}
	}
	id := d.id(d.trace.ID, "call", c.ID)
	attributes := []attribute{
		text("gen_ai.operation.name", "execute_tool"), text("gen_ai.tool.name", c.Tool), text("gen_ai.tool.call.id", c.ID),
		text("flynn.verdict", c.Outcome), text("flynn.where", c.Where), number("flynn.restrictions", int64(len(c.Reasons))),
	}
	for _, p := range c.Policies {
		attributes = append(attributes, text("flynn.policy."+p.By, p.Answer))
	}
	if c.IsError {
		attributes = append(attributes, text("error.type", "tool_error"))
	}
	d.addAs(id, turn, "execute_tool "+c.Tool, kindInternal, begin, end, c.IsError, attributes...)
	for _, a := range c.Approvals {
		d.add(id, "wait for approval", kindInternal, a.Created, a.Decided, false, text("flynn.approval.state", a.State), text("flynn.approval.id", a.ID))
	}
}

// add adds a span whose id is derived from its number, and returns the id.
func (d *drawer) add(above, name string, kind int, begin, end time.Time, failed bool, attributes ...attribute) string {
	id := d.id(d.trace.ID, "span", strconv.Itoa(len(d.spans)))
	d.addAs(id, above, name, kind, begin, end, failed, attributes...)
	return id
}

func (d *drawer) addAs(id, above, name string, kind int, begin, end time.Time, failed bool, attributes ...attribute) {
	if begin.IsZero() {
		begin = d.trace.Started
	}
	if end.Before(begin) { // not over, or the clock was set back
		end = begin
	}
	s := span{
		TraceID: d.root, SpanID: id, ParentID: above, Name: name, Kind: kind, Start: nanos(begin), End: nanos(end), Attributes: attributes,
	}
	if failed {
		s.Status.Code = statusError
	}
	d.spans = append(d.spans, s)
}

func (d *drawer) id(parts ...string) string { return digest(fmt.Sprintf("%q", parts), 8) }

func digest(text string, bytes int) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:bytes])
}

func nanos(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 10) }
