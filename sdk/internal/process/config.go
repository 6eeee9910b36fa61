package process

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
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
	StateDir string // survives restarts and upgrades; empty unless plugin.toml asks for it
	Log      *slog.Logger
	// Host is what the host offers to the plugin. A service that plugin.toml does not ask for under permissions.host answers
	// hostapi.ErrNotGranted.
	Host *hostapi.Host

	// text is the JSON of Settings as it came: in it a large integer keeps all its digits.
	text []byte
}

// Decode fills the struct that v points to with the settings, by its json tags. Unknown keys and wrong types come
// back as FieldErrors, ready to be returned from Configure.
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

// fieldError turns what encoding/json says into the path and the words that an operator needs.
func fieldError(err error) error {
	if err == nil {
		return nil
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return FieldErrors{{Path: wrong.Field, Message: fmt.Sprintf("want %s, got %s", wrong.Type, wrong.Value)}}
	}
	if _, key, ok := strings.Cut(err.Error(), "unknown field "); ok {
		return FieldErrors{{Path: strings.Trim(key, `"`), Message: "unknown key"}}
	}
	return FieldErrors{{Message: err.Error()}}
}

// FieldError says what is wrong with one setting.
type FieldError struct {
	Path    string // dotted path of the key; "secrets.NAME" for a secret; empty for the whole
	Message string // what is wrong and what would be right; never a secret's value
}

// FieldErrors is what Configure returns for settings that make no sense. The host shows them and does not try again
// until the configuration changes.
type FieldErrors []FieldError

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
