//go:build !darwin && !linux

package engine

func sockets(string) []string { return nil }
