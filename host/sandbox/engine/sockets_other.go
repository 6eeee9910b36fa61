//go:build !darwin

package engine

func sockets(string) []string { return nil }
