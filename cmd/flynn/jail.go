package main

import (
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/flynnhost/flynn/host/plugin/jail"
	"github.com/flynnhost/flynn/host/tool/builtin"
)

// jailCommand is the argument with which the host starts this program as a plugin: it enters the jail and then executes the plugin. It is
// not a subcommand because nobody else should call it.
const jailCommand = "plugin-jail"

// pdfCommand is the argument with which the host starts this program to read a PDF.
const pdfCommand = "read-pdf"

// web returns how agents reach the web.
func web() builtin.WebConfig {
	program, err := os.Executable()
	if err != nil {
		return builtin.WebConfig{} // without PDFs
	}
	if runtime.GOOS == "linux" {
		program = "/proc/self/exe"
	}
	return builtin.WebConfig{PDF: []string{program, pdfCommand}}
}

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
