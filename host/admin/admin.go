// Package admin is what the command line does without a running host: it reads the store beside one, and changes the store while none runs.
//
// Start with the file of a subject: sessions.go, policies.go, and so on. Each function takes a loaded configuration and opens the store that
// it names; open.go is the only place that does. The package starts nothing, and does not talk to a running host: the client of package
// gateway does.
package admin
