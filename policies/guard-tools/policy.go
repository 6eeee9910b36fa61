// Guard-tools restricts what an agent may do for people other than the owner.
//
// Rules, for every sender whose role is not "owner":
//
//	1  a tool that reaches the network is denied
//	2  a shell command that names a network program is denied
//	3  a shell command that cannot be read with certainty is denied
//	4  a tool that types into a running program is denied: its input cannot be judged piece by piece
//	5  whatever else executes or writes, or sees the machine, runs in a sandbox
//
// Reading shell commands keeps honest agents honest. It is no barrier: any program that is allowed to run may
// open a connection of its own. The barrier is rule 5 together with a sandbox whose network is "none".
package main

import (
	"strings"

	"github.com/flynnhost/flynn/sdk/policy"
	"github.com/flynnhost/flynn/sdk/policy/abi"
)

const (
	ruleNetworkTool = 1 + iota
	ruleNetworkCommand
	ruleUnreadable
	ruleInput
	ruleSandbox
)

func init() { policy.Tool(restrict) }

func main() {}

func restrict(f policy.ToolFacts) policy.Restriction {
	if f.Role() == "owner" {
		return policy.Restriction{}
	}
	switch tool := f.Tool(); {
	case f.Effect() == "network" || listed("network_tools", tool):
		return deny(ruleNetworkTool, "only the owner's agent reaches the network: "+tool)
	case listed("input_tools", tool):
		return deny(ruleInput, "only the owner types into a running program: "+tool)
	case listed("shell_tools", tool):
		return shell(f)
	case listed("free_tools", tool):
		return policy.Restriction{}
	case f.Effect() == "execute" || f.Effect() == "write" || listed("sandbox_tools", tool):
		return sandbox()
	}
	return policy.Restriction{}
}

// shell judges a tool that hands a command line to a shell.
func shell(f policy.ToolFacts) policy.Restriction {
	pointer := setting("command_pointer")
	if f.ArgKind(pointer) != abi.KindString {
		return deny(ruleUnreadable, "the command cannot be read: "+pointer+" is not a string")
	}
	command, _ := f.Arg(pointer)
	programs := set(setting("network_commands"))
	switch found := inspect(command, func(name string) bool { return programs[name] }); found.kind {
	case network:
		return deny(ruleNetworkCommand, "only the owner's agent reaches the network: "+found.what)
	case unreadable:
		return deny(ruleUnreadable, "the command cannot be read: "+found.what)
	}
	return sandbox()
}

func deny(rule uint32, reason string) policy.Restriction {
	return policy.Restriction{Deny: true, Rule: rule, Reason: reason}
}

func sandbox() policy.Restriction {
	name, _ := policy.Data("sandbox")
	return policy.Restriction{Sandbox: true, SandboxName: name, Rule: ruleSandbox, Reason: "not the owner"}
}

// listed reports whether the setting's words have this one.
func listed(key, word string) bool {
	for w := range strings.FieldsSeq(setting(key)) {
		if w == word {
			return true
		}
	}
	return false
}

// set is for lists that are asked again and again: a long command line must not spend the policy's fuel on them.
func set(words string) map[string]bool {
	s := make(map[string]bool, 128)
	for w := range strings.FieldsSeq(words) {
		s[w] = true
	}
	return s
}
