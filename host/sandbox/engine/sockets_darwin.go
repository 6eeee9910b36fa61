package engine

func sockets(home string) []string { return macSockets(home) }
