// Irc connects Flynn to an IRC network.
//
// Start with channel.go, the plugin; link.go is one connection, wire.go the line format, text.go what fits a line.
// It stores nothing on disk: IRC neither replays missed messages nor recognises repeated ones.
package main

import "github.com/flynnhost/flynn/sdk/channel"

func main() { channel.Main(&plugin{}) }
