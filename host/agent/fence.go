package agent

import (
	"encoding/json"
	"strings"

	"github.com/flynnhost/flynn/host/agent/transcript"
)

// program is a program in a model's answer.
type program struct {
	Language string `json:"language"`
	Program  string `json:"program"`
}

// fencedProgram reads the single fenced code block of an answer (CommonMark 0.31, section 4.5), if it is tagged as Python or
// JavaScript. Several blocks, an unterminated one, or one with another tag are prose, because it must be clear what is to run.
func fencedProgram(text string) (program, bool) {
	var found program
	blocks := 0
	var fence, language string
	var body strings.Builder
	for line := range strings.Lines(text) {
		mark, info, isFence := fenceLine(line)
		switch {
		case fence == "" && !isFence:
		case fence == "":
			blocks++
			fence, language = mark, tagged(info)
			body.Reset()
		case isFence && info == "" && mark[0] == fence[0] && len(mark) >= len(fence):
			fence = ""
			found = program{language, body.String()}
		default:
			body.WriteString(line)
		}
	}
	return found, fence == "" && blocks == 1 && found.Language != "" && strings.TrimSpace(found.Program) != ""
}

// fenceLine parses a line that may begin or end a block: up to three spaces, at least three backticks or tildes, and an info string.
func fenceLine(line string) (mark, info string, is bool) {
	rest := strings.TrimLeft(line, " ")
	if len(line)-len(rest) > 3 {
		return "", "", false
	}
	c := "`"
	if strings.HasPrefix(rest, "~") {
		c = "~"
	}
	info = strings.TrimLeft(rest, c)
	mark = rest[:len(rest)-len(info)]
	if len(mark) < 3 || c == "`" && strings.Contains(info, "`") {
		return "", "", false
	}
	return mark, strings.TrimSpace(info), true
}

// tagged returns the language that a block's info string names, or "".
func tagged(info string) string {
	word, _, _ := strings.Cut(info, " ")
	switch strings.ToLower(word) {
	case "python", "py", "python3":
		return "python"
	case "javascript", "js":
		return "javascript"
	}
	return ""
}

// args returns the program as arguments of the tool.
func (p program) args() json.RawMessage { return transcript.Encode(p) }

// fenced renders a call as a code block, for models without tools.
func fenced(args json.RawMessage) string {
	var p program
	if json.Unmarshal(args, &p) != nil {
		return ""
	}
	longest := 2
	for run := range strings.FieldsFuncSeq(p.Program, func(c rune) bool { return c != '`' }) {
		longest = max(longest, len(run))
	}
	mark := strings.Repeat("`", longest+1)
	return mark + p.Language + "\n" + strings.TrimSuffix(p.Program, "\n") + "\n" + mark
}
