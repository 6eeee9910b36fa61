// Whatsapp connects Flynn to WhatsApp, in one of two ways: as a business over Meta's Cloud API, or as a linked device of a
// phone.
//
// Start with channel.go, the plugin, which is either. The Cloud API: cloud.go serves the webhook, hook.go reads it, graph.go speaks to
// Meta, cloudsend.go and cloudmedia.go are the way out, statuses.go has the reports about sent messages. The linked device: linked.go is
// the connection, account.go what is used of the library, linkedevent.go and linkedsend.go the two directions.
package main

import "github.com/flynnhost/flynn/sdk/channel"

func main() {
	silence()
	channel.Main(&plugin{})
}
