package gateway

import (
	"context"
	"fmt"
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

// NewPluginLogin draws a login code; there is none if it is empty.
func NewPluginLogin(code string) (PluginLogin, error) {
	if code == "" {
		return PluginLogin{Rows: []string{}}, nil
	}
	rows, err := squares(code)
	return PluginLogin{Rows: rows}, err
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
