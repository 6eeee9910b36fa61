package tool

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/flynnhost/flynn/host/internal/schema"
	"github.com/flynnhost/flynn/sdk/cut"
)

// compileSchema compiles the JSON Schema of a tool's arguments; an empty one accepts any object.
func compileSchema(raw json.RawMessage) (*schema.Schema, error) {
	if len(raw) == 0 {
		raw = json.RawMessage(`{"type":"object"}`)
	}
	return schema.Compile(raw, schema.Arguments)
}

// maxComplaint bounds the description of wrong arguments for the model, in bytes.
const maxComplaint = 2 << 10

// checkSchema returns an error with one line for each difference between args and the schema.
func checkSchema(s *schema.Schema, args any) error {
	err := s.Validate(args)
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return err
	}
	out := invalid.BasicOutput()
	var b strings.Builder
	for _, unit := range append(out.Errors, *out) {
		if unit.Error == nil || b.Len() > maxComplaint {
			continue
		}
		where := strings.TrimPrefix(unit.InstanceLocation, "/")
		if where == "" {
			where = "arguments"
		}
		fmt.Fprintf(&b, "%s: %s\n", where, unit.Error)
	}
	return errors.New(cut.Head(strings.TrimSuffix(b.String(), "\n"), maxComplaint))
}
