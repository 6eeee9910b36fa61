// Discord connects Flynn to Discord as a bot.
//
// Start with channel.go, the plugin. gateway.go is the connection that delivers events, rest.go makes all other requests; events.go
// converts events, catchup.go fetches missed messages, send.go and the files next to it are the other direction. position.go is the state
// on disk.
//
// The types of the protocol are those of github.com/bwmarrin/discordgo. Its Session is not used: the data for a resume are private to it,
// so that nothing survives a restart; it advances the sequence number before the event is handled; after an invalid session it identifies
// while the old one is still in use; it closes with code 1000, after which Discord forgets the session; it loses the reason of a close, and
// retries a wrong token for ever. Its REST client waits out rate limits without a deadline, repeats a POST by itself after 502, and does
// not support nonces.
package main

import "github.com/flynnhost/flynn/sdk/channel"

func main() { channel.Main(&plugin{}) }
