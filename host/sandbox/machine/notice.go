package machine

import "context"

type noticeKey struct{}

// WithNotice returns a context under which Notice calls tell: a person waits there for a machine that is still being made.
// tell must not block for long and may be called by several goroutines.
func WithNotice(ctx context.Context, tell func(line string)) context.Context {
	return context.WithValue(ctx, noticeKey{}, tell)
}

// Notice tells the audience of ctx what it waits for, in one line for people.
func Notice(ctx context.Context, line string) {
	if tell, ok := ctx.Value(noticeKey{}).(func(string)); ok {
		tell(line)
	}
}
