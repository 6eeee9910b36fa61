// Slack connects Flynn to a Slack workspace over Socket Mode.
//
// Start with channel.go, the plugin; socket.go is one connection, envelope.go its messages, event.go and press.go convert them to events,
// places.go remembers conversations and missed.go reads the messages that were sent while there was no connection; send.go and files.go
// send, outcome.go interprets errors.
//
// The Web API client is that of slack-go/slack. Its Socket Mode client is not used, for four reasons: it sends an ack over whichever
// connection comes next and reports no failed write; it ends a connection that Slack asks to replace before there is another; it never acks
// what it cannot parse, so that comes again and again; and it adds a second WebSocket library. Its replacement here has some hundred lines.
package main

import "github.com/flynnhost/flynn/sdk/channel"

func main() { channel.Main(&plugin{}) }
