package agent

// persons returns the sender keys of one person.
func (g *Generation) persons(senderKey string) []string {
	if g.Persons == nil {
		return []string{senderKey}
	}
	return g.Persons.Persons(senderKey)
}
