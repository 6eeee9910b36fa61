// Package command answers what people tell the host itself in a chat: /new and /agent, /stop, /approve, /pair, /status and more.
//
// Start with Parse, Desk.Work and Desk.Order. A command is a message like any other until it is committed to the inbox: it has come through
// the same admission. One about the turn that runs in its conversation is not put behind it (Work); one that changes what comes
// after it, such as /new, stands in the queue between the messages that were sent before and after (Order).
// The package decides nothing about approvals but who may speak; package approval does the rest.
package command

import (
	"slices"
	"strings"
)

// names are the commands that the host answers; any other word after a slash is for the agent.
var names = []string{
	"approve", "deny", "show", "elevated", "pair", "stop", "status", "help", "new", "agent", "model", "compact", "delete", "forget", "halt",
	"resume",
}

// Command is one order to the host.
type Command struct {
	Name string // "approve"
	Arg  string // the rest of the line
}

// maxLine bounds a command, in bytes; what is longer is a message.
const maxLine = 200

// Parse reads a message that consists of a command alone: "/approve ABC". Chat programs append the name of a bot ("/stop@flynn"),
// which has been found to be ours by then, and write the first letter large.
func Parse(text string) (Command, bool) {
	text = strings.TrimSpace(text)
	if len(text) > maxLine || strings.ContainsAny(text, "\r\n") || !strings.HasPrefix(text, "/") {
		return Command{}, false
	}
	name, arg, _ := strings.Cut(text[1:], " ")
	name, _, _ = strings.Cut(name, "@")
	name = strings.ToLower(name)
	if !slices.Contains(names, name) {
		return Command{}, false
	}
	return Command{Name: name, Arg: strings.TrimSpace(arg)}, true
}

// Queued tells whether the command stands in the queue of its place.
func (c Command) Queued() bool {
	return slices.Contains([]string{"new", "agent", "model", "compact", "delete"}, c.Name)
}
