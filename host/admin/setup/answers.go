package setup

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/flynnhost/flynn/host/config"
)

// Answers are what is known before anybody is asked, from flags and from a file. Empty ones are asked for, or found out.
type Answers struct {
	Model   ModelAnswers      `toml:"model"`
	Channel ChannelAnswers    `toml:"channel"`
	Plugins map[string]string `toml:"plugins"` // folders of plugins that are used without being installed, by name
	Listen  string            `toml:"listen"`  // of the gateway
	// Yes writes without asking, and NoCheck without proving.
	Yes     bool `toml:"yes"`
	NoCheck bool `toml:"no_check"`
}

// ModelAnswers describe a model.
type ModelAnswers struct {
	Provider   string `toml:"provider"` // a Maker
	Model      string `toml:"model"`
	BaseURL    string `toml:"base_url"`
	APIKeyEnv  string `toml:"api_key_env"`
	APIKeyFile string `toml:"api_key_file"`

	key    config.Secret // that was typed already
	wrong  string        // address that was typed
	askKey bool          // also where none is needed by custom
}

// ChannelAnswers describe a channel.
type ChannelAnswers struct {
	Plugin   string            `toml:"plugin"`
	Name     string            `toml:"name"` // by default that of the plugin
	None     bool              `toml:"none"` // no channel
	Settings map[string]any    `toml:"settings"`
	Texts    map[string]string `toml:"-"`            // settings as they were typed
	Files    map[string]string `toml:"secret_files"` // files with the secrets, by the names of the secrets
	Envs     map[string]string `toml:"secret_envs"`  // variables with the secrets
	Owner    string            `toml:"owner"`        // "instance:platform-id", or the id alone

	// Secrets are those that were typed already, by their names.
	Secrets map[string]config.Secret `toml:"-"`
}

// ReadAnswers reads answers from a TOML file. Paths in it count from its folder.
func ReadAnswers(path string) (Answers, error) {
	var a Answers
	text, err := os.ReadFile(path)
	if err != nil {
		return a, fmt.Errorf("read the answers: %w", err)
	}
	meta, err := toml.Decode(string(text), &a)
	if err != nil {
		return a, fmt.Errorf("read the answers in %s: %s", path, strings.TrimPrefix(err.Error(), "toml: "))
	}
	if unknown := meta.Undecoded(); len(unknown) > 0 {
		return a, fmt.Errorf("read the answers in %s: unknown key %s", path, unknown[0])
	}
	from := func(p *string) {
		if *p != "" && !filepath.IsAbs(*p) {
			*p = filepath.Join(filepath.Dir(path), *p)
		}
	}
	from(&a.Model.APIKeyFile)
	for _, m := range []map[string]string{a.Channel.Files, a.Plugins} {
		for name, p := range m {
			from(&p)
			m[name] = p
		}
	}
	return a, nil
}
