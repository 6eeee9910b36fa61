package container

// A container that nobody uses can stand still until its next call. It costs nothing while it runs. The container itself is not paused on
// the engine: its supervisor has to see the end of this host, and of the lease.

// MarkIdle marks a container that is idle as about to be paused. A call that enters later sees the mark.
func (c *Container) MarkIdle() bool {
	return !c.Dead() && !c.Running() && c.Link.Connections() == 0 && c.step(Idled)
}

// Pause stops what runs in a container that MarkIdle has marked, unless a call has come since. Its record is erased: a container without
// running commands does not outlast the host.
func (c *Container) Pause() {
	c.pausing.Lock()
	defer c.pausing.Unlock()
	if !c.step(Stilled) {
		return
	}
	c.config.Ownership.erase()
	c.Link.Pause(true)
}

// Wake makes the container fit for use. A link that fails meanwhile fails the call that follows.
func (c *Container) Wake() {
	if p := c.phase(); p != Pausing && p != Paused {
		return
	}
	c.pausing.Lock()
	defer c.pausing.Unlock()
	if c.phase() == Paused {
		c.Link.Pause(false)
	}
	c.step(Woken)
}
