package sandbox

import (
	"time"

	"github.com/flynnhost/flynn/host/sandbox/egress"
)

// SetNetwork gives proxies another network: a test's, in which names and public addresses lead to its own listeners.
func (c *Config) SetNetwork(n egress.Network) { c.network = n }

// SetInspectEvery has the pools looked at more often.
func (c *Config) SetInspectEvery(d time.Duration) { c.inspect = d }
