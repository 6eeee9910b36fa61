// Program is the channel of the benchmark as a plugin.
package main

import (
	"github.com/flynnhost/flynn/host/plugin/testdata/pulse"
	"github.com/flynnhost/flynn/sdk/channel"
)

func main() { channel.Main(&pulse.Channel{}) }
