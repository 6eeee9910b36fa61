package main

import (
	"fmt"
	"io"
	"runtime"

	"github.com/flynnhost/flynn/host/plugin/jail"
)

// jailCommand is the argument with which the host starts this program as a plugin: it enters the jail and then executes the plugin. It is
// not a subcommand because nobody else should call it.
const jailCommand = "plugin-jail"

// pluginLauncher returns the command that starts a plugin: this program, even if its file has been replaced since.
func pluginLauncher() []string {
	if runtime.GOOS != "linux" {
		return nil
	}
	return []string{"/proc/self/exe", jailCommand}
}

// becomePlugin returns only if the plugin could not be executed.
func becomePlugin(stderr io.Writer) int {
	fmt.Fprintln(stderr, "flynn:", jail.Enter())
	return exitFailure
}
