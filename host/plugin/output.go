package plugin

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/internal/redact"
	"github.com/flynnhost/flynn/host/plugin/kind"
)

// Bounds on the output of a plugin.
const (
	maxLine     = 64 << 10 // bytes; the rest of a line is dropped
	linesPerSec = 200
	maxLogAttrs = 32
	keptLines   = 5   // of standard error, for error messages
	maxKeptLine = 300 // bytes
)

// output turns a plugin's output into records of the host's log: bounded, rate limited, and with secrets masked.
type output struct {
	log  *slog.Logger
	mask *strings.Replacer

	mu      sync.Mutex
	second  time.Time // that count belongs to
	count   int
	dropped int
	first   []string // lines of standard error, for diagnosis
	last    []string
}

func newOutput(log *slog.Logger, secrets map[string]string) *output {
	return &output{log: log, mask: redact.Words(slices.Collect(maps.Values(secrets))...)}
}

// stderr reads log lines until r ends.
func (o *output) stderr(r io.Reader) {
	readLines(r, func(line string) {
		line = o.mask.Replace(line)
		o.keep(line)
		if o.allow() {
			o.record(line)
		}
	})
	o.flush()
}

// stdout reads what a plugin prints on standard output after its handshake, which is not expected.
func (o *output) stdout(r io.Reader) {
	readLines(r, func(line string) {
		if o.allow() {
			o.log.Debug("plugin printed on standard output", "line", o.mask.Replace(line))
		}
	})
}

// readLines calls each with every line, cut to maxLine and made valid UTF-8. It reads to the end, because a full pipe would block the
// plugin.
func readLines(r io.Reader, each func(string)) {
	in := bufio.NewReaderSize(r, maxLine)
	for {
		line, err := in.ReadSlice('\n')
		text := strings.ToValidUTF8(string(bytes.TrimRight(line, "\r\n")), "\uFFFD")
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = in.ReadSlice('\n')
		}
		if text != "" {
			each(text)
		}
		if err != nil {
			return
		}
	}
}

// allow spends one line of this second's budget.
func (o *output) allow() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if now := time.Now(); now.Sub(o.second) >= time.Second {
		o.second, o.count = now, 0
		o.reportDropped()
	}
	o.count++
	if o.count > linesPerSec {
		o.dropped++
		return false
	}
	return true
}

// reportDropped logs how many lines were dropped. o.mu is held.
func (o *output) reportDropped() {
	if o.dropped > 0 {
		o.log.Warn("plugin logs too much", "dropped_lines", o.dropped, "limit_per_second", linesPerSec)
		o.dropped = 0
	}
}

func (o *output) flush() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.reportDropped()
}

// keep keeps the first and the last lines for error messages.
func (o *output) keep(line string) {
	line = kind.Text(line, maxKeptLine)
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.first) < keptLines {
		o.first = append(o.first, line)
		return
	}
	o.last = append(o.last, line)
	if len(o.last) > keptLines {
		o.last = o.last[1:]
	}
}

// lines are the first and last lines of standard error, in one string.
func (o *output) lines() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Join(slices.Concat(o.first, o.last), " | ")
}

// record logs one line: with its level and fields if it is JSON with hclog's keys, else as it is.
func (o *output) record(line string) {
	level, text, attrs, ok := parseRecord(line)
	if !ok {
		level, text = plainLevel(line), line
	}
	for i := range attrs {
		// A secret that was escaped in JSON appears only now.
		attrs[i] = slog.String(attrs[i].Key, o.mask.Replace(attrs[i].Value.String()))
	}
	o.log.LogAttrs(context.Background(), level, o.mask.Replace(text), slog.Attr{Key: "fields", Value: slog.GroupValue(attrs...)})
}

// plainLevel guesses the level of a line without one: a crash is an error.
func plainLevel(line string) slog.Level {
	if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
		return slog.LevelError
	}
	return slog.LevelInfo
}

// parseRecord reads a JSON line with "@level" and "@message". Values of other types than expected make it a plain line.
func parseRecord(line string) (level slog.Level, text string, attrs []slog.Attr, ok bool) {
	if !strings.HasPrefix(line, "{") {
		return 0, "", nil, false
	}
	var fields map[string]any
	if json.Unmarshal([]byte(line), &fields) != nil {
		return 0, "", nil, false
	}
	text, ok = fields["@message"].(string)
	name, isString := fields["@level"].(string)
	if !ok || !isString {
		return 0, "", nil, false
	}
	switch name {
	case "trace", "debug":
		level = slog.LevelDebug
	case "warn":
		level = slog.LevelWarn
	case "error":
		level = slog.LevelError
	default:
		level = slog.LevelInfo
	}
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		if strings.HasPrefix(key, "@") || len(attrs) == maxLogAttrs {
			continue
		}
		attrs = append(attrs, slog.Attr{Key: key, Value: plainValue(fields[key])})
	}
	return level, text, attrs, true
}

// plainValue shows a decoded JSON value as text.
func plainValue(v any) slog.Value {
	if s, ok := v.(string); ok {
		return slog.StringValue(s)
	}
	text, err := json.Marshal(v)
	if err != nil {
		return slog.StringValue(err.Error())
	}
	return slog.StringValue(string(text))
}
