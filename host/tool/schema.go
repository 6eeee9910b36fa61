package tool

import (
	"cmp"
	"encoding/json"
	"errors"
	"strings"

	"github.com/flynnhost/flynn/host/internal/schema"
)

// compileSchema compiles the JSON Schema of a tool's arguments; an empty one takes any object.
func compileSchema(raw json.RawMessage) (*schema.Schema, error) {
	if len(raw) == 0 {
		raw = json.RawMessage(`{"type":"object"}`)
	}
	return schema.Compile(raw, schema.Arguments)
}

// maxComplaint bounds what a model is told about arguments that do not fit, in bytes.
const maxComplaint = 2 << 10

// checkSchema says how args differ from the schema, one difference a line.
func checkSchema(s *schema.Schema, args any) error {
	var lines []string
	for _, d := range s.Differences(args) {
		where := cmp.Or(strings.Join(d.Path, "/"), "arguments")
		lines = append(lines, where+": "+d.Problem)
	}
	if len(lines) == 0 {
		return nil
	}
	return errors.New(cutText(strings.Join(lines, "\n"), maxComplaint))
}
