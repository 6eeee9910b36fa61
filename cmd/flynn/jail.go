package main

import (
	"fmt"
	"io"
	"runtime"

	"github.com/flynnhost/flynn/host/plugin/jail"
)

// jailCommand is the word by which this program starts a plugin: it holds itself in, and becomes the plugin. It is no subcommand, since
// it is for the host alone.
const jailCommand = "plugin-jail"

// pluginLauncher is this program, whatever has become of its file since.
func pluginLauncher() []string {
	if runtime.GOOS != "linux" {
		return nil
	}
	return []string{"/proc/self/exe", jailCommand}
}

// becomePlugin ends only if that fails.
func becomePlugin(stderr io.Writer) int {
	fmt.Fprintln(stderr, "flynn:", jail.Enter())
	return exitFailure
}
