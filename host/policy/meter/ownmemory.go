package meter

// ownMemory turns an imported memory into the module's own, of the same limits: the instantiating side would have to bring
// one just for it. Modules of OPA's compiler import theirs as env.memory; under any other name it would be one that is shared.
func (m *module) ownMemory(imp Import, l limits) error {
	if imp.Module != "env" || imp.Name != "memory" {
		return unsupported("the import %s.%s is a memory; a policy brings its own, or imports env.memory", imp.Module, imp.Name)
	}
	if m.memory != nil {
		return unsupported("several memories")
	}
	m.memory = &l
	return nil
}
