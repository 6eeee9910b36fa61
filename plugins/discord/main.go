// Discord connects Flynn to Discord as a bot.
//
// Start with channel.go, the plugin. gateway.go is the connection that delivers events, rest.go makes all other requests; events.go
// converts events, catchup.go fetches missed messages, send.go and the files next to it are the other direction. position.go is the state
// on disk.
//
// The types of the wire are those of github.com/bwmarrin/discordgo. Its Session is not used, for reasons that matter here: what
// it needs for a resume is private to it, so that nothing survives a restart; it moves the sequence before anybody has taken the
// event over; after an invalid session it identifies with the old one still in force; it asks for 1000 on closing, after
// which Discord forgets the session; the reason of a close is lost, and a wrong token is tried for ever. Its REST client sleeps out
// rate limits without a deadline, repeats a POST by itself after 502, and knows no nonce.
package main

import "github.com/flynnhost/flynn/sdk/channel"

func main() { channel.Main(&plugin{}) }
