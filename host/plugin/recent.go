package plugin

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/plugin/kind"
)

// Line is one line of an instance's log.
type Line struct {
	Seq   uint64    `json:"seq"` // starts at 1 with each host, and rises by one
	Time  time.Time `json:"time"`
	Level string    `json:"level"`
	Text  string    `json:"text"`
}

// Bounds on the kept log of one instance.
const (
	recentLines = 1000
	maxRecent   = 4 << 10 // bytes of one line
)

// recent keeps the last lines of an instance's log, of its processes and of the host about it, with secrets already masked. It survives a
// reload that replaces the instance, so that somebody who follows the log misses nothing.
type recent struct {
	mu    sync.Mutex
	lines []Line // at most recentLines, oldest first
	last  uint64
}

func (r *recent) add(at time.Time, level slog.Level, text string) {
	text = kind.Text(text, maxRecent)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	if len(r.lines) == recentLines {
		copy(r.lines, r.lines[1:])
		r.lines = r.lines[:recentLines-1]
	}
	r.lines = append(r.lines, Line{r.last, at, level.String(), text})
}

// after returns the lines after seq. A seq above the last one comes from an earlier host: then all lines are new.
func (r *recent) after(seq uint64) []Line {
	r.mu.Lock()
	defer r.mu.Unlock()
	if seq > r.last {
		seq = 0
	}
	n := min(uint64(len(r.lines)), r.last-seq)
	return slices.Clone(r.lines[uint64(len(r.lines))-n:])
}

// recentOf returns the kept log of an instance. h.mu is held.
func (h *Host) recentOf(name string) *recent {
	kept, ok := h.logs[name]
	if !ok {
		kept = &recent{}
		h.logs[name] = kept
	}
	return kept
}

// Logs returns the last log lines of an instance after seq.
func (h *Host) Logs(instance string, seq uint64) ([]Line, error) {
	sup, err := h.supervisor(instance)
	if err != nil {
		return nil, err
	}
	return sup.recent.after(seq), nil
}

// tee is a slog.Handler that keeps records and passes them on.
type tee struct {
	slog.Handler
	recent *recent
	prefix string // of groups and attributes that were added after the instance's own
}

// Enabled implements slog.Handler: records from the level info on are kept even if the host's own log leaves them out.
func (t tee) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo || t.Handler.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (t tee) Handle(ctx context.Context, r slog.Record) error {
	var text strings.Builder
	text.WriteString(r.Message)
	text.WriteString(t.prefix)
	r.Attrs(func(a slog.Attr) bool {
		write(&text, a)
		return true
	})
	t.recent.add(r.Time, r.Level, text.String())
	if !t.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return t.Handler.Handle(ctx, r)
}

// write adds one attribute in the text form; the members of a group are written one by one.
func write(out *strings.Builder, a slog.Attr) {
	if a.Value.Kind() == slog.KindGroup {
		for _, member := range a.Value.Group() {
			write(out, member)
		}
		return
	}
	value := a.Value.String()
	if strings.ContainsAny(value, " \"\n=") || value == "" {
		value = fmt.Sprintf("%q", value)
	}
	fmt.Fprintf(out, " %s=%s", a.Key, value)
}

// WithAttrs implements slog.Handler.
func (t tee) WithAttrs(attrs []slog.Attr) slog.Handler {
	var text strings.Builder
	for _, a := range attrs {
		write(&text, a)
	}
	t.Handler, t.prefix = t.Handler.WithAttrs(attrs), t.prefix+text.String()
	return t
}

// WithGroup implements slog.Handler.
func (t tee) WithGroup(name string) slog.Handler {
	t.Handler = t.Handler.WithGroup(name)
	return t
}
