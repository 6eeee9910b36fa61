package plugintest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
)

// UpdateSchemaEnv makes CheckSchema write the file instead of comparing it.
const UpdateSchemaEnv = "FLYNN_UPDATE_SCHEMA"

// CheckSchema fails unless a file, the config.schema of plugin.toml, is the JSON schema of the struct into which the plugin decodes its
// settings: its keys and their types, and no other keys. The host checks an operator's settings against that file before it starts the
// plugin. The plugin itself has to check what a schema cannot express, such as that a key is required in one mode only. Run the test with
// FLYNN_UPDATE_SCHEMA=1 to write the file. Fields may have the tags doc, default and enum, which the console's form shows.
func CheckSchema(t testing.TB, file string, settings any) {
	t.Helper()
	s, err := schemaOf(reflect.TypeOf(settings))
	if err != nil {
		t.Fatalf("make the schema of the settings: %v", err)
	}
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	want, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	want = append(want, '\n')
	if os.Getenv(UpdateSchemaEnv) != "" {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not the schema of the settings: run this test with %s=1, then build the plugin again", file, UpdateSchemaEnv)
	}
}

// schemaOf returns the schema of the JSON that encoding/json accepts for a type.
func schemaOf(t reflect.Type) (map[string]any, error) {
	switch t.Kind() {
	case reflect.Pointer:
		return schemaOf(t.Elem())
	case reflect.String:
		return map[string]any{"type": "string"}, nil
	case reflect.Bool:
		return map[string]any{"type": "boolean"}, nil
	case reflect.Int, reflect.Int32, reflect.Int64:
		return map[string]any{"type": "integer"}, nil
	case reflect.Float64:
		return map[string]any{"type": "number"}, nil
	case reflect.Slice:
		items, err := schemaOf(t.Elem())
		return map[string]any{"type": "array", "items": items}, err
	case reflect.Map:
		values, err := schemaOf(t.Elem())
		return map[string]any{"type": "object", "additionalProperties": values}, err
	case reflect.Struct:
		return schemaOfStruct(t)
	}
	return nil, fmt.Errorf("settings of type %s are not supported", t)
}

// describe adds what the tags of a field say for those who fill in a form: doc, a sentence or two; default, the value of a missing key; and
// enum, the only values, with commas between them.
func describe(s map[string]any, tag reflect.StructTag) error {
	if doc := tag.Get("doc"); doc != "" {
		s["description"] = doc
	}
	if text, ok := tag.Lookup("default"); ok {
		if s["type"] == "string" {
			s["default"] = text
		} else {
			var value any
			if err := json.Unmarshal([]byte(text), &value); err != nil {
				return fmt.Errorf("default %q: %w", text, err)
			}
			s["default"] = value
		}
	}
	if enum := tag.Get("enum"); enum != "" {
		s["enum"] = strings.Split(enum, ",")
	}
	return nil
}

func schemaOfStruct(t reflect.Type) (map[string]any, error) {
	properties := map[string]any{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case !f.IsExported() || name == "-":
			continue
		case name == "":
			return nil, fmt.Errorf("the field %s has no json tag", f.Name)
		}
		s, err := schemaOf(f.Type)
		if err != nil {
			return nil, err
		}
		if err := describe(s, f.Tag); err != nil {
			return nil, fmt.Errorf("the tags of %s: %w", f.Name, err)
		}
		properties[name] = s
	}
	return map[string]any{"type": "object", "additionalProperties": false, "properties": properties}, nil
}
