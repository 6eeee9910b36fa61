package policy

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"
)

// A shadow policy is asked the same as the chain, after the chain has answered, and has no effect. It is compared with one policy of the
// chain, or the chain is compared with itself including the shadow. Shadow decisions wait in a bounded queue and are made one at a
// time by RunShadows; those that do not fit are counted and dropped, so that no decision ever waits for a shadow.

// ShadowOutcome is the result of asking a shadow policy.
type ShadowOutcome string

// The outcomes.
const (
	ShadowSame    ShadowOutcome = "same"
	ShadowChanged ShadowOutcome = "changed"
	ShadowFailed  ShadowOutcome = "failed"  // the shadow failed
	ShadowSkipped ShadowOutcome = "skipped" // the policy that it is compared with was not asked
	ShadowDropped ShadowOutcome = "dropped" // the queue was full
)

// Shadowed is one decision that concerns a shadow policy.
type Shadowed struct {
	Policy  string // the shadow
	Digest  string
	File    string
	Against string // the policy that it is compared with, "" for the whole chain
	Outcome ShadowOutcome
	At      time.Time
	// Was is the answer that took effect, and Is the one that would have. Compared with the chain, a tool's answer is "deny" even with
	// further restrictions, and a route's is "agent NAME", "drop" or "nobody". Both have the decision's frame.
	Was, Is Record
}

// shadowLink is a shadow policy of a chain, and the number of policies before it.
type shadowLink struct {
	link
	place int
}

// shadowJob is one decision that shadows are asked about. It holds a reference to its chain.
type shadowJob struct {
	set          *Set
	q            query
	at           time.Time
	candidate    string
	answer       RouteAnswer
	restrictions Restrictions
	records      []Record
}

// Bounds of the queue.
const (
	shadowJobs  = 256
	shadowBytes = 64 << 20
)

// size estimates the memory of the job.
func (j *shadowJob) size() int64 { return int64(len(j.q.frame) + len(j.q.text) + len(j.q.args)) }

// shadowQueue accepts jobs while RunShadows runs.
type shadowQueue struct {
	jobs chan *shadowJob

	mu      sync.Mutex
	running bool
	bytes   int64
}

func newShadowQueue() *shadowQueue { return &shadowQueue{jobs: make(chan *shadowJob, shadowJobs)} }

// put queues a job and reports whether it had to drop it. If shadows are not asked, it ignores the job.
func (q *shadowQueue) put(j *shadowJob) (dropped bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.running {
		return false
	}
	if q.bytes+j.size() > shadowBytes {
		return true
	}
	j.set.refs.Add(1) // the caller holds the chain
	select {
	case q.jobs <- j:
		q.bytes += j.size()
		return false
	default:
		j.set.refs.Add(-1)
		return true
	}
}

func (q *shadowQueue) done(j *shadowJob) {
	q.mu.Lock()
	q.bytes -= j.size()
	q.mu.Unlock()
	j.set.Release()
}

// start makes the queue accept jobs; stop refuses them and drops those that wait.
func (q *shadowQueue) start() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.running {
		return false
	}
	q.running = true
	return true
}

func (q *shadowQueue) stop() {
	q.mu.Lock()
	q.running = false
	q.mu.Unlock()
	for {
		select {
		case j := <-q.jobs:
			q.done(j)
		default:
			return
		}
	}
}

// addShadow adds a shadow policy.
func (s *Set) addShadow(l link) {
	l.routes, l.tools = l.source.has(KindRoute), l.source.has(KindTool)
	s.shadows = append(s.shadows, shadowLink{l, len(s.links)})
	s.shadowRoutes = s.shadowRoutes || l.routes
	s.shadowTools = s.shadowTools || l.tools
}

// shadowRoute queues a routing decision for the shadows.
func (s *Set) shadowRoute(ctx context.Context, q *query, f *RouteFacts, a RouteAnswer, records []Record) {
	s.cast(ctx, &shadowJob{set: s, q: *q, at: f.Now, candidate: f.Candidate, answer: a, records: records})
}

// shadowTool queues a tool decision for the shadows.
func (s *Set) shadowTool(ctx context.Context, q *query, f *ToolFacts, r Restrictions, records []Record) {
	r.Sandboxes, r.Reasons = slices.Clone(r.Sandboxes), slices.Clone(r.Reasons)
	s.cast(ctx, &shadowJob{set: s, q: *q, at: f.Now, restrictions: r, records: records})
}

// cast queues a job, unless the decision was cancelled or its facts did not fit a frame.
func (s *Set) cast(ctx context.Context, j *shadowJob) {
	if s.queue == nil || ctx.Err() != nil || j.q.err != nil || !s.queue.put(j) {
		return
	}
	for i := range s.shadows {
		if l := &s.shadows[i]; l.concerns(&j.q) {
			s.events.Publish(l.shadowed(j, ShadowDropped))
		}
	}
}

// RunShadows asks shadow policies until the context ends. While it does not run they are not asked.
func (e *Engine) RunShadows(ctx context.Context) error {
	if !e.shadows.start() {
		return fmt.Errorf("shadow policies are being asked already")
	}
	defer e.shadows.stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case j := <-e.shadows.jobs:
			e.shadow(ctx, j)
		}
	}
}

// shadow asks all shadows about one decision. A panic ends neither the host nor later decisions.
func (e *Engine) shadow(ctx context.Context, j *shadowJob) {
	defer e.shadows.done(j)
	defer func() {
		if p := recover(); p != nil {
			e.cfg.Log.Error("panic", "part", "shadow policies", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		}
	}()
	for i := range j.set.shadows {
		l := &j.set.shadows[i]
		if !l.concerns(&j.q) {
			continue
		}
		s := l.ask(ctx, j)
		if ctx.Err() != nil {
			return // it was cancelled
		}
		e.cfg.Events.Publish(s)
	}
}

// concerns reports whether the shadow decides the query.
func (l *shadowLink) concerns(q *query) bool {
	return l.source.has(q.kind) && (l.scope == nil || l.scope.covers(q.agent, q.channel))
}

func (l *shadowLink) shadowed(j *shadowJob, o ShadowOutcome) Shadowed {
	s := Shadowed{Policy: l.source.Name, Digest: l.digest(), Against: l.source.ShadowOf, Outcome: o, At: j.at}
	if l.module != nil {
		s.File = l.module.file
	}
	return s
}

// ask asks one shadow about one decision and compares the answers.
func (l *shadowLink) ask(ctx context.Context, j *shadowJob) Shadowed {
	if l.source.ShadowOf != "" {
		return l.askBeside(ctx, j)
	}
	return l.askWithin(ctx, j)
}

// askBeside compares the shadow's own answer with that of one policy.
func (l *shadowLink) askBeside(ctx context.Context, j *shadowJob) Shadowed {
	at := slices.IndexFunc(j.records, func(r Record) bool { return r.Policy == l.source.ShadowOf })
	if at < 0 {
		return l.shadowed(j, ShadowSkipped)
	}
	s := l.shadowed(j, ShadowSame)
	s.Was = j.records[at]
	if j.q.kind == KindRoute {
		l.askRoute(ctx, j, &s.Is)
	} else {
		l.askTool(ctx, j, &s.Is)
	}
	s.compare()
	return s
}

// askWithin compares the chain's answer with the one that it would have given with the shadow in its place.
func (l *shadowLink) askWithin(ctx context.Context, j *shadowJob) Shadowed {
	s := l.shadowed(j, ShadowSame)
	s.Was = Record{Policy: l.source.Name, Kind: j.q.kind, Frame: j.q.frame}
	s.Is = s.Was
	if j.q.kind == KindTool {
		s.Was.Answer, s.Was.Reason = j.restrictions.effect(), strings.Join(j.restrictions.Reasons, "; ")
		var own Record
		var with Restrictions
		with.Join(j.restrictions)
		with.Join(l.askTool(ctx, j, &own))
		with.resolve()
		s.Is.Answer, s.Is.Reason, s.Is.Error = with.effect(), own.Reason, own.Error
		s.compare()
		return s
	}
	s.Was.Answer, s.Was.Reason = j.answer.effect(j.candidate), j.answer.Reason
	if j.answer.Decided && j.set.placeOf(j.answer.Policy) < l.place {
		return s // an earlier policy decided
	}
	var own Record
	with := l.askRoute(ctx, j, &own)
	if !with.Decided {
		with, own.Reason = j.answer, j.answer.Reason
	}
	s.Is.Answer, s.Is.Reason, s.Is.Error = with.effect(j.candidate), own.Reason, own.Error
	s.compare()
	return s
}

func (l *shadowLink) askRoute(ctx context.Context, j *shadowJob, r *Record) RouteAnswer {
	var v decision
	l.link.ask(ctx, &j.q, r, &v)
	var a RouteAnswer
	l.route(&v, j.q.agents, r, &a)
	return a
}

func (l *shadowLink) askTool(ctx context.Context, j *shadowJob, r *Record) Restrictions {
	q := j.q
	q.tree = &tree{} // the decision's own may be in use
	var v decision
	l.link.ask(ctx, &q, r, &v)
	return l.restrict(&v, r)
}

// compare sets the outcome.
func (s *Shadowed) compare() {
	switch {
	case s.Is.Error != "":
		s.Outcome = ShadowFailed
	case s.Was.Answer != s.Is.Answer || s.Was.Error != "":
		s.Outcome = ShadowChanged
	}
}

// placeOf returns the index of a policy in the chain.
func (s *Set) placeOf(name string) int {
	return slices.IndexFunc(s.links, func(l link) bool { return l.source.Name == name })
}

// effect returns the answer in words that say what happens.
func (r *Restrictions) effect() string {
	if r.Deny {
		return "deny"
	}
	return r.words()
}

// effect returns who answers in the end: the static table's candidate if no policy decides.
func (a *RouteAnswer) effect(candidate string) string {
	switch {
	case a.Decided && a.Agent == "":
		return "drop"
	case a.Decided:
		return agentWord + a.Agent
	case candidate == "":
		return "nobody"
	}
	return agentWord + candidate
}

// checkShadows checks that the policies with which shadows are compared exist and decide the same kinds.
func checkShadows(sources []Source) error {
	for _, s := range sources {
		if s.ShadowOf == "" {
			continue
		}
		if !s.Shadow {
			return fmt.Errorf("policy %q: shadow_of is of use to a shadow only: set shadow = true", s.Name)
		}
		i := slices.IndexFunc(sources, func(o Source) bool { return o.Name == s.ShadowOf && !o.Shadow })
		if i < 0 {
			return fmt.Errorf("policy %q: shadow_of names %q, which is no policy in force", s.Name, s.ShadowOf)
		}
		for _, kind := range s.Kinds {
			if !sources[i].has(kind) {
				return fmt.Errorf("policy %q: it decides about a %s, and %s, which it shadows, does not", s.Name, kind, s.ShadowOf)
			}
		}
	}
	return nil
}
