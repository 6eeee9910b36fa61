// Command fake runs the system of webhooktest for flynn plugin dev conform.
package main

import (
	"github.com/flynnhost/flynn/plugins/webhook/webhooktest"
	"github.com/flynnhost/flynn/sdk/plugintest/platform"
)

func main() { platform.Main(webhooktest.Fake) }
