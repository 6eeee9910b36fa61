// Matrix connects Flynn to a Matrix homeserver by the client-server API: plain rooms, without end-to-end encryption.
//
// Start with channel.go, the plugin; sync.go follows the homeserver, event.go reads what people send, send.go is the way out, client.go the
// HTTP below them. The point up to which the homeserver was followed moves when the host has everything before it.
package main

import "github.com/flynnhost/flynn/sdk/channel"

func main() { channel.Main(&plugin{}) }
