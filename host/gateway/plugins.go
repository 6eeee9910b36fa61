package gateway

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"rsc.io/qr"
)

// Plugins shows the plugins and restarts them.
type Plugins interface {
	// Plugins returns the status of every instance, by name.
	Plugins(ctx context.Context) []PluginStatus
	// PluginLogs returns the last lines of an instance's log with a number above after.
	PluginLogs(ctx context.Context, instance string, after uint64) ([]PluginLine, error)
	// RestartPlugin restarts an instance's process; a quarantine ends.
	RestartPlugin(ctx context.Context, instance string) error
	// PluginLogin is the code that the operator has to scan, or "". Anybody who sees it can take the account over.
	PluginLogin(ctx context.Context, instance string) (string, error)
}

// PluginStatus is one instance of a plugin.
type PluginStatus struct {
	Name      string    `json:"name"`
	Plugin    string    `json:"plugin"`
	Version   string    `json:"version,omitempty"`
	State     string    `json:"state"`
	Since     time.Time `json:"since,omitzero"` // of State
	Detail    string    `json:"detail,omitempty"`
	PID       int       `json:"pid,omitempty"`
	Restarts  int       `json:"restarts"`
	LastError string    `json:"last_error,omitempty"`
	Critical  bool      `json:"critical,omitempty"`
	Dev       bool      `json:"dev,omitempty"`
	// Login is true while a code waits to be scanned; GET login returns it.
	Login bool `json:"login,omitempty"`
	// Containment lists the containment measures as the process reported them when it started.
	Containment []PluginMeasure `json:"containment,omitempty"`
}

// PluginMeasure is one measure of containment.
type PluginMeasure struct {
	Name   string `json:"name"`
	On     bool   `json:"on"`
	Detail string `json:"detail,omitempty"`
}

// PluginLine is one line of an instance's log. Seq rises by one from line to line.
type PluginLine struct {
	Seq   uint64    `json:"seq"`
	Time  time.Time `json:"time"`
	Level string    `json:"level"`
	Text  string    `json:"text"`
}

// PluginLogin is a QR code to be scanned: a row is a string of 1 (dark) and 0 (light).
type PluginLogin struct {
	Rows []string `json:"rows"` // none while there is no code
}

// onInstance is a handler about the instance in the path.
func (s *Server) onInstance(do func(ctx context.Context, instance string, r *http.Request) (any, error)) http.HandlerFunc {
	return s.get(backendTimeout, func(ctx context.Context, r *http.Request) (any, error) {
		name := r.PathValue("instance")
		if !validName(name) {
			return nil, badRequest("name an instance of a plugin")
		}
		return do(ctx, name, r)
	})
}

func (s *Server) listPlugins(ctx context.Context, _ *http.Request) (any, error) {
	return orEmpty(s.backend.Plugins.Plugins(ctx)), nil
}

func (s *Server) pluginLogs(ctx context.Context, instance string, r *http.Request) (any, error) {
	var after uint64
	if text := r.URL.Query().Get("after"); text != "" {
		var err error
		if after, err = strconv.ParseUint(text, 10, 64); err != nil {
			return nil, badRequest("after must be the number of a line")
		}
	}
	lines, err := s.backend.Plugins.PluginLogs(ctx, instance, after)
	return orEmpty(lines), err
}

func (s *Server) restartPlugin(ctx context.Context, instance string, _ *http.Request) (any, error) {
	return map[string]bool{"restarted": true}, s.backend.Plugins.RestartPlugin(ctx, instance)
}

func (s *Server) pluginLogin(ctx context.Context, instance string, _ *http.Request) (any, error) {
	code, err := s.backend.Plugins.PluginLogin(ctx, instance)
	var login PluginLogin
	if err == nil && code != "" {
		login.Rows, err = squares(code)
	}
	login.Rows = orEmpty(login.Rows)
	return login, err
}

// squares draws a QR code. The error does not quote the code, which is a secret.
func squares(code string) ([]string, error) {
	drawn, err := qr.Encode(code, qr.L)
	if err != nil {
		return nil, fmt.Errorf("the login code of %d bytes does not fit into a QR code", len(code))
	}
	rows := make([]string, drawn.Size)
	for y := range rows {
		row := make([]byte, drawn.Size)
		for x := range row {
			row[x] = '0'
			if drawn.Black(x, y) {
				row[x] = '1'
			}
		}
		rows[y] = string(row)
	}
	return rows, nil
}
