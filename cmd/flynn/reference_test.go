package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/sdk/need"
)

// TestReference keeps docs/reference/commands.md and exit-codes.md like the commands.
func TestReference(t *testing.T) {
	root := rootCommand()
	var b strings.Builder
	b.WriteString("# Commands\n\n`flynn COMMAND --help` says the same. These flags may stand before every command:\n\n")
	writeFlags(&b, root.Flags)
	var index []string
	var text strings.Builder
	writeCommands(&text, root, "flynn", &index)
	b.WriteString("\n" + strings.Join(index, " · ") + "\n" + text.String())
	need.Golden(t, "../../docs/reference/commands.md", b.String())

	need.Golden(t, "../../docs/reference/exit-codes.md", "# Exit codes\n\n"+strings.Join([]string{
		"| Code | Meaning |", "| --- | --- |",
		fmt.Sprintf("| %d | success |", exitOK),
		fmt.Sprintf("| %d | failure |", exitFailure),
		fmt.Sprintf("| %d | wrong usage |", exitUsage),
		fmt.Sprintf("| %d | errors in the configuration |", exitConfig),
		fmt.Sprintf("| %d | `flynn policy replay` found changes, and was told to fail on them |", exitChanged),
	}, "\n")+"\n\n"+fmt.Sprintf("`flynn sandbox exec` ends with the code of its command, with %d for a timeout, %d where the command could not be started, and %d\n"+
		"and the number of the signal where one ended it.\n", exitTimedOut, exitNotRun, exitSignal))
}

// writeCommands writes a section for each visible command that has an action, and index entries for those of the first level.
func writeCommands(b *strings.Builder, c *cli.Command, path string, index *[]string) {
	for _, sub := range c.Commands {
		if sub.Hidden || sub.Name == "help" {
			continue
		}
		full := path + " " + sub.Name
		if index != nil {
			*index = append(*index, fmt.Sprintf("[%s](#%s)", sub.Name, strings.ReplaceAll(full, " ", "-")))
		}
		level := "##"
		if index == nil {
			level = "###"
		}
		fmt.Fprintf(b, "\n%s %s\n\n", level, full)
		fmt.Fprintf(b, "%s.\n", strings.ToUpper(sub.Usage[:1])+sub.Usage[1:])
		if sub.Description != "" {
			fmt.Fprintf(b, "\n%s\n", strings.TrimSpace(sub.Description))
		}
		if len(sub.Commands) == 0 {
			fmt.Fprintf(b, "\n```text\n%s\n```\n", strings.TrimSpace(full+" "+sub.ArgsUsage))
		}
		if slices.ContainsFunc(sub.Flags, visible) {
			b.WriteString("\n")
			writeFlags(b, sub.Flags)
		}
		writeCommands(b, sub, full, nil)
	}
}

func visible(f cli.Flag) bool {
	v, ok := f.(cli.VisibleFlag)
	return !ok || v.IsVisible()
}

func writeFlags(b *strings.Builder, flags []cli.Flag) {
	b.WriteString("| Flag | Meaning |\n| --- | --- |\n")
	for _, f := range flags {
		if !visible(f) || f.Names()[0] == "help" {
			continue
		}
		usage, value := "", ""
		if d, ok := f.(cli.DocGenerationFlag); ok {
			usage = d.GetUsage()
			if d.TakesValue() {
				value = " VALUE"
			}
		}
		if at := strings.SplitN(usage, "`", 3); value != "" && len(at) == 3 {
			value, usage = " "+at[1], at[0]+at[1]+at[2]
		}
		var names []string
		for _, n := range f.Names() {
			dashes := "--"
			if len(n) == 1 {
				dashes = "-"
			}
			names = append(names, "`"+dashes+n+value+"`")
		}
		fmt.Fprintf(b, "| %s | %s |\n", strings.Join(names, ", "), strings.ReplaceAll(usage, "|", `\|`))
	}
}
