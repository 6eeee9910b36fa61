// Irc connects Flynn to an IRC network.
//
// Start with channel.go, the plugin; link.go is one connection, wire.go the line format, text.go what fits a line.
// It keeps no state on disk: IRC neither replays what was missed nor recognises what was sent before.
package main

import "github.com/flynnhost/flynn/sdk/channel"

func main() { channel.Main(&plugin{}) }
