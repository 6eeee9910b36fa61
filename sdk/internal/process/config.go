package process

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/flynnhost/flynn/sdk/hostapi"
)

// Config is the configuration of one instance.
type Config struct {
	Instance string
	// Settings are the keys of [channels.NAME] or [tools.NAME] that belong to the plugin, as decoded from JSON.
	Settings map[string]any
	// Secrets by name: "token_env" in flynn.toml arrives as "token". Never log them.
	Secrets  map[string]string
	StateDir string // survives restarts and upgrades; empty unless plugin.toml requests it
	Log      *slog.Logger
	// Host gives access to the host's services. A service that plugin.toml does not request under permissions.host returns
	// hostapi.ErrNotGranted.
	Host *hostapi.Host

	// text is the original JSON of Settings, in which large integers keep all their digits.
	text []byte
}

// Decode fills the struct that v points to with the settings, by its json tags. Unknown keys and wrong types are returned as FieldErrors,
// for Configure to return.
func (c Config) Decode(v any) error {
	text := c.text
	if text == nil { // made by a test
		var err error
		if text, err = json.Marshal(c.Settings); err != nil {
			return fmt.Errorf("encode settings: %w", err)
		}
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	return fieldError(d.Decode(v))
}

// ReadState fills v with the JSON of a file in StateDir, which WriteState wrote, and reports whether there is one.
func (c Config) ReadState(name string, v any) (found bool, err error) {
	text, err := os.ReadFile(filepath.Join(c.StateDir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := json.Unmarshal(text, v); err != nil {
		return false, fmt.Errorf("read %s: %w", filepath.Join(c.StateDir, name), err)
	}
	return true, nil
}

// WriteState replaces a file in StateDir by the JSON of v, atomically.
func (c Config) WriteState(name string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	path := filepath.Join(c.StateDir, name)
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// fieldError converts an error of encoding/json to a path and a message for the operator.
func fieldError(err error) error {
	if err == nil {
		return nil
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return FieldErrors{{Path: wrong.Field, Message: fmt.Sprintf("must be %s, not %s", wrong.Type, wrong.Value)}}
	}
	if _, key, ok := strings.Cut(err.Error(), "unknown field "); ok {
		return FieldErrors{{Path: strings.Trim(key, `"`), Message: "unknown key"}}
	}
	return FieldErrors{{Message: err.Error()}}
}

// FieldError is an error in one setting.
type FieldError struct {
	Path    string // dotted path of the key; "secrets.NAME" for a secret; empty for the settings as a whole
	Message string // what is wrong and what would be right; never the value of a secret
}

// FieldErrors is the error of Configure for wrong settings. The host shows them and does not try again until the configuration changes.
type FieldErrors []FieldError

// AddIf adds an error about the setting at path if bad is true.
func (e *FieldErrors) AddIf(bad bool, path, format string, args ...any) {
	if bad {
		*e = append(*e, FieldError{Path: path, Message: fmt.Sprintf(format, args...)})
	}
}

// Err returns e as an error, or nil if nothing was added.
func (e FieldErrors) Err() error {
	if len(e) == 0 {
		return nil
	}
	return e
}

// Error implements error.
func (e FieldErrors) Error() string {
	parts := make([]string, len(e))
	for i, f := range e {
		parts[i] = f.Message
		if f.Path != "" {
			parts[i] = f.Path + ": " + f.Message
		}
	}
	return strings.Join(parts, "; ")
}
