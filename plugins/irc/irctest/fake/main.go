// Command fake runs the server of irctest for flynn plugin dev conform.
package main

import (
	"github.com/flynnhost/flynn/plugins/irc/irctest"
	"github.com/flynnhost/flynn/sdk/plugintest/platform"
)

func main() { platform.Main(irctest.Fake) }
