// Package command carries out chat commands: /new, /agent, /stop, /approve, /pair, /status and more.
//
// Start with Parse, Service.Work and Service.Order. Up to its commit to the inbox, a command is a message like any other and has passed
// the same admission. A command about the running turn does not wait behind it (Work); one that changes what comes after it, such as
// /new, is queued between the messages before and after it (Order). About approvals the package decides only who may answer; package
// approval does the rest.
package command

import (
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/config"
)

// names are the commands; any other word after a slash is for the agent, unless it is a misspelt command.
var names = []string{
	"approve", "deny", "show", "elevated", "pair", "stop", "status", "help", "new", "agent", "model", "compact", "delete", "forget", "halt", "console",
	"resume", "undo", "fork",
}

// Command is a parsed command.
type Command struct {
	Name string // "approve"; "" for a misspelt one, which is probably Near
	Arg  string // the rest of the line
	Near string
}

// maxLine bounds a command, in bytes; a longer text is a message.
const maxLine = 200

// Parse reads a message that is a command, such as "/approve ABC". Chat apps append the name of the bot ("/stop@flynn"), which the channel
// has already checked, and capitalize the first letter.
func Parse(text string) (Command, bool) {
	text = strings.TrimSpace(text)
	if len(text) > maxLine || strings.ContainsAny(text, "\r\n") || !strings.HasPrefix(text, "/") {
		return Command{}, false
	}
	name, arg, _ := strings.Cut(text[1:], " ")
	name, _, _ = strings.Cut(name, "@")
	name = strings.ToLower(name)
	arg = strings.TrimSpace(arg)
	if slices.Contains(names, name) {
		return Command{Name: name, Arg: arg}, true
	}
	near := misspelt(name, arg)
	return Command{Near: near}, near != ""
}

// bare are the commands without an argument.
var bare = []string{"stop", "status", "help", "new", "compact", "resume", "console", "fork"}

// misspelt returns the command that a word differs from by one letter, or by two swapped ones; "" if there is none, or if the rest of the
// line cannot be its argument. Words of three letters or less are never taken for a misspelt command.
func misspelt(name, arg string) string {
	if strings.ContainsFunc(name, func(r rune) bool { return r < 'a' || r > 'z' }) {
		return "" // such as a path
	}
	for _, c := range names {
		if len(c) > 3 && len(name) > 3 && config.Edits(name, c) == 1 && (arg == "" || !slices.Contains(bare, c) && !strings.Contains(arg, " ")) {
			return c
		}
	}
	return ""
}

// ofRunning reports whether the command is about what the host of the conversation has in memory or on its disk.
func (c Command) ofRunning() bool { return slices.Contains([]string{"stop", "undo", "fork"}, c.Name) }

// Queued reports whether the command waits in the queue of its conversation scope.
func (c Command) Queued() bool {
	return slices.Contains([]string{"new", "agent", "model", "compact", "delete"}, c.Name)
}
