package policy

import (
	"context"
	"math/rand/v2"
)

// Asker makes decisions one after the other without allocating: the records of a decision, and their frames, are valid only
// until the next one. One goroutine uses it.
type Asker struct {
	set     *Set
	q       query
	room    []byte // of the last frame
	records []Record
}

// Asker returns an Asker of this chain, which is valid until the chain's Release.
func (s *Set) Asker() *Asker {
	return &Asker{set: s, q: query{shard: rand.Uint32()}, records: make([]Record, 0, len(s.links))}
}

// Route is Set.Route.
func (a *Asker) Route(ctx context.Context, f *RouteFacts) (answer RouteAnswer, records []Record) {
	if a.set.routes == 0 {
		return RouteAnswer{}, nil
	}
	a.q.askRoute(f, a.set.zone, a.set.agentList(f.Agents), a.room)
	a.keep()
	records = a.set.route(ctx, &a.q, a.records[:0], &answer)
	return answer, records
}

// Tool is Set.Tool.
func (a *Asker) Tool(ctx context.Context, f *ToolFacts) (Restrictions, []Record) {
	if a.set.tools == 0 {
		return Restrictions{}, nil
	}
	a.q.askTool(f, a.set.zone, a.room)
	a.keep()
	return a.set.restrict(ctx, &a.q, a.records[:0])
}

// keep retains the larger of the two frames.
func (a *Asker) keep() {
	if cap(a.q.frame) > cap(a.room) {
		a.room = a.q.frame
	}
}
