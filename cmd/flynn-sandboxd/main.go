//go:build linux

// Command flynn-sandboxd is process 1 in every sandbox container, and by another name a bridged command there. By the word "native" it starts
// sandboxes without an engine for a host. People never run it by hand; package host/sandbox/supervise says what it does, and package
// host/sandbox/native/within how it starts sandboxes.
package main

import (
	"fmt"
	"os"

	"github.com/flynnhost/flynn/host/sandbox/native/within"
	"github.com/flynnhost/flynn/host/sandbox/supervise"
)

func main() {
	if name, is := supervise.CalledAs(os.Args); is {
		os.Exit(supervise.CallBridge(name, os.Args[1:]))
	}
	run := func() error { return supervise.Run(os.Args[1:]) }
	if len(os.Args) == 2 {
		switch os.Args[1] {
		case within.Word:
			run = within.Enter
		case within.ServeWord:
			run = within.Serve
		}
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "flynn-sandboxd:", err)
		os.Exit(1)
	}
}
