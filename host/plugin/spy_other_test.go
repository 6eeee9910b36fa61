//go:build unix && !linux

package plugin

import "github.com/flynnhost/flynn/sdk/channel"

// spy is for the systems on which there is something to try.
func (a *actor) spy(channel.Config) {}

// hinder is for the system whose kernels differ in it.
func hinder() error { return nil }
