package builtin

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"strings"
	"sync"

	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/tool"
)

type editArgs struct {
	Path string `json:"path"`
	Old  string `json:"old"`
	New  string `json:"new"`
	All  bool   `json:"all"`
}

// maxEdit bounds a file that is edited, in bytes, before and after.
const maxEdit = 8 << 20

func fileEdit() tool.Tool {
	var locks [64]sync.Mutex // by a hash of the workspace; two workspaces that share one wait for each other
	seed := maphash.MakeSeed()
	return function[editArgs]{
		spec: tool.Spec{
			Name:        "file.edit",
			Description: "Replace a piece of text in a file of the workspace. It must occur exactly as given, and once only unless all is true.",
			Effect:      tool.Write,
			Machine:     true,
			Schema: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["path","old","new"],"properties":{
				"path":{"type":"string","minLength":1,"description":"relative to the workspace"},
				"old":{"type":"string","minLength":1,"description":"the text as it is, white space included"},
				"new":{"type":"string","description":"the text that takes its place"},
				"all":{"type":"boolean","description":"replace every occurrence"}}}`),
		},
		run: func(ctx context.Context, call tool.Call, args editArgs) (tool.Result, error) {
			// Edits of one workspace may run in parallel, of one turn or of a turn and its delegate; each must see the result of the others.
			lock := &locks[maphash.String(seed, cmp.Or(string(call.Workspace), string(call.Session)))%uint64(len(locks))]
			lock.Lock()
			defer lock.Unlock()
			return runEdit(ctx, call.Machine, args)
		},
	}
}

func runEdit(ctx context.Context, m machine.Machine, args editArgs) (tool.Result, error) {
	data, size, err := m.ReadFile(ctx, args.Path, 0, maxEdit)
	if err == nil && size > int64(len(data)) {
		err = fmt.Errorf("edit %s: %w: it has %d bytes, more than %d", args.Path, machine.ErrTooLarge, size, maxEdit)
	}
	if err != nil {
		return outcome(err)
	}
	edited, lines, err := edit(data, args.Old, args.New, args.All)
	if err != nil {
		result := tool.Failure("edit %s: %v", args.Path, err)
		result.Labels = fileLabel(args.Path) // how often a text occurs tells of the file
		return result, nil
	}
	if err := m.WriteFile(ctx, args.Path, edited, 0); err != nil {
		return outcome(err)
	}
	return tool.Result{
		Text:   fmt.Sprintf("replaced %d in %s, at %s", len(lines), args.Path, lineNumbers(lines)),
		Labels: fileLabel(args.Path),
	}, nil
}

// edit replaces old by new and returns the lines of the replacements.
func edit(data []byte, old, new string, all bool) ([]byte, []int, error) {
	if old == "" {
		return nil, nil, errors.New("the text to replace is empty")
	}
	if old == new {
		return nil, nil, errors.New("the old text and the new text are the same")
	}
	lines := occurrences(data, []byte(old))
	switch {
	case len(lines) == 0:
		return nil, nil, errors.New("the text does not occur; read the file and give it exactly as it is there")
	case len(lines) > 1 && !all:
		return nil, nil, fmt.Errorf("the text occurs %d times, at %s; include more of the text around it, or set all", len(lines), lineNumbers(lines))
	case len(data)+len(lines)*(len(new)-len(old)) > maxEdit:
		return nil, nil, fmt.Errorf("the file would have more than %d bytes", maxEdit)
	}
	return bytes.ReplaceAll(data, []byte(old), []byte(new)), lines, nil
}

// occurrences returns the line of each occurrence of old, without overlapping ones.
func occurrences(data, old []byte) []int {
	var lines []int
	line := 1
	for {
		i := bytes.Index(data, old)
		if i < 0 {
			return lines
		}
		line += bytes.Count(data[:i], []byte("\n"))
		lines = append(lines, line)
		line += bytes.Count(old, []byte("\n"))
		data = data[i+len(old):]
	}
}

// lineNumbers writes "line 3" or "lines 3, 9, 12 and 40 more".
func lineNumbers(lines []int) string {
	const shown = 10
	if len(lines) == 1 {
		return fmt.Sprintf("line %d", lines[0])
	}
	var parts []string
	for _, l := range lines[:min(shown, len(lines))] {
		parts = append(parts, fmt.Sprint(l))
	}
	text := "lines " + strings.Join(parts, ", ")
	if more := len(lines) - shown; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
