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

	"github.com/flynnhost/flynn/host/config"
)

// names are the commands that the host answers; any other word after a slash is for the agent, unless it is nearly one of them.
var names = []string{
	"approve", "deny", "show", "elevated", "pair", "stop", "status", "help", "new", "agent", "model", "compact", "delete", "forget", "halt",
	"resume",
}

// Command is one order to the host.
type Command struct {
	Name string // "approve"; "" for a word that is none, and nearly Near
	Arg  string // the rest of the line
	Near string
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
	arg = strings.TrimSpace(arg)
	if slices.Contains(names, name) {
		return Command{Name: name, Arg: arg}, true
	}
	near := misspelt(name, arg)
	return Command{Near: near}, near != ""
}

// bare are the commands that nothing follows.
var bare = []string{"stop", "status", "help", "new", "compact", "resume"}

// misspelt is the command that a word differs from by one letter more, less or other, or by two that changed places; "" where there is
// none, or where what follows the word cannot be the command's. It takes no word of three letters or less for another.
func misspelt(name, arg string) string {
	if strings.ContainsFunc(name, func(r rune) bool { return r < 'a' || r > 'z' }) {
		return "" // a path, or whatever else begins with a slash
	}
	for _, c := range names {
		if len(c) > 3 && len(name) > 3 && config.Edits(name, c) == 1 && (arg == "" || !slices.Contains(bare, c) && !strings.Contains(arg, " ")) {
			return c
		}
	}
	return ""
}

// Queued reports whether the command stands in the queue of its place.
func (c Command) Queued() bool {
	return slices.Contains([]string{"new", "agent", "model", "compact", "delete"}, c.Name)
}
