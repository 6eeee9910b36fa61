package policy

import "context"

// Judge is Tool for a call that nobody makes: shadows, whose answers are kept, are not asked.
func (s *Set) Judge(ctx context.Context, f ToolFacts) (Restrictions, []Record) {
	q := toolQuery(&f, s.zone)
	return s.restrict(ctx, &q, make([]Record, 0, s.tools))
}
