package host

// maxNotes is the bound of the configuration in force.
func (h *Host) maxNotes() int {
	if g := h.current.Load(); g != nil {
		return g.config.Memory.MaxNotes
	}
	return 0
}
