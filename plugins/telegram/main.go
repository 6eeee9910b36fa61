// Telegram connects Flynn to Telegram as a bot.
//
// Start with channel.go, the plugin. In: poll.go and webhook.go bring updates, event.go and its parts (address.go, entities.go,
// attachments.go) make events of them. Out: send.go, edit.go. api.go is the way to the server and says what a failed call means.
//
// Updates are confirmed to Telegram only when the host has them. The state folder holds the basic groups that became supergroups.
package main

import "github.com/flynnhost/flynn/sdk/channel"

func main() { channel.Main(&plugin{}) }
