package meter

// ownMemory replaces an imported memory by one of the module's own with the same limits, so that the host need not provide one. Only
// env.memory is accepted, the name that OPA's compiler uses; any other would be a memory to share.
func (m *module) ownMemory(imp Import, l limits) error {
	if imp.Module != "env" || imp.Name != "memory" {
		return unsupported("the import %s.%s is a memory; a policy has to define its own, or import env.memory", imp.Module, imp.Name)
	}
	if m.memory != nil {
		return unsupported("several memories")
	}
	m.memory = &l
	return nil
}
