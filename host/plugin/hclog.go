package plugin

import (
	"context"
	"log/slog"

	"github.com/hashicorp/go-hclog"
)

// libraryLog is the logger for go-plugin. Everything that the library logs about its own work goes to the debug level: the supervisor
// reports what matters, once.
func libraryLog(log *slog.Logger) hclog.Logger {
	level := hclog.Off
	if log.Enabled(context.Background(), slog.LevelDebug) {
		level = hclog.Trace
	}
	out := slog.NewLogLogger(log.Handler(), slog.LevelDebug).Writer()
	return hclog.New(&hclog.LoggerOptions{Level: level, DisableTime: true, Output: out})
}
