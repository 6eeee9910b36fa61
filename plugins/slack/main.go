// Slack connects Flynn to a Slack workspace over Socket Mode.
//
// Start with channel.go, the plugin; socket.go is one connection, envelope.go what comes over it, event.go and press.go turn it into
// events, places.go remembers conversations and missed.go reads what was said while there was no connection; send.go and files.go
// are the way out, outcome.go reads the errors.
//
// The Web API is that of slack-go/slack. Its Socket Mode client is not used, for four reasons: it hands an ack to whichever
// connection comes next and reports no failed write; it ends a connection that Slack asks to replace before
// there is another; what it cannot parse is never acked and so comes again and again; and it pulls in a second WebSocket
// library. Its successor here is some hundred lines.
package main

import "github.com/flynnhost/flynn/sdk/channel"

func main() { channel.Main(&plugin{}) }
