// Package proto holds the wire contract between Flynn and its plugins: the .proto files below flynn/, and what
// is generated from them in pluginv1, channelv1, toolv1, sandboxv1 and hostv1.
//
// Authors of plugins in Go use sdk/channel, sdk/tool or sdk/sandbox instead; the .proto files are for every other language. The package
// itself has no code; after a change run, from this folder,
//
//	go tool -modfile=../../tools.mod buf generate
package proto
