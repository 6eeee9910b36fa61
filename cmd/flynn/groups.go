package main

import (
	"strings"

	"github.com/urfave/cli/v3"
)

// The groups of flynn --help. Every command has one; a command that people need once stands in Start.
const (
	groupStart   = "Start"
	groupTalk    = "Talk"
	groupPeople  = "People"
	groupExtend  = "Extend"
	groupOperate = "Operate"
	groupDevelop = "Develop"
)

// groups returns the groups in the order of the help text.
func groups() []string {
	return []string{groupStart, groupTalk, groupPeople, groupExtend, groupOperate, groupDevelop}
}

// rootHelp is the library's help of the root command with the groups in our order; the library sorts them by name.
func rootHelp() string {
	var list strings.Builder
	for _, name := range groups() {
		list.WriteString(`{{range .VisibleCategories}}{{if eq .Name "` + name + `"}}

   {{.Name}}:{{range .VisibleCommands}}
     {{join .Names ", "}}{{"\t"}}{{.Usage}}{{end}}{{end}}{{end}}`)
	}
	return strings.Replace(cli.RootCommandHelpTemplate, `{{template "visibleCommandCategoryTemplate" .}}`, list.String(), 1)
}

// withOldNames adds the commands of dev to a group under the names that they had there before the group dev.
func withOldNames(group *cli.Command, dev []*cli.Command) *cli.Command {
	for _, c := range dev {
		group.Commands = append(group.Commands, renamed(c.Name, c, group.Name, "dev"))
	}
	return group
}
