// Whatsapp connects Flynn to WhatsApp as a business, over Meta's Cloud API.
//
// Start with channel.go, the plugin. cloud.go serves the webhook, hook.go reads it, graph.go speaks to Meta, cloudsend.go and
// cloudmedia.go are the way out, statuses.go tells what became of it.
package main

import "github.com/flynnhost/flynn/sdk/channel"

func main() { channel.Main(&plugin{}) }
