package container

// An unused container can be paused until its next call. Its processes then use no CPU. The container itself is not paused on the engine:
// its supervisor has to notice the end of this host and of the lease.

// MarkIdle marks an idle container as about to be paused. A call that enters later sees the mark.
func (c *Container) MarkIdle() bool {
	return !c.Dead() && !c.Running() && c.Link.Connections() == 0 && c.step(Idled)
}

// Pause stops the processes of a container that MarkIdle has marked, unless a call has entered since. Its record is erased, because a
// container without running commands does not outlive the host.
func (c *Container) Pause() {
	c.pausing.Lock()
	defer c.pausing.Unlock()
	if !c.step(Stilled) {
		return
	}
	c.config.Ownership.erase()
	c.Link.Pause(true)
}

// Wake resumes the container for a call. If the link fails meanwhile, the call that follows fails.
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
