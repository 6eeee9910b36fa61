package plugin

import (
	"context"
	"io"
	"log"
	"log/slog"

	"github.com/hashicorp/go-hclog"
)

// libraryLog is the logger that go-plugin wants. What the library says about its own work goes to the debug level, whatever
// it thinks of it: the supervisor reports what matters, once.
type libraryLog struct {
	log     *slog.Logger
	name    string
	implied []any
}

var _ hclog.Logger = (*libraryLog)(nil)

// Log logs one message of any level.
func (l *libraryLog) Log(level hclog.Level, msg string, args ...any) {
	l.log.Log(context.Background(), slog.LevelDebug, msg, append([]any{"library_level", level.String()}, args...)...)
}

// Trace, Debug, Info, Warn and Error are Log with a level.
func (l *libraryLog) Trace(msg string, args ...any) { l.Log(hclog.Trace, msg, args...) }

// Debug logs at that level.
func (l *libraryLog) Debug(msg string, args ...any) { l.Log(hclog.Debug, msg, args...) }

// Info logs at that level.
func (l *libraryLog) Info(msg string, args ...any) { l.Log(hclog.Info, msg, args...) }

// Warn logs at that level.
func (l *libraryLog) Warn(msg string, args ...any) { l.Log(hclog.Warn, msg, args...) }

// Error logs at that level.
func (l *libraryLog) Error(msg string, args ...any) { l.Log(hclog.Error, msg, args...) }

// IsTrace and its fellows answer alike, since everything has one level.
func (l *libraryLog) IsTrace() bool { return false }

// IsDebug reports whether anything is logged.
func (l *libraryLog) IsDebug() bool { return l.log.Enabled(context.Background(), slog.LevelDebug) }

// IsInfo tells the same.
func (l *libraryLog) IsInfo() bool { return l.IsDebug() }

// IsWarn tells the same.
func (l *libraryLog) IsWarn() bool { return l.IsDebug() }

// IsError tells the same.
func (l *libraryLog) IsError() bool { return l.IsDebug() }

// ImpliedArgs are those given to With.
func (l *libraryLog) ImpliedArgs() []any { return l.implied }

// With adds arguments to every message.
func (l *libraryLog) With(args ...any) hclog.Logger {
	return &libraryLog{log: l.log.With(args...), name: l.name, implied: append(l.implied[:len(l.implied):len(l.implied)], args...)}
}

// Name is the name, for hclog alone.
func (l *libraryLog) Name() string { return l.name }

// Named keeps the logger: the name of a plugin is an attribute already.
func (l *libraryLog) Named(name string) hclog.Logger {
	return &libraryLog{log: l.log, name: name, implied: l.implied}
}

// ResetNamed does the same.
func (l *libraryLog) ResetNamed(name string) hclog.Logger { return l.Named(name) }

// SetLevel is ignored: the host's handler decides.
func (l *libraryLog) SetLevel(hclog.Level) {}

// GetLevel is the level of everything.
func (l *libraryLog) GetLevel() hclog.Level { return hclog.Debug }

// StandardLogger is for libraries that want one; go-plugin does not.
func (l *libraryLog) StandardLogger(*hclog.StandardLoggerOptions) *log.Logger {
	return slog.NewLogLogger(l.log.Handler(), slog.LevelDebug)
}

// StandardWriter is its writer.
func (l *libraryLog) StandardWriter(o *hclog.StandardLoggerOptions) io.Writer {
	return l.StandardLogger(o).Writer()
}
