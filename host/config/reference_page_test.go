package config

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/sdk/need"
)

// TestReferencePage keeps docs/reference/configuration.md like examples/flynn.reference.toml.
func TestReferencePage(t *testing.T) {
	src, err := os.ReadFile(referenceFile)
	if err != nil {
		t.Fatal(err)
	}
	need.Golden(t, "../../docs/reference/configuration.md", referencePage(string(src)))
}

var (
	sectionLine = regexp.MustCompile(`^# -+ (.*?) -+$`)
	tableLine   = regexp.MustCompile(`^\[\[?([^\]]+)\]\]?$`)
	keyLine     = regexp.MustCompile(`^(# )?([a-z_]+) = (.*)$`)
)

// referencePage makes tables of the keys. A comment describes the keys or the table below it.
func referencePage(src string) string {
	var b strings.Builder
	b.WriteString("# flynn.toml\n\n")
	var comment []string
	inTable := false
	flush := func() string {
		text := strings.Join(comment, " ")
		comment = nil
		return text
	}
	for line := range strings.Lines(src) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case line == "":
			if text := flush(); text != "" {
				fmt.Fprintf(&b, "%s\n\n", text)
			}
			if inTable {
				b.WriteString("\n")
			}
			inTable = false
		case sectionLine.MatchString(line):
			fmt.Fprintf(&b, "## %s\n\n", sectionLine.FindStringSubmatch(line)[1])
		case tableLine.MatchString(line):
			fmt.Fprintf(&b, "### %s\n\n", line)
			if text := flush(); text != "" {
				fmt.Fprintf(&b, "%s\n\n", text)
			}
		case keyLine.MatchString(line):
			if !inTable {
				b.WriteString("| Key | Default or example | Meaning |\n| --- | --- | --- |\n")
				inTable = true
			}
			found := keyLine.FindStringSubmatch(line)
			value, remark, _ := strings.Cut(found[3], " # ")
			fmt.Fprintf(&b, "| `%s` | `%s` | %s |\n", found[2], cell(strings.TrimSpace(value)), cell(strings.TrimSpace(flush()+" "+remark)))
		case strings.HasPrefix(line, "#"):
			comment = append(comment, strings.TrimSpace(strings.TrimPrefix(line, "#")))
		default: // the rest of a value of several lines
		}
	}
	return strings.TrimRight(strings.ReplaceAll(b.String(), "\n\n\n", "\n\n"), "\n") + "\n"
}

func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
