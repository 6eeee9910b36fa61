package policy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"

	"github.com/flynnhost/flynn/host/internal/event"
	"github.com/flynnhost/flynn/sdk/policy/abi"
)

// Set is a chain of policies as it was when it was pinned. It is safe for concurrent use until its Release.
type Set struct {
	links  []link
	digest string
	zone   string // IANA name of the host's zone
	routes int    // policies that route
	tools  int    // policies that guard tools
	log    *slog.Logger
	refs   atomic.Int64

	lastAgents atomic.Pointer[agentList]

	shadows                   []shadowLink
	shadowRoutes, shadowTools bool         // a shadow decides routes, tools
	queue                     *shadowQueue // nil if shadows are not asked
	events                    *event.Bus   // with queue
}

// link is one policy of a chain; module is nil when the policy fails closed, for the reason in err.
type link struct {
	source Source
	routes bool
	tools  bool
	scope  *scope // nil is everywhere
	module *Module
	err    *Error
	passed *atomic.Int64 // failures with AllowOnError; nil outside of an engine
}

func newSet(slots []*slot, zone string, log *slog.Logger) *Set {
	s := &Set{zone: zone, log: log}
	h := sha256.New()
	for _, sl := range slots {
		l := link{source: sl.source, module: sl.module.retain(), scope: newScope(sl.source), passed: sl.passed}
		if l.module == nil {
			l.err = asError(sl.err, ClassLoad)
		}
		if l.source.Shadow {
			s.addShadow(l)
			continue
		}
		s.add(l)
		fmt.Fprintf(h, "%q %s %q %q %v\n", l.source.Name, l.digest(), l.source.Agents, l.source.Channels, l.source.AllowOnError)
	}
	s.digest = hex.EncodeToString(h.Sum(nil))
	s.refs.Store(1)
	return s
}

func (s *Set) add(l link) {
	l.routes, l.tools = l.source.has(KindRoute), l.source.has(KindTool)
	s.links = append(s.links, l)
	if l.routes {
		s.routes++
	}
	if l.tools {
		s.tools++
	}
}

func (l *link) digest() string {
	if l.module == nil {
		return ""
	}
	return l.module.digest
}

// Digest returns a digest of the chain without its shadows: its policies, their order, scopes, modules, data and limits.
func (s *Set) Digest() string { return s.digest }

func (s *Set) acquire() bool {
	for {
		n := s.refs.Load()
		if n == 0 {
			return false
		}
		if s.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// Release ends the use of the chain. The last one closes the modules that no newer chain has.
func (s *Set) Release() {
	if s.refs.Add(-1) > 0 {
		return
	}
	for i := range s.links {
		s.links[i].module.release()
	}
	for i := range s.shadows {
		s.shadows[i].module.release()
	}
}

// Routes reports whether a policy or a shadow of the chain decides routes.
func (s *Set) Routes() bool { return s.routes > 0 || s.shadowRoutes }

// Route asks the route policies in order; the first that does not abstain decides. A policy that fails also decides: for its agent
// for errors, or for nobody.
func (s *Set) Route(ctx context.Context, f RouteFacts) (answer RouteAnswer, records []Record) {
	if !s.Routes() {
		return RouteAnswer{}, nil
	}
	q := routeQuery(&f, s.zone, s.agentList(f.Agents))
	records = s.route(ctx, q, make([]Record, 0, s.routes), &answer)
	if s.shadowRoutes {
		s.shadowRoute(ctx, q, &f, answer, records)
	}
	return answer, records
}

// DryRoute is Route for a message that was not sent. Shadow policies are not asked, because their answers are recorded.
func (s *Set) DryRoute(ctx context.Context, f RouteFacts) (answer RouteAnswer, records []Record) {
	records = s.route(ctx, routeQuery(&f, s.zone, s.agentList(f.Agents)), make([]Record, 0, s.routes), &answer)
	return answer, records
}

// route asks the route policies and fills in the answer.
func (s *Set) route(ctx context.Context, q *query, records []Record, answer *RouteAnswer) []Record {
	for i := range s.links {
		l := &s.links[i]
		if !l.routes || l.scope != nil && !l.scope.covers(q.agent, q.channel) {
			continue
		}
		records = append(records, Record{})
		r := &records[len(records)-1]
		var v decision
		l.ask(ctx, q, r, &v)
		if l.route(&v, q.agents, r, answer); answer.Decided {
			return records
		}
	}
	*answer = RouteAnswer{}
	return records
}

// Tool asks all tool policies and joins their restrictions. A policy that fails denies.
func (s *Set) Tool(ctx context.Context, f ToolFacts) (Restrictions, []Record) {
	if s.tools == 0 && !s.shadowTools {
		return Restrictions{}, nil
	}
	q := toolQuery(&f, s.zone)
	r, records := s.restrict(ctx, q, make([]Record, 0, s.tools))
	if s.shadowTools {
		s.shadowTool(ctx, q, &f, r, records)
	}
	return r, records
}

// DryRun is Tool for a call that will not be made. Shadow policies are not asked, because their answers are recorded.
func (s *Set) DryRun(ctx context.Context, f ToolFacts) (Restrictions, []Record) {
	q := toolQuery(&f, s.zone)
	return s.restrict(ctx, q, make([]Record, 0, s.tools))
}

func (s *Set) restrict(ctx context.Context, q *query, records []Record) (Restrictions, []Record) {
	var all Restrictions
	for i := range s.links {
		l := &s.links[i]
		if !l.tools || l.scope != nil && !l.scope.covers(q.agent, q.channel) {
			continue
		}
		records = append(records, Record{})
		r := &records[len(records)-1]
		var v decision
		l.ask(ctx, q, r, &v)
		all.Join(l.restrict(&v, r))
		if v.err != nil && l.source.AllowOnError {
			s.letPass(ctx, l, r)
		}
	}
	all.resolve()
	return all, records
}

// ask asks the policy. A failing one fails.
func (l *link) ask(ctx context.Context, q *query, r *Record, v *decision) {
	l.describe(q, r)
	switch {
	case l.module == nil:
		v.err = l.err
	case q.err != nil:
		v.err = q.err
	default:
		l.module.ask(ctx, q, r, v)
	}
}

// describe fills in the record's policy and question.
func (l *link) describe(q *query, r *Record) {
	r.Policy, r.Kind, r.Frame, r.Args = l.source.Name, q.kind, q.frame, q.args
	if l.module != nil {
		r.Digest, r.File = l.module.digest, l.module.file
	}
	if len(q.text) > abi.TextInFrame {
		r.Text = q.text
	}
}

// route reads a decision as a step of the route chain.
func (l *link) route(v *decision, agents []string, r *Record, a *RouteAnswer) {
	*a = RouteAnswer{}
	if v.err == nil {
		v.err = a.read(v, agents)
	}
	if v.err != nil {
		l.module.failed(v.err)
		r.Error = v.err.Error()
		*a = RouteAnswer{Decided: true, Reason: r.Error, Failed: true}
		if slices.Contains(agents, l.source.OnErrorAgent) {
			a.Agent = l.source.OnErrorAgent
		}
	} else {
		a.Reason = v.reason
	}
	a.Policy = l.source.Name
	r.Answer, r.Reason, r.Rule = a.words(v), a.Reason, v.rule
}

// letPass counts and logs that a call passes although a policy failed.
func (s *Set) letPass(ctx context.Context, l *link, r *Record) {
	if l.passed != nil {
		l.passed.Add(1)
	}
	if s.log != nil && ctx.Err() == nil {
		s.log.Warn("a policy failed, and dangerously_allow_on_error let the call pass", "policy", l.source.Name, "error", r.Error)
	}
}

// restrict reads a decision as restrictions.
func (l *link) restrict(v *decision, r *Record) Restrictions {
	one := toolAnswer(v)
	reason := v.reason
	if v.err != nil {
		l.module.failed(v.err)
		r.Error = v.err.Error()
		reason = r.Error
	}
	if v.err != nil && l.source.AllowOnError {
		one = Restrictions{}
		r.Answer, r.Reason = one.words(), reason
		return one // without a restriction there is no reason for one
	}
	r.Answer, r.Reason, r.Rule = one.words(), reason, v.rule
	if reason != "" {
		one.Reasons = []string{l.source.Name + ": " + reason}
	}
	return one
}
