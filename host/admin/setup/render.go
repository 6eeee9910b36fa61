package setup

import (
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/config/edit"
	"github.com/flynnhost/flynn/host/sandbox/driver"
)

const opening = `# The configuration of Flynn, written by flynn init. A running flynn takes up changes by itself.
# flynn config check finds mistakes, and flynn config show prints every key with its default.

# The agent that answers. Its tools are those of a profile: minimal, messaging, coding or full.
[agent_configs.assistant]
system_prompt = "You are a helpful assistant. You answer briefly and in the language of the question."
tool_profile = %q

[routing]
default_agent = "assistant"
`

const withSandbox = `
# Commands that the agent runs get a sandbox of their own, without a network: a container where Docker or Podman answers, else one that
# Flynn makes of this machine's programs.
[sandbox]
enabled = true
image = "debian:stable-slim"
local_frontends = true
`

// bestEffort is added where some limit cannot be held.
const bestEffort = `# On this machine Flynn cannot hold all limits itself; flynn doctor names them.
limits = "best-effort"
`

const withoutSandbox = `
# No sandbox can be made here: with enabled = true, flynn doctor says why. Once one can, enabled = true keeps the agent's commands in it,
# and tool_profile = "coding" lets it run some.
[sandbox]
enabled = false
`

const withDemo = `
# There is no model yet: the demo model answers, which repeats what it hears. Choose a real one with: flynn model add default
`

const closing = `
# What Flynn remembers, and the files with its secrets, which only you can read.
[store]
dir = %q
`

// starter returns the text of a first configuration without model and channel.
func starter(found Found, a Answers, listen string) ([]byte, error) {
	profile, sandbox := "minimal", withoutSandbox
	if len(found.Engines) > 0 {
		profile, sandbox = "coding", withSandbox
		if e := found.Engines[0]; e.Socket != "/var/run/docker.sock" {
			sandbox += fmt.Sprintf("engine = %q\n", "unix://"+e.Socket)
		}
	} else if found.Own {
		profile, sandbox = "coding", withSandbox
		if driver.Without(found.Lacks, false) != nil {
			sandbox += bestEffort
		}
	}
	text := fmt.Sprintf(opening, profile) + sandbox + fmt.Sprintf(closing, dataName)
	t, err := edit.Parse([]byte(text))
	if err != nil {
		return nil, err
	}
	if listen != "" {
		err = t.Set(listen, "gateway", "listen")
	}
	for name, dir := range a.Plugins {
		if err == nil {
			err = t.Set(dir, "plugins", "dev_paths", name)
		}
	}
	return t.Bytes(), err
}

// withNote puts a comment above a table that was added.
func withNote(f *edit.File, header, note string) error {
	lines := strings.SplitAfter(string(f.Bytes()), "\n")
	i := slices.IndexFunc(lines, func(l string) bool { return strings.TrimSpace(l) == header })
	if i < 0 {
		return nil
	}
	return f.Replace([]byte(strings.Join(slices.Insert(lines, i, "# "+note+"\n"), "")))
}

// freePort returns "" if the usual port of the gateway is free, and the address of a free one otherwise.
func freePort() string {
	if l, err := net.Listen("tcp", "127.0.0.1:7351"); err == nil {
		_ = l.Close()
		return ""
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return ""
	}
	defer l.Close()
	return l.Addr().String()
}
