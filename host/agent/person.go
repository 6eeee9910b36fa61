package agent

// persons are the sender keys of one person.
func (g *Generation) persons(senderKey string) []string {
	if g.Persons == nil {
		return []string{senderKey}
	}
	return g.Persons.Persons(senderKey)
}
