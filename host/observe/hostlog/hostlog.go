// Package hostlog keeps the last records of the host's own log, for flynn logs, flynn status and flynn doctor.
//
// Start with Log, a slog.Handler that keeps records and passes them on to the one that prints them. Records are kept in memory only: what
// has to survive a restart is the journal of the service manager, or wherever standard error goes. Secrets are not masked here, because
// they never reach a log.
package hostlog

import (
	"cmp"
	"context"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// Bounds on what is kept.
const (
	maxRecords = 2000
	maxText    = 2 << 10 // bytes of a message, and of the value of an attribute
	maxAttrs   = 32
)

// Record is one record of the log. Seq starts at 1 with each host, and rises by one.
type Record struct {
	Seq   uint64    `json:"seq"`
	Time  time.Time `json:"time"`
	Level string    `json:"level"`
	// Area is the area of the host that wrote the record, such as channel or sandbox.
	Area    string `json:"area,omitempty"`
	Message string `json:"message"`
	Attrs   []Attr `json:"attrs,omitempty"`

	level slog.Level
}

// Attr is an attribute of a record, in text form.
type Attr struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Get returns the value of an attribute, or "".
func (r Record) Get(key string) string {
	for _, a := range r.Attrs {
		if a.Key == key {
			return a.Value
		}
	}
	return ""
}

// Filter chooses records. The zero value chooses all.
type Filter struct {
	After   uint64 // Seq; one above the last comes from an earlier host, and chooses all
	Level   slog.Level
	Area    string
	Channel string // instance of a channel or of a provider of tools
	Session string
	Turn    string
	Limit   int // the latest so many; 0 is no limit
}

// Log keeps records and passes them on. It is a slog.Handler.
type Log struct {
	next   slog.Handler
	kept   *ring
	attrs  []Attr
	prefix string // of open groups
}

type ring struct {
	mu      sync.Mutex
	records []Record // at most maxRecords, oldest first
	last    uint64
	warned  chan struct{} // capacity 1
}

var _ slog.Handler = (*Log)(nil)

// New returns a handler that passes records on to next.
func New(next slog.Handler) *Log {
	return &Log{next: next, kept: &ring{warned: make(chan struct{}, 1)}}
}

// Enabled implements slog.Handler: records from the level info on are kept even if next leaves them out.
func (l *Log) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo || l.next.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (l *Log) Handle(ctx context.Context, r slog.Record) error {
	kept := Record{Time: r.Time, Level: r.Level.String(), level: r.Level, Area: areaOf(r.PC), Message: cut(r.Message), Attrs: slices.Clone(l.attrs)}
	r.Attrs(func(a slog.Attr) bool {
		kept.Attrs = flat(kept.Attrs, l.prefix, a)
		return len(kept.Attrs) < maxAttrs
	})
	l.kept.add(kept)
	if !l.next.Enabled(ctx, r.Level) {
		return nil
	}
	return l.next.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (l *Log) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *l
	with.next, with.attrs = l.next.WithAttrs(attrs), slices.Clone(l.attrs)
	for _, a := range attrs {
		with.attrs = flat(with.attrs, l.prefix, a)
	}
	return &with
}

// WithGroup implements slog.Handler.
func (l *Log) WithGroup(name string) slog.Handler {
	if name == "" {
		return l
	}
	with := *l
	with.next, with.prefix = l.next.WithGroup(name), l.prefix+name+"."
	return &with
}

// flat appends an attribute; the members of a group are appended one by one.
func flat(attrs []Attr, prefix string, a slog.Attr) []Attr {
	value := a.Value.Resolve()
	if value.Kind() == slog.KindGroup {
		if a.Key != "" {
			prefix += a.Key + "."
		}
		for _, member := range value.Group() {
			attrs = flat(attrs, prefix, member)
		}
		return attrs
	}
	if a.Key == "" || len(attrs) >= maxAttrs {
		return attrs
	}
	return append(attrs, Attr{prefix + a.Key, cut(value.String())})
}

// cut bounds a text, at the end of a rune.
func cut(s string) string {
	if len(s) <= maxText {
		return s
	}
	end := maxText
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "..."
}

// areaOf returns the area of the function that wrote a record: the folder below host/ that it is in.
func areaOf(pc uintptr) string {
	frame, _ := runtime.CallersFrames([]uintptr{pc}).Next()
	_, inside, ok := strings.Cut(frame.Function, "/flynn/host/")
	if !ok {
		return "host"
	}
	if end := strings.IndexAny(inside, "/."); end >= 0 {
		inside = inside[:end]
	}
	return inside
}

func (r *ring) add(rec Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	rec.Seq = r.last
	if len(r.records) == maxRecords {
		copy(r.records, r.records[1:])
		r.records = r.records[:maxRecords-1]
	}
	r.records = append(r.records, rec)
	if rec.level < slog.LevelWarn {
		return
	}
	select {
	case r.warned <- struct{}{}:
	default:
	}
}

// Warned returns a channel that receives after warnings and errors. One observer can use it.
func (l *Log) Warned() <-chan struct{} { return l.kept.warned }

// Records returns the kept records that a filter chooses, oldest first.
func (l *Log) Records(f Filter) []Record {
	l.kept.mu.Lock()
	defer l.kept.mu.Unlock()
	if f.After > l.kept.last {
		f.After = 0
	}
	var out []Record
	for _, r := range l.kept.records {
		if r.Seq > f.After && f.takes(r) {
			out = append(out, r)
		}
	}
	if f.Limit > 0 && len(out) > f.Limit {
		out = out[len(out)-f.Limit:]
	}
	return out
}

func (f Filter) takes(r Record) bool {
	return r.level >= f.Level && (f.Area == "" || r.Area == f.Area) &&
		(f.Channel == "" || r.Get("channel") == f.Channel || r.Get("instance") == f.Channel) &&
		(f.Session == "" || r.Get("session") == f.Session) && (f.Turn == "" || r.Get("turn") == f.Turn)
}

// Repeat is a warning or error that was logged more than once.
type Repeat struct {
	Level   string    `json:"level"`
	Area    string    `json:"area,omitempty"`
	Message string    `json:"message"`
	Count   int       `json:"count"`
	Last    time.Time `json:"last"`
	// Instance is the channel or provider of tools that they are about, if they are about one.
	Instance string `json:"instance,omitempty"`
	// Detail is the error of the latest one.
	Detail string `json:"detail,omitempty"`
}

// Repeats counts the kept warnings and errors since a time by their area, message and instance, and returns those with at least least of them, the
// most frequent first.
func (l *Log) Repeats(since time.Time, least int) []Repeat {
	type key struct{ area, message, instance string }
	counts := map[key]*Repeat{}
	for _, r := range l.Records(Filter{Level: slog.LevelWarn}) {
		if r.Time.Before(since) {
			continue
		}
		k := key{r.Area, r.Message, cmp.Or(r.Get("instance"), r.Get("channel"))}
		if counts[k] == nil {
			counts[k] = &Repeat{Area: r.Area, Message: r.Message, Instance: k.instance}
		}
		c := counts[k]
		c.Count++
		c.Level, c.Last, c.Detail = r.Level, r.Time, cmp.Or(r.Get("error"), r.Get("fields.error"))
	}
	var out []Repeat
	for _, c := range counts {
		if c.Count >= least {
			out = append(out, *c)
		}
	}
	slices.SortFunc(out, func(a, b Repeat) int {
		if a.Count != b.Count {
			return b.Count - a.Count
		}
		return cmp.Or(strings.Compare(a.Message, b.Message), strings.Compare(a.Instance, b.Instance))
	})
	return out
}
