package conform

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/BurntSushi/toml"

	"github.com/flynnhost/flynn/sdk/plugintest/suite"
)

// FileName is the file beside plugin.toml that says how to check the plugin.
const FileName = "conform.toml"

const maxFile = 64 << 10 // bytes

// file is a conform.toml. A plugin without one is checked without settings.
type file struct {
	Settings map[string]any    `toml:"settings"`
	Secrets  map[string]string `toml:"secrets"`
	// Optional names secrets that the plugin does not need.
	Optional []string     `toml:"optional_secrets"`
	Fake     fakeCommand  `toml:"fake"`
	Calls    []suite.Call `toml:"calls"`
	// Container is one that a driver of sandboxes can make here, and Gone are settings with which no engine answers it.
	Container suite.Container `toml:"container"`
	Gone      map[string]any  `toml:"gone"`
}

// fakeCommand starts a fake platform.
type fakeCommand struct {
	Command []string `toml:"command"` // run in the plugin's folder
	// Package is a Go package, relative to the plugin's folder, that is built first and run in place of Command.
	Package string `toml:"package"`
	// Redelivers says that the platform delivers again what was not acknowledged, as most do.
	Redelivers bool `toml:"redelivers"`
}

func readFile(dir string) (file, error) {
	name := filepath.Join(dir, FileName)
	info, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return file{}, nil
	}
	if err != nil {
		return file{}, err
	}
	if info.Size() > maxFile {
		return file{}, fmt.Errorf("%s has %d bytes, at most %d", name, info.Size(), maxFile)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return file{}, err
	}
	return parseFile(text)
}

// parseFile reads a conform.toml strictly, because a misspelt key would leave checks out.
func parseFile(text []byte) (file, error) {
	var f file
	meta, err := toml.Decode(string(text), &f)
	if err != nil {
		return file{}, fmt.Errorf("%s: %w", FileName, err)
	}
	var wrong []error
	for _, key := range meta.Undecoded() {
		if free(key) {
			continue
		}
		wrong = append(wrong, fmt.Errorf("%s: unknown key %s", FileName, key))
	}
	return f, errors.Join(wrong...)
}

// free reports whether a key belongs to the plugin. The decoder reports tables in there as undecoded.
func free(key toml.Key) bool {
	return len(key) > 1 && (key[0] == "settings" || key[0] == "gone") || len(key) > 2 && key[0] == "calls" && key[1] == "arguments"
}
