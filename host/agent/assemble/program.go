package assemble

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/agent"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/sandbox/fleet/specs"
	"github.com/flynnhost/flynn/host/tool"
	"github.com/flynnhost/flynn/host/tool/cli"
)

// WithProgram gives an agent of kind cli its agent CLI, which is its only tool.
func WithProgram(made *agent.Agent, c *config.Config) error {
	from, program := c.Agents[made.Name], programOf(c, made.Name)
	if program.OnHost {
		program.Workspace = "."
	}
	run, err := cli.New(program)
	if err != nil {
		return fmt.Errorf("agent_configs.%s.cli: %w", made.Name, err)
	}
	made.Registry, made.Tools = tool.NewRegistry(), nil
	if err := made.Registry.Register(run); err != nil {
		return err
	}
	made.Offered, err = made.Registry.Offered(tool.Full, tool.Overrides{Deny: from.ToolOverrides.Deny})
	made.CLI = &agent.CLI{
		Name: program.Name, Workspace: program.Workspace, Resumes: len(program.Resume) > 0, Missing: program.Missing,
		Gives:    program.SessionFrom == cli.SessionGiven || program.SessionFrom == cli.SessionLast,
		Programs: from.CLI.DangerouslyForPrograms,
	}
	if made.Sandboxed {
		made.Sandbox = specs.CLIName(made.Name)
	}
	if from.CLI.FolderByCall {
		made.CLI.Folder = func(dir string) error {
			_, err := c.CLIRules(os.Getenv).Check(dir)
			return err
		}
	}
	return err
}

// programOf returns how an agent's CLI is run: its preset, overridden by the configuration.
func programOf(c *config.Config, name string) cli.Config {
	a := c.Agents[name]
	preset := specs.CLIPreset(a.CLI)
	p := preset.Config
	if p.Env == nil {
		p.Env = map[string]string{}
	}
	if a.CLI.Auth == "proxy" {
		maps.Copy(p.Env, preset.ProxyEnv)
		p.Command, p.Resume = withArgs(p.Command, preset.ProxyArgs), withArgs(p.Resume, preset.ProxyArgs)
	}
	override(&p, a.CLI)
	p.StateDir, p.Timeout = a.CLI.StateDir, time.Duration(a.CLI.TimeoutSeconds)*time.Second
	if p.Name == "" && len(p.Command) > 0 {
		p.Name = path.Base(p.Command[0])
	}
	p.OnHost = !a.Sandbox.Enabled
	if !p.OnHost {
		p.Workspace = specs.CLIWorkspace(c, a)
	}
	if a.CLI.Folder != "" {
		p.Dir = specs.CLIFolder(c, a)
	}
	if a.CLI.FolderByCall {
		p.Named = specs.CLIFolder(c, a)
	}
	switch {
	case a.CLI.Auth == "mount":
		p.AuthDir = specs.CLIAuth
	case a.CLI.SecretName() != "" && a.CLI.APIKey == "":
		p.Missing = fmt.Sprintf("it has no key for its model: set %s and start Flynn again", strings.TrimPrefix(a.CLI.SecretName(), "env "))
	}
	if a.CLI.Auth != "mount" {
		p.AuthFiles, p.AuthSeed, p.AuthDatabase, p.AuthTable = nil, nil, "", ""
	}
	return p
}

// withArgs appends arguments to the name of a program.
func withArgs(words, args []string) []string {
	if len(words) == 0 {
		return nil
	}
	return slices.Concat(words[:1], args, words[1:])
}

// override replaces the values of the preset by those of the configuration.
func override(p *cli.Config, c config.CLI) {
	list := func(into *[]string, value []string) {
		if len(value) > 0 {
			*into = value
		}
	}
	word := func(into *string, value string) {
		if value != "" {
			*into = value
		}
	}
	list(&p.Command, c.Command)
	list(&p.Resume, c.Resume)
	if len(c.Command) > 0 && len(c.Resume) == 0 {
		p.Resume, p.SessionFrom = nil, "" // another command resumes in another way
	}
	word(&p.Prompt, c.Prompt)
	if p.Prompt == "" {
		p.Prompt = cli.PromptStdin
	}
	word(&p.SessionFrom, c.SessionFrom)
	word(&p.SessionFile, c.SessionFile)
	word(&p.Output, c.Output)
	if p.Output == "" {
		p.Output = cli.OutputText
	}
	f := c.Fields
	list(&p.Fields.Delta, f.Delta)
	list(&p.Fields.Answer, f.Answer)
	list(&p.Fields.Error, f.Error)
	list(&p.Fields.Session, f.Session)
	list(&p.Fields.Input, f.Input)
	list(&p.Fields.Output, f.Output)
	list(&p.Fields.CacheRead, f.CacheRead)
	list(&p.Fields.CacheWrite, f.CacheWrite)
	list(&p.Fields.Cost, f.Cost)
	p.Fields.InputHasCache = p.Fields.InputHasCache || f.InputHasCache
	list(&p.Unknown, c.UnknownSession)
	list(&p.AuthFiles, c.AuthFiles)
	list(&p.AuthSeed, c.AuthSeed)
	word(&p.AuthDatabase, c.AuthDatabase)
	word(&p.AuthTable, c.AuthTable)
	maps.Copy(p.Env, c.Env)
}

// CheckPrograms reports the errors in the configured agent CLIs.
func CheckPrograms(c *config.Config) config.Errors {
	var errs config.Errors
	for _, name := range slices.Sorted(maps.Keys(c.Agents)) {
		if c.Agents[name].Kind != agent.KindCLI {
			continue
		}
		err := checkProgram(c, name)
		if err == nil {
			continue
		}
		key := []string{"agent_configs", name, "cli"}
		line := c.Line(key...)
		if line == 0 {
			line = c.Line("agent_configs", name, "kind")
		}
		problem, hint, _ := strings.Cut(strings.TrimPrefix(err.Error(), "sandbox: "), ": ")
		errs = append(errs, config.Error{File: c.Path, Line: line, Key: config.KeyString(key...), Problem: problem, Hint: hint})
	}
	return errs
}

func checkProgram(c *config.Config, name string) error {
	a, program := c.Agents[name], programOf(c, name)
	program.Workspace = "/" + program.Workspace
	err := program.Check()
	if preset := specs.CLIPreset(a.CLI); a.CLI.SecretName() != "" && (preset.API.Host == "" || preset.API.Header == "") {
		err = errors.Join(err, errors.New("a key needs api_host and api_header, or a preset, to say where it is sent"))
	}
	if err == nil && a.Sandbox.Enabled {
		err = specs.CLI(c, name).Check()
	}
	return err
}
