package config

import (
	"fmt"
	"net"
	"path"
	"reflect"
	"strconv"
	"strings"

	"github.com/flynnhost/flynn/host/sandbox/egress"
	"github.com/flynnhost/flynn/host/sandbox/mounts"
)

// cli checks the agent CLI of an agent as far as its preset does not matter; package host checks the rest.
func (c *checker) cli(at keyPath, name string, agent Agent) {
	at = at.child("cli")
	if agent.Kind != "cli" {
		if !reflect.DeepEqual(agent.CLI, defaultsOf[CLI]()) {
			c.report(at, fmt.Sprintf("an agent of kind %q has no program", agent.Kind), `write kind = "cli"`)
		}
		return
	}
	if agent.Elevated {
		c.report(at[:len(at)-1].child("elevated"), "an agent of kind cli does not leave its container", "remove it")
	}
	program := agent.CLI
	c.cliPlace(at, agent)
	c.cliKey(at, name, agent)
	c.cliFolder(at.child("folder"), program.Folder)
	switch {
	case program.FolderByCall && program.Folder != "":
		c.report(at.child("folder_by_call"), "the agent has a folder of its own", "remove folder, or this key")
	case program.FolderByCall && len(c.cfg.CLI.Roots) == 0:
		c.report(at.child("folder_by_call"), "no folder may be named", `name the folders that may be chosen from, such as roots = ["/srv/projects"] under [cli]`)
	}
	if program.ConfigDir != "" {
		c.source(at.child("config_dir"), program.ConfigDir)
	} else if program.ConfigTarget != "" {
		c.report(at.child("config_target"), "it is for config_dir", "remove it, or write that")
	}
	for i, m := range program.Mounts {
		each := at.child("mounts").index(i)
		c.source(each.child("source"), m.Source)
		c.overWritable(each.child("source"), m)
		c.required(each.child("target"), m.Target, `"/data"`)
	}
	for i, target := range program.Allowlist {
		c.target(at.child("allowlist").index(i), target)
	}
	if limit := c.cfg.Budgets.TurnTimeoutSeconds; program.TimeoutSeconds >= limit {
		c.report(at.child("timeout_seconds"), fmt.Sprintf("a turn may take %d seconds in all", limit),
			"raise turn_timeout_seconds of [budgets], or write less")
	}
}

// cliPlace makes sure that an agent CLI has a container, or that two keys say that it has none.
func (c *checker) cliPlace(at keyPath, agent Agent) {
	sandbox := at[:len(at)-1].child("sandbox")
	switch {
	case agent.Sandbox.Enabled && agent.CLI.DangerouslyOnHost:
		c.report(at.child("dangerously_on_host"), "the agent has a sandbox", "remove this key, or write sandbox = false as well")
	case !agent.Sandbox.Enabled && !agent.CLI.DangerouslyOnHost && !c.cfg.Sandbox.Enabled:
		c.report(sandbox, "an agent of kind cli runs in a container, and [sandbox] is not enabled", "write enabled = true under [sandbox]")
	case !agent.Sandbox.Enabled && !agent.CLI.DangerouslyOnHost:
		c.report(sandbox, "an agent of kind cli runs in a container", "write sandbox = true, or the name of a [sandboxes.NAME]")
	case agent.Sandbox.Enabled && agent.CLI.DangerouslyForPrograms:
		c.report(at.child("dangerously_for_programs"), "the agent has a sandbox", "remove this key")
	case !agent.Sandbox.Enabled && (agent.CLI.ConfigDir != "" || agent.CLI.Folder != "" || agent.CLI.Auth == "mount" || len(agent.CLI.Mounts) > 0):
		c.report(at, "on the host nothing is mounted", `remove folder, config_dir, mounts and auth = "mount"`)
	}
	if s := agent.CLI.StateDir; !path.IsAbs(s) || path.Clean(s) != s || s == "/" {
		c.report(at.child("state_dir"), fmt.Sprintf("%q is not a folder inside the container", s), `write a clean absolute path below /, such as "/state"`)
	}
}

// cliKey resolves the key. A missing key does not prevent a start: the agent reports it when it gets a message.
func (c *checker) cliKey(at keyPath, name string, agent Agent) {
	program := agent.CLI
	program.APIKey = c.secret(at, "api_key", program.APIKeyEnv, program.APIKeyFile, false, "")
	if strings.ContainsAny(program.APIKey.Reveal(), "\r\n") {
		c.report(at, "the key has more than one line", "a header has one")
	}
	switch {
	case program.Auth == "mount" && program.SecretName() != "":
		c.report(at.child("auth"), "a key and a login are two ways to the same end", `remove api_key_env and api_key_file, or write auth = "proxy"`)
	case program.Auth == "mount" && program.AuthDir == "":
		c.report(at.child("auth_dir"), "missing", `name the folder of the host with the login, such as auth_dir = "/srv/flynn/claude-login"`)
	case program.Auth == "mount":
		c.source(at.child("auth_dir"), program.AuthDir)
	case program.AuthDir != "" || program.AuthDatabase != "" || len(program.AuthFiles)+len(program.AuthSeed) > 0:
		c.report(at.child("auth_dir"), `it is for auth = "mount"`, "remove it, auth_files, auth_seed and auth_database, or write that")
	case program.Preset == "kiro" && agent.Sandbox.Enabled:
		c.report(at.child("auth"), "kiro needs a login: its way with a key is not known to the proxy", `write auth = "mount" and auth_dir`)
	}
	c.cliAddress(at.child("api_address"), agent)
	agent = c.cfg.Agents[name]
	agent.CLI.APIKey = program.APIKey
	c.cfg.Agents[name] = agent
}

// cliAddress checks the address of the API. It must not be Flynn's own, whose clients have the rights of their token.
func (c *checker) cliAddress(at keyPath, agent Agent) {
	program := agent.CLI
	if program.APIAddress == "" {
		return
	}
	addr, _, err := egress.ParseAddress(program.APIAddress)
	switch {
	case err != nil:
		c.report(at, err.Error(), `write the address and port of your gateway, such as "http://192.168.1.10:4000", or https:// where it has a certificate for api_host`)
	case !agent.Sandbox.Enabled:
		c.report(at, "on the host the program reaches every address by itself", "remove it, and say under env where its API is")
	case program.Auth != "proxy" || program.SecretName() == "":
		c.report(at, "without a key nothing goes there", `write api_key_env or api_key_file; any key will do for a gateway that asks for none`)
	case addr.Addr().IsLoopback():
		for _, listen := range []string{c.cfg.Gateway.Listen, c.cfg.Gateway.HooksListen} {
			_, port, _ := net.SplitHostPort(listen)
			if port == "0" {
				c.report(at, fmt.Sprintf("Flynn itself may listen there: [gateway] takes any free port (%q)", listen), "give [gateway] a fixed port")
			} else if port == strconv.Itoa(int(addr.Port())) {
				c.report(at, "Flynn itself listens on that port", "name the port of your model gateway")
			}
		}
	}
}

// cliFolder checks the working folder of an agent CLI against the roots of [cli].
func (c *checker) cliFolder(at keyPath, folder string) {
	if folder == "" {
		return
	}
	if _, err := c.cfg.CLIRules(c.getenv).Check(folder); err != nil {
		problem, hint := apart(err)
		c.report(at, problem, hint)
	}
}

// CLIRules say which folders of the host agent CLIs may work in. They are checked when the configuration is read and before each run,
// since the target of a path may change.
func (c *Config) CLIRules(getenv func(string) string) mounts.Rules {
	rules := c.MountRules(getenv)
	rules.Roots, rules.RootsKey = c.CLI.Roots, "roots of [cli]"
	return rules
}
