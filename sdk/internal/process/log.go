package process

import (
	"io"
	"log/slog"
	"time"

	"github.com/flynnhost/flynn/sdk/proto/pluginv1"
)

// logTime is the layout of times that hosts built on go-plugin parse.
const logTime = "2006-01-02T15:04:05.000000Z07:00"

// newLog writes JSON lines with the keys for level, message and time that a host expects.
func newLog(w io.Writer, level slog.Leveler) *slog.Logger {
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: hostKeys}))
}

func hostKeys(groups []string, a slog.Attr) slog.Attr {
	if len(groups) > 0 {
		return a
	}
	switch a.Key {
	case slog.MessageKey:
		a.Key = "@message"
	case slog.LevelKey:
		level, _ := a.Value.Any().(slog.Level)
		return slog.String("@level", levelName(level))
	case slog.TimeKey:
		return slog.String("@timestamp", a.Value.Time().Format(logTime))
	}
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().Round(time.Microsecond).String())
	}
	return a
}

func levelName(l slog.Level) string {
	switch {
	case l < slog.LevelInfo:
		return "debug"
	case l < slog.LevelWarn:
		return "info"
	case l < slog.LevelError:
		return "warn"
	default:
		return "error"
	}
}

func levelFromWire(l pluginv1.LogLevel) slog.Level {
	switch l {
	case pluginv1.LogLevel_LOG_LEVEL_DEBUG:
		return slog.LevelDebug
	case pluginv1.LogLevel_LOG_LEVEL_WARN:
		return slog.LevelWarn
	case pluginv1.LogLevel_LOG_LEVEL_ERROR:
		return slog.LevelError
	default:
		return slog.LevelInfo
	}
}
