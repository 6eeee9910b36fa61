// Package scaffold writes a skeleton plugin: a folder that works as it is and passes the conformance suite.
//
// Start with Write. The files are under templates; the ending .tmpl, which keeps Go templates from being built as a part of Flynn, is
// removed.
package scaffold

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/flynnhost/flynn/host/plugin"
	"github.com/flynnhost/flynn/host/plugin/kind"
	channelkind "github.com/flynnhost/flynn/host/plugin/kind/channel"
	sandboxkind "github.com/flynnhost/flynn/host/plugin/kind/sandbox"
	toolkind "github.com/flynnhost/flynn/host/plugin/kind/tools"
	"github.com/flynnhost/flynn/sdk"
)

//go:embed templates
var templates embed.FS

// Languages are the languages of the templates.
func Languages() []string { return []string{"go", "node"} }

// Config describes the plugin to write.
type Config struct {
	Dir      string // to create; by default ./NAME
	Name     string
	Language string // by default "go"
	Kind     kind.Name
	// Release of Flynn that a Go module requires, such as "v1.2.3"; without one the folder gets a copy of this Flynn's SDK.
	Release string
}

// fill has the text for each placeholder of the templates. It does not use text/template, which calls methods by name, so that the linker
// would have to keep every exported method of the program.
type fill map[string]string

// sections are the parts of plugin.toml for one kind only.
var sections = map[kind.Name]string{
	channelkind.Name: `
# What the platform proves about a sender: "proved", "claimed" or "none". Others than proved are guests at most.
[channel]
senders = "none"
`,
	sandboxkind.Name: `
# The identities and the sockets of containers are in the state folder; the engine is where the variables say.
[permissions]
state = true
env = ["DOCKER_HOST", "CONTAINER_HOST"]
`,
}

var descriptions = map[kind.Name]string{
	channelkind.Name: "Says something once in a while and hears the answer",
	toolkind.Name:    "Rolls dice",
	sandboxkind.Name: "Makes sandboxes with the docker or podman command",
}

var (
	validName    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,38}[a-z0-9]$`) })
	validRelease = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^v\d+\.\d+\.\d+$`) })
)

// Write creates the folder and returns its name. An existing folder is not changed.
func Write(c Config) (dir string, err error) {
	c.Language, c.Kind = cmp.Or(c.Language, "go"), cmp.Or(c.Kind, channelkind.Name)
	c.Dir = cmp.Or(c.Dir, c.Name)
	switch {
	case !validName().MatchString(c.Name):
		return "", fmt.Errorf("%q cannot be a plugin's name: it must be 2 to 40 of a-z, 0-9 and - inside", c.Name)
	case !slices.Contains(Languages(), c.Language):
		return "", fmt.Errorf("there is no template for the language %q: use %s", c.Language, strings.Join(Languages(), " or "))
	case descriptions[c.Kind] == "":
		return "", fmt.Errorf("there is no template for the kind %q: use %s", c.Kind, plugin.AllKinds())
	}
	if _, err := fs.Stat(templates, path.Join("templates", c.Language, string(c.Kind))); err != nil {
		return "", fmt.Errorf("there is no template for the kind %s in %s: use go", c.Kind, c.Language)
	}
	if !validRelease().MatchString(c.Release) {
		c.Release = "" // not a release build
	}
	if err := os.Mkdir(c.Dir, 0o755); errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("%s exists: choose another name, or remove it", c.Dir)
	} else if err != nil {
		return "", err
	}
	f := fill{
		"Name": c.Name, "Kind": string(c.Kind), "Description": descriptions[c.Kind], "Platform": plugin.Platform(), "GoVersion": goVersion(),
		"Require": "", "Tidy": "    go mod tidy\n", "Section": sections[c.Kind],
	}
	ofItsOwn := c.Language == "go" && c.Release == ""
	switch {
	case ofItsOwn:
		f["Tidy"] = ""
		f["Require"] = "\n\nrequire github.com/flynnhost/flynn v0.0.0\n\n" + required() + "\nreplace github.com/flynnhost/flynn => ./" + sdkDir
	case c.Release != "":
		f["Require"] = "\n\nrequire github.com/flynnhost/flynn " + c.Release
	}
	for _, part := range []string{"all", string(c.Kind)} {
		if err := writeAll(c.Dir, path.Join("templates", c.Language, part), f); err != nil {
			return "", errors.Join(err, os.RemoveAll(c.Dir))
		}
	}
	if ofItsOwn {
		if err := writeSDK(filepath.Join(c.Dir, sdkDir)); err != nil {
			return "", errors.Join(err, os.RemoveAll(c.Dir))
		}
	}
	return c.Dir, nil
}

// sdkDir is the folder for the copy of the SDK. It is hidden, so that flynn plugin install leaves it out.
const sdkDir = ".flynn-sdk"

// writeSDK writes the packages that plugins import as a module.
func writeSDK(dir string) error {
	return fs.WalkDir(sdk.PluginSources, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(name, "_test.go") {
			return err
		}
		text, err := sdk.PluginSources.ReadFile(name)
		if err != nil {
			return err
		}
		target := filepath.Join(dir, "sdk", filepath.FromSlash(name))
		switch name {
		case "plugin.mod":
			target = filepath.Join(dir, "go.mod")
		case "plugin.sum": // belongs to the plugin, which is the main module
			target = filepath.Join(filepath.Dir(dir), "go.sum")
		}
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		return os.WriteFile(target, text, 0o644)
	})
}

// required are the requirements of the SDK.
func required() string {
	_, after, _ := strings.Cut(moduleOfSDK(), "\nrequire (")
	lines := "require ("
	for line := range strings.Lines(after) {
		if module := strings.TrimSuffix(strings.TrimSpace(line), " // indirect"); strings.Contains(module, "/") {
			lines += "\n\t" + module + " // indirect"
		}
	}
	return lines + "\n)\n"
}

// goVersion is the Go version that the SDK needs.
func goVersion() string {
	_, after, _ := strings.Cut(moduleOfSDK(), "\ngo ")
	v, _, _ := strings.Cut(after, "\n")
	return v
}

func moduleOfSDK() string {
	text, err := sdk.PluginSources.ReadFile("plugin.mod")
	if err != nil { // impossible: it is embedded
		panic(err)
	}
	return string(text)
}

func writeAll(dir, from string, f fill) error {
	entries, err := templates.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		text, err := templates.ReadFile(path.Join(from, e.Name()))
		if err != nil {
			return err
		}
		target := filepath.Join(dir, strings.TrimSuffix(e.Name(), ".tmpl"))
		if err := os.WriteFile(target, []byte(f.in(string(text))), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// in replaces the placeholders in a text. Neither Go nor JavaScript nor TOML has their delimiters.
func (f fill) in(text string) string {
	for key, value := range f {
		text = strings.ReplaceAll(text, "{%."+key+"%}", value)
	}
	return text
}
