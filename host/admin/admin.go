// Package admin implements commands that work without a running host: some read the store beside one, others change the store while none
// runs.
//
// Start with the file of a subject: sessions.go, policies.go, and so on. Each function takes a loaded configuration and opens the store
// that it names; only open.go does that. The package starts nothing, and does not talk to a running host: the client of package gateway
// does.
package admin
