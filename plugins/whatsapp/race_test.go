//go:build race

package main

// raced: the library waits for its reconnection in two goroutines that set the same field (go.mau.fi/util/exsync.Event.GetChan), which
// the detector finds whenever an answer is lost with the connection.
const raced = true
