package author

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/BurntSushi/toml"

	"github.com/flynnhost/flynn/host/internal/jsonform"
	"github.com/flynnhost/flynn/host/policy"
)

// Case is one question to a policy with the expected answer.
type Case struct {
	File string
	Name string
	Kind string            // route or tool
	Data map[string]string // the policy's data
	Ask  Facts
	Args json.RawMessage // of the tool
	Want Want
}

// caseFile is a file of cases. Keys at its top are the defaults of its cases.
type caseFile struct {
	Kind  string            `toml:"kind"`
	Facts toml.Primitive    `toml:"facts"`
	Data  map[string]string `toml:"data"`
	Cases []struct {
		Name  string            `toml:"name"`
		Kind  string            `toml:"kind"`
		Facts toml.Primitive    `toml:"facts"`
		Data  map[string]string `toml:"data"`
		Args  map[string]any    `toml:"args"`
		JSON  *string           `toml:"args_json"`
		Want  Want              `toml:"want"`
	} `toml:"case"`
}

// LoadCases reads cases/*.toml of a policy's folder, in the order of their names.
func LoadCases(dir string, m Manifest) ([]Case, error) {
	files, err := filepath.Glob(filepath.Join(dir, casesDir, "*.toml"))
	if err != nil {
		return nil, err
	}
	slices.Sort(files)
	var all []Case
	for _, path := range files {
		cases, err := loadCaseFile(path, m)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, cases...)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no cases: a policy without cases is not tested", filepath.Join(dir, casesDir))
	}
	return all, nil
}

func loadCaseFile(path string, m Manifest) ([]Case, error) {
	var f caseFile
	meta, err := toml.DecodeFile(path, &f)
	if err != nil {
		return nil, err
	}
	common := defaultFacts()
	if err := overlay(meta, f.Facts, &common, "facts"); err != nil {
		return nil, err
	}
	var cases []Case
	seen := map[string]bool{}
	for i, in := range f.Cases {
		c := Case{File: filepath.Base(path), Name: in.Name, Kind: cmp.Or(in.Kind, f.Kind, m.Kinds[0]), Want: in.Want, Ask: common.Clone()}
		if c.Name == "" || seen[c.Name] {
			return nil, fmt.Errorf("case %d is named %q: give each case a name of its own", i+1, c.Name)
		}
		seen[c.Name] = true
		if err := overlay(meta, in.Facts, &c.Ask, "facts"); err != nil {
			return nil, fmt.Errorf("case %q: %w", c.Name, err)
		}
		c.Data = firstMap(in.Data, f.Data, m.Data)
		if c.Args, err = argsOf(in.Args, in.JSON); err != nil {
			return nil, fmt.Errorf("case %q: %w", c.Name, err)
		}
		if err := c.check(m); err != nil {
			return nil, fmt.Errorf("case %q: %w", c.Name, err)
		}
		cases = append(cases, c)
	}
	return cases, unknownKeys(meta, argsKey)
}

// argsKey is the table that may have any keys.
var argsKey = toml.Key{"case", "args"}

func (c *Case) check(m Manifest) error {
	if !slices.Contains(m.Kinds, c.Kind) {
		return fmt.Errorf("kind = %q, but the policy's kinds are %v", c.Kind, m.Kinds)
	}
	if err := c.Ask.Settle(); err != nil {
		return err
	}
	return c.Want.check(c.Kind)
}

// overlay decodes a table into facts that have values already. A missing table changes nothing.
func overlay(meta toml.MetaData, table toml.Primitive, into *Facts, what string) error {
	if err := meta.PrimitiveDecode(table, into); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// argsOf returns the arguments of a case: a table, or JSON for what a table cannot express, such as null and a duplicate key.
func argsOf(table map[string]any, text *string) (json.RawMessage, error) {
	switch {
	case text == nil:
		return encodeArgs(table)
	case table != nil:
		return nil, errors.New("write args or args_json, not both")
	case !json.Valid([]byte(*text)):
		return nil, errors.New("args_json is not JSON")
	}
	return json.RawMessage(*text), nil
}

// encodeArgs returns the canonical JSON of arguments, in which policies get them.
func encodeArgs(args map[string]any) (json.RawMessage, error) {
	if args == nil {
		args = map[string]any{}
	}
	text, err := jsonform.Marshal(args)
	if err != nil {
		return nil, err
	}
	canonical, _, err := jsonform.Canonical(text)
	return canonical, err
}

func firstMap(maps ...map[string]string) map[string]string {
	for _, m := range maps {
		if m != nil {
			return m
		}
	}
	return nil
}

// WriteCase writes one case as a file of cases that Test reads, with a comment on top.
func WriteCase(w io.Writer, c Case, comment string) error {
	one := map[string]any{"name": c.Name, "kind": c.Kind, "facts": c.Ask, "want": wantTable(c.Want)}
	if c.Data != nil {
		one["data"] = c.Data
	}
	if c.Kind == policy.KindTool && len(c.Args) > 0 {
		one["args_json"] = string(c.Args)
	}
	for _, line := range bytes.Split([]byte(comment), []byte("\n")) {
		if _, err := fmt.Fprintf(w, "# %s\n", policy.OneLine(line)); err != nil {
			return err
		}
	}
	return toml.NewEncoder(w).Encode(map[string]any{"case": []map[string]any{one}})
}

func wantTable(w Want) map[string]any {
	t := map[string]any{}
	for key, is := range map[string]bool{"abstain": w.Abstain, "drop": w.Drop, "unrestricted": w.Unrestricted, "deny": w.Deny, "ask": w.Ask} {
		if is {
			t[key] = true
		}
	}
	for key, text := range map[string]string{"agent": w.Agent, "error": w.Error} {
		if text != "" {
			t[key] = text
		}
	}
	if w.Sandbox != nil {
		t["sandbox"] = w.Sandbox
	}
	return t
}
