package policy

import "context"

// RouteFrame asks this module alone with a frame as it is. The facts say what the module may read besides the frame, and which
// agents may be chosen.
func (m *Module) RouteFrame(ctx context.Context, frame []byte, f RouteFacts) (RouteAnswer, Record) {
	q := routeQuery(&f, m.host.zone)
	q.frame = frame
	var r Record
	l := link{source: m.source, module: m}
	var v verdict
	l.ask(ctx, &q, &r, &v)
	var a RouteAnswer
	l.route(&v, f.Agents, &r, &a)
	return a, r
}

// ToolFrame asks this module alone with a frame as it is. The facts say what the module may read besides the frame.
func (m *Module) ToolFrame(ctx context.Context, frame []byte, f ToolFacts) (Restrictions, Record) {
	q := toolQuery(&f, m.host.zone)
	q.frame = frame
	var r Record
	l := link{source: m.source, module: m}
	var v verdict
	l.ask(ctx, &q, &r, &v)
	return l.restrict(&v, &r), r
}
