//go:build linux

// Command flynn-sandboxd is process 1 in every sandbox container, and by another name a bridged command there. People
// never run it by hand; package host/sandbox/supervise says what it does.
package main

import (
	"fmt"
	"os"

	"github.com/flynnhost/flynn/host/sandbox/supervise"
)

func main() {
	if name, is := supervise.CalledAs(os.Args); is {
		os.Exit(supervise.CallBridge(name, os.Args[1:]))
	}
	if err := supervise.Run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "flynn-sandboxd:", err)
		os.Exit(1)
	}
}
