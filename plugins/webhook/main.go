// Webhook lets any system talk to Flynn with signed JSON over HTTP: it posts messages to a path of the host's, and gets the
// answers posted to an address of its own. Both directions are signed as Standard Webhooks says (standardwebhooks.com).
//
// Start with channel.go, the plugin; receive.go takes messages, deliver.go posts answers, signature.go signs and checks.
package main

import "github.com/flynnhost/flynn/sdk/channel"

func main() { channel.Main(&plugin{}) }
