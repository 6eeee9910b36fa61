package main

import (
	_ "embed"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/sdk/tool"
	"github.com/flynnhost/flynn/sdk/webapi"
)

// settingsSchema is the JSON Schema by which the host checks the settings before it starts the plugin. A test generates it from settings.
//
//go:embed settings.schema.json
var settingsSchema []byte

// settings are the keys of [tools.NAME] that this plugin knows. Either Command or URL is set.
type settings struct {
	Command string            `json:"command"` // program that speaks MCP over its standard input and output
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env"` // further variables of the program
	Dir     string            `json:"dir"` // where it runs; the plugin's state folder
	// SecretVariables are variables of the program whose value is one of the secrets: NAME = "secret".
	SecretVariables map[string]string `json:"secret_variables"`

	URL     string            `json:"url"` // of a server of the streamable HTTP transport
	Headers map[string]string `json:"headers"`
	// Socket is set by the host for a server that it runs in a sandbox: each connection starts the server once.
	Socket   string `json:"socket"`
	Insecure bool   `json:"insecure"` // allows http to another machine

	Roots     []string `json:"roots"`     // folders that the server is told to work in
	Resources bool     `json:"resources"` // true: offer resources as two tools

	secrets  map[string]string
	stateDir string
}

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func newSettings(c tool.Config) (settings, error) {
	s := settings{Resources: true, secrets: c.Secrets, stateDir: c.StateDir}
	if err := c.Decode(&s); err != nil {
		return s, err
	}
	if s.Dir == "" {
		s.Dir = s.stateDir
	}
	return s, s.check()
}

func (s settings) check() error {
	var errs tool.FieldErrors
	errs.AddIf(s.Command == "" && s.URL == "" && s.Socket == "", "command", "set command, or url of a server of the streamable HTTP transport")
	errs.AddIf(s.Command != "" && s.URL != "", "url", "set command or url, not both")
	errs.AddIf(s.Socket != "" && s.Command+s.URL != "", "socket", "the host gives it, in place of command and url")
	if s.URL != "" {
		errs.AddIf(endpoint(s.URL, s.Insecure) != nil, "url", "%v", endpoint(s.URL, s.Insecure))
		errs.AddIf(len(s.Args)+len(s.Env)+len(s.SecretVariables) > 0, "args", "args, env and secret_variables belong to command")
	}
	errs.AddIf(s.Command != "" && (len(s.Headers) > 0 || s.secrets["bearer"] != ""), "headers", "headers and bearer belong to url")
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		errs.AddIf(!variable.MatchString(name), "env."+name, "this is not the name of a variable")
	}
	for _, name := range slices.Sorted(maps.Keys(s.SecretVariables)) {
		at, from := "secret_variables."+name, s.SecretVariables[name]
		errs.AddIf(!variable.MatchString(name), at, "this is not the name of a variable")
		errs.AddIf(s.secrets[from] == "", at, "there is no secret %q: write %s_env or %s_file beside it", from, from, from)
	}
	for name, value := range s.Headers {
		errs.AddIf(strings.ContainsAny(name+value, "\r\n\x00") || name == "", "headers."+name, "this is not a header")
	}
	for i, root := range s.Roots {
		errs.AddIf(!filepath.IsAbs(root), fmt.Sprintf("roots.%d", i), "must be an absolute path")
	}
	return errs.Err()
}

// endpoint checks a server's address. Requests may contain secrets, so the connection must be encrypted or stay on this machine.
func endpoint(text string, insecure bool) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("must be an address like https://mcp.example.com/mcp")
	case u.Scheme == "http" && !insecure && !webapi.Loopback(u.Hostname()):
		return fmt.Errorf("http sends everything in the open: write https, or insecure = true")
	}
	return nil
}
