package builtin

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/flynnhost/flynn/host/tool"
)

// fileLabel is the provenance label of a file.
func fileLabel(name string) []string { return []string{"file:" + path.Clean(name)} }

type writeArgs struct {
	Path    string `json:"path"`
	Content string `json:"content"`
}

func fileWrite() tool.Tool {
	return function[writeArgs]{
		spec: tool.Spec{
			Name:        "file.write",
			Description: "Write a file of the workspace, replacing what it held. Missing folders are made.",
			Effect:      tool.Write,
			Machine:     true,
			Schema: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["path","content"],"properties":{
				"path":{"type":"string","minLength":1,"description":"relative to the workspace"},
				"content":{"type":"string"}}}`),
		},
		run: func(ctx context.Context, call tool.Call, args writeArgs) (tool.Result, error) {
			if err := call.Machine.WriteFile(ctx, args.Path, []byte(args.Content), 0); err != nil {
				return outcome(err)
			}
			return tool.Result{
				Text:   fmt.Sprintf("wrote %d bytes to %s", len(args.Content), args.Path),
				Labels: fileLabel(args.Path),
			}, nil
		},
	}
}

type listArgs struct {
	Path string `json:"path"`
}

// maxEntries bounds the listed entries of a folder.
const maxEntries = 1000

func fileList() tool.Tool {
	return function[listArgs]{
		spec: tool.Spec{
			Name:        "file.list",
			Description: "List a folder of the workspace: one entry a line, folders with a slash, files with their size.",
			Effect:      tool.Read,
			Machine:     true,
			Schema: json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{
				"path":{"type":"string","description":"relative to the workspace, which it is if left out"}}}`),
		},
		rest: "List a folder further down.",
		run:  runList,
	}
}

func runList(ctx context.Context, call tool.Call, args listArgs) (tool.Result, error) {
	list, err := call.Machine.List(ctx, args.Path)
	if err != nil {
		return outcome(err)
	}
	var b strings.Builder
	for i, f := range list {
		if i == maxEntries {
			fmt.Fprintf(&b, "[%d more]\n", len(list)-i)
			break
		}
		switch {
		case f.Mode.IsDir():
			fmt.Fprintf(&b, "%s/\n", f.Name)
		case f.Mode&fs.ModeSymlink != 0:
			fmt.Fprintf(&b, "%s  link\n", f.Name)
		case !f.Mode.IsRegular():
			fmt.Fprintf(&b, "%s  special file\n", f.Name)
		default:
			fmt.Fprintf(&b, "%s  %d bytes\n", f.Name, f.Size)
		}
	}
	if len(list) == 0 {
		b.WriteString("the folder is empty\n")
	}
	return tool.Result{Text: b.String(), Labels: fileLabel(args.Path)}, nil
}
