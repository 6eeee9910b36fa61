package native

// Spare returns the process id of the spare process, or 0.
func (d *Driver) Spare() int {
	d.spares.mu.Lock()
	defer d.spares.mu.Unlock()
	if d.spares.kept == nil {
		return 0
	}
	return d.spares.kept.life.pid
}

// Processes returns the process ids of sandboxes by id.
func (d *Driver) Processes() map[string]int {
	d.mu.Lock()
	defer d.mu.Unlock()
	pids := map[string]int{}
	for id, l := range d.lives {
		pids[id] = l.pid
	}
	return pids
}
