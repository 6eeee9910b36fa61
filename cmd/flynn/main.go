// Command flynn is the host for AI agents that people talk to over chat channels, and the tool
// with which its owner checks, explains and operates it.
//
// Start with run.go, which lists the subcommands; each of them is one file that parses and
// wires and holds no logic. Everything printed goes through output.go.
package main

import (
	"context"
	"os"

	"github.com/flynnhost/flynn/host/tool/pdftext"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == jailCommand {
		os.Exit(becomePlugin(os.Stderr))
	}
	if len(os.Args) == 2 && os.Args[1] == pdfCommand {
		os.Exit(pdftext.Serve(os.Stdin, os.Stdout))
	}
	os.Exit(run(context.Background(), os.Args, os.Getenv, os.Stdin, os.Stdout, os.Stderr))
}
