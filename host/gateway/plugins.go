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
	// PluginLogs returns the last lines of an instance's log that came after a number.
	PluginLogs(ctx context.Context, instance string, after uint64) ([]PluginLine, error)
	// RestartPlugin starts an instance's process anew; a quarantine ends.
	RestartPlugin(ctx context.Context, instance string) error
	// PluginLogin is the code that the operator has to scan; "" while there is none. Anybody who sees it can take the account over.
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
	// Login is true while a code waits to be scanned; GET login has it.
	Login bool `json:"login,omitempty"`
	// Containment is what holds the process in, as it found itself when it started.
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

// PluginLogin is a code to be scanned, as the squares of a QR code: a row is a string of 1 (dark) and 0.
type PluginLogin struct {
	Rows []string `json:"rows"` // none while there is no code
}

// plugins wraps a handler of the backend's plugins.
func (s *Server) plugins(use func(context.Context, Plugins, http.ResponseWriter, *http.Request)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if name := r.PathValue("instance"); name != "" && !validName(name) {
			writeError(w, http.StatusBadRequest, CodeBadRequest, "name an instance of a plugin")
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), backendTimeout)
		defer cancel()
		w.Header().Set("Cache-Control", "no-store")
		use(ctx, s.backend.Plugins, w, r)
	}
}

func (s *Server) listPlugins(ctx context.Context, p Plugins, w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, orEmpty(p.Plugins(ctx)))
}

func (s *Server) pluginLogs(ctx context.Context, p Plugins, w http.ResponseWriter, r *http.Request) {
	var after uint64
	if text := r.URL.Query().Get("after"); text != "" {
		var err error
		if after, err = strconv.ParseUint(text, 10, 64); err != nil {
			writeError(w, http.StatusBadRequest, CodeBadRequest, "after must be the number of a line")
			return
		}
	}
	lines, err := p.PluginLogs(ctx, r.PathValue("instance"), after)
	s.answer(w, orEmpty(lines), err)
}

func (s *Server) restartPlugin(ctx context.Context, p Plugins, w http.ResponseWriter, r *http.Request) {
	err := p.RestartPlugin(ctx, r.PathValue("instance"))
	s.answer(w, map[string]bool{"restarted": true}, err)
}

func (s *Server) pluginLogin(ctx context.Context, p Plugins, w http.ResponseWriter, r *http.Request) {
	code, err := p.PluginLogin(ctx, r.PathValue("instance"))
	var login PluginLogin
	if err == nil && code != "" {
		login.Rows, err = squares(code)
	}
	login.Rows = orEmpty(login.Rows)
	s.answer(w, login, err)
}

// squares draws a code. The error does not quote it.
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
