package config

import (
	"fmt"
	"path"
	"strings"

	"github.com/flynnhost/flynn/host/sandbox/bridge"
	"github.com/flynnhost/flynn/host/sandbox/mounts"
)

// Bridge is a command that programs in a sandbox may call and that runs in a second container or on this machine.
type Bridge struct {
	Name string `toml:"name"` // of the command
	// Sandbox is the [sandboxes.NAME] that the second container is made of.
	Sandbox string `toml:"sandbox"`
	// Host runs the program on this machine instead, with Flynn's own rights.
	Host bool `toml:"host"`
	// Program is its absolute path there.
	Program string            `toml:"program"`
	Env     map[string]string `toml:"env"`
	// SecretsEnv are variables of the program alone.
	SecretsEnv map[string]SecretRef `toml:"secrets_env"`
	// Workspace is the program's access to the session's workspace.
	Workspace string   `toml:"workspace" default:"none" oneof:"none ro rw"`
	Timeout   Duration `toml:"timeout" default:"1m" range:"1s..1h"`
	MaxOutput Size     `toml:"max_output" default:"256k" range:"1k..64m"` // of each stream
	Stdin     bool     `toml:"stdin"`
	// Rules are the ways to call it; a call that fits none is refused.
	Rules []BridgeRule `toml:"rules"`
}

// BridgeRule is one way to call a bridged command: arguments by position, and flags with the pattern of their value.
type BridgeRule struct {
	Args  []BridgeArg       `toml:"args"`
	Flags map[string]string `toml:"flags"`
}

// BridgeArg describes an argument.
type BridgeArg struct {
	Pattern string `toml:"pattern"`
	Path    bool   `toml:"path"`
	Rest    bool   `toml:"rest"`
}

// SecretRef names the source of a secret: a variable or a file.
type SecretRef struct {
	Env   string `toml:"env"`
	File  string `toml:"file" is:"path"` // mode 0600 or stricter
	Value Secret `toml:"-"`
}

// SecretName names the secret.
func (r SecretRef) SecretName() string { return SecretName(r.Env, r.File) }

// Forms are the rules as package bridge reads them.
func (b Bridge) Forms() []bridge.Form {
	var forms []bridge.Form
	for _, r := range b.Rules {
		f := bridge.Form{Flags: r.Flags}
		for _, a := range r.Args {
			f.Args = append(f.Args, bridge.Arg{Pattern: a.Pattern, Path: a.Path, Rest: a.Rest})
		}
		forms = append(forms, f)
	}
	return forms
}

// bridges checks the bridges that a sandbox sets itself, and resolves their secrets.
func (c *checker) bridges(at keyPath, s Sandbox) {
	at = at.child("bridges")
	if !c.lines.has(at) {
		return
	}
	if s.Network == "host" {
		c.report(at, `bridges need a network namespace of the container's own, and network "host" has none`, `write network = "none" or "allowlist"`)
	}
	seen := map[string]bool{}
	for i := range s.Bridges {
		b, each := s.Bridges[i], at.index(i)
		c.bridge(each, b)
		c.bridgeRules(each, b)
		c.bridgeSecrets(each, b)
		if seen[b.Name] && b.Name != "" {
			c.report(each.child("name"), fmt.Sprintf("two bridges are named %q", b.Name), "choose another name, or join their rules")
		}
		seen[b.Name] = true
	}
}

func (c *checker) bridge(at keyPath, b Bridge) {
	if b.Name == "" {
		c.required(at.child("name"), b.Name, `"gh"`)
	} else {
		c.name(at.child("name"), b.Name)
	}
	if !path.IsAbs(b.Program) || path.Clean(b.Program) != b.Program {
		c.report(at.child("program"), fmt.Sprintf("%q is not a program of an image", b.Program), `write its absolute path, such as "/usr/bin/gh"`)
	}
	if b.Host {
		c.hostBridge(at, b)
		return
	}
	other, known := c.cfg.Sandboxes[b.Sandbox]
	switch {
	case b.Sandbox == "":
		c.required(at.child("sandbox"), b.Sandbox, "the name of a [sandboxes.NAME]")
	case !known:
		c.report(at.child("sandbox"), fmt.Sprintf("no sandbox %q", b.Sandbox), didYouMean(b.Sandbox, sorted(c.cfg.Sandboxes)))
	case !other.Enabled:
		c.report(at.child("sandbox"), fmt.Sprintf("sandbox %q is not enabled", b.Sandbox), fmt.Sprintf("remove enabled = false from [sandboxes.%s]", b.Sandbox))
	}
}

// hostBridge checks a bridge to this machine, where only the rules restrict the program.
func (c *checker) hostBridge(at keyPath, b Bridge) {
	switch {
	case b.Sandbox != "":
		c.report(at.child("host"), "it runs on this machine and in a sandbox", "keep host = true or sandbox")
	case b.Workspace == "rw":
		c.report(at.child("workspace"), "a program of this machine writes to no workspace", `write "ro": it gets copies of the files that its arguments name`)
	case mounts.Below(b.Program, c.cfg.Store.Dir):
		c.report(at.child("program"), fmt.Sprintf("%s lies in the store, where commands may write", b.Program), "name a program of the system's")
	}
	if rules, err := bridge.Compile(b.Forms()); err == nil && rules.TakesAnything() {
		c.report(at.child("rules"), "an argument without a pattern may be anything", "give each argument of a program of this machine a pattern, or path = true")
	}
}

func (c *checker) bridgeRules(at keyPath, b Bridge) {
	if len(b.Rules) == 0 {
		c.report(at.child("rules"), "missing: nothing could be called", `write rules = [{ args = [{ pattern = "version" }] }]`)
	}
	rules, err := bridge.Compile(b.Forms())
	switch {
	case err != nil:
		c.report(at.child("rules"), err.Error(), "patterns are regular expressions (RE2) that the whole argument has to match")
	case rules.HasPaths() && b.Workspace == "none":
		c.report(at.child("workspace"), "paths need a workspace", `write workspace = "ro" or "rw"`)
	}
}

// bridgeSecrets resolves the secrets of a program. They exclude a workspace, whose files may make the program show its environment.
func (c *checker) bridgeSecrets(at keyPath, b Bridge) {
	at = at.child("secrets_env")
	if len(b.SecretsEnv) > 0 && b.Workspace != "none" {
		c.report(at, "a program with secrets in its environment must not see the workspace, whose files could make it show them",
			fmt.Sprintf(`write workspace = "none", or give [sandboxes.%s] credentials and this program a placeholder`, b.Sandbox))
	}
	for _, variable := range sorted(b.SecretsEnv) {
		ref, each := b.SecretsEnv[variable], at.child(variable)
		switch {
		case ref.Env != "" && ref.File != "":
			c.report(each, "two sources of one secret", "keep env or file")
		case ref.Env != "":
			ref.Value = c.fromEnv(each.child("env"), ref.Env, true)
		case ref.File != "":
			ref.Value = c.fromFile(each.child("file"), ref.File, true)
		default:
			c.report(each, "missing", `write { env = "GITHUB_TOKEN" } or { file = "secrets/github" }`)
		}
		b.SecretsEnv[variable] = ref
		c.variable(each, variable)
	}
	for _, variable := range sorted(b.Env) {
		c.variable(at[:len(at)-1].child("env").child(variable), variable)
		if _, twice := b.SecretsEnv[variable]; twice {
			c.report(at.child(variable), "is in env as well", "keep one")
		}
	}
}

func (c *checker) variable(at keyPath, name string) {
	if name == "" || strings.ContainsAny(name, "= \x00") {
		c.report(at, fmt.Sprintf("%q is not a name of an environment variable", name), `write one such as "GH_TOKEN"`)
	}
}
