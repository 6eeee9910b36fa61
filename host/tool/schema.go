package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// maxSchema bounds a tool's schema, in bytes.
const maxSchema = 64 << 10

// noLoader refuses every reference that leaves the schema: a schema may come from a plugin,
// and following its $ref would read files or call servers on its behalf.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("schema refers to %s; a tool's schema must stand alone", url)
}

// compileSchema compiles the JSON Schema of a tool's arguments; an empty one takes any object.
func compileSchema(raw json.RawMessage) (*jsonschema.Schema, error) {
	if len(raw) == 0 {
		raw = json.RawMessage(`{"type":"object"}`)
	}
	if len(raw) > maxSchema {
		return nil, fmt.Errorf("schema has %d bytes, more than %d", len(raw), maxSchema)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	const name = "flynn:tool"
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	if err := c.AddResource(name, doc); err != nil {
		return nil, err
	}
	return c.Compile(name)
}

// maxComplaint bounds what a model is told about arguments that do not fit, in bytes.
const maxComplaint = 2 << 10

// checkSchema tells how args differ from the schema, one difference a line.
func checkSchema(schema *jsonschema.Schema, args any) error {
	err := schema.Validate(args)
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
	return errors.New(cutText(strings.TrimSuffix(b.String(), "\n"), maxComplaint))
}
