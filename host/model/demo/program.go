package demo

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/model"
)

// codeTool is the tool that runs a program.
const codeTool = "code.run"

// parseProgram reads "!py PROGRAM" and "!js PROGRAM", where the program may have any number of lines.
func parseProgram(text string) (language, program string, ok bool) {
	for mark, name := range map[string]string{"!py": "python", "!js": "javascript"} {
		rest, is := strings.CutPrefix(text, mark)
		if program = strings.TrimLeft(rest, " \t\r\n"); is && program != "" && program != rest {
			return name, program, true
		}
	}
	return "", "", false
}

// write answers with a program: as a call of codeTool if that is offered, else as a block of code.
func write(req model.Request, language, program string) (model.Message, error) {
	if !slices.ContainsFunc(req.Tools, func(t model.Tool) bool { return t.Name == codeTool }) {
		return say("```" + language + "\n" + program + "\n```"), nil
	}
	args, err := json.Marshal(map[string]string{"language": language, "program": program})
	if err != nil {
		return model.Message{}, err
	}
	id := fmt.Sprintf("demo_%d", priorCalls(req)+1)
	return model.Message{Role: model.Assistant, Calls: []model.ToolCall{{ID: id, Name: codeTool, Args: args}}}, nil
}
