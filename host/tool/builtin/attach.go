package builtin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/tool"
)

// Keep puts a file into the media store, on a sender's account. The model gets an error that wraps ErrNotKept.
type Keep func(ctx context.Context, sender message.SenderKey, name string, body io.Reader) (message.Attachment, error)

// ErrNotKept means that the media store refuses a file.
var ErrNotKept = errors.New("the file cannot be attached")

type attachArgs struct {
	Path string `json:"path"`
	Name string `json:"name"`
}

// maxAttach bounds an attached file, in bytes; a machine reads no more at once.
const maxAttach = 64 << 20

func messageAttach(keep Keep) tool.Tool {
	return function[attachArgs]{
		spec: tool.Spec{
			Name: "message.attach",
			Description: "Attach a file of the workspace to your answer, as it is now. It is sent with the answer that ends this turn; " +
				"if the conversation takes no files, its name is shown instead.",
			Effect:  tool.Write,
			Machine: true,
			Schema: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["path"],"properties":{
				"path":{"type":"string","minLength":1,"description":"relative to the workspace"},
				"name":{"type":"string","minLength":1,"maxLength":200,"description":"name for the recipient; the file's own if left out"}}}`),
		},
		run: func(ctx context.Context, call tool.Call, args attachArgs) (tool.Result, error) {
			data, size, err := call.Machine.ReadFile(ctx, args.Path, 0, maxAttach)
			switch {
			case err != nil:
				return outcome(err)
			case size > int64(len(data)):
				return tool.Failure("%s has %d bytes; at most %d can be attached", args.Path, size, maxAttach), nil
			}
			name := args.Name
			if name == "" {
				name = path.Base(args.Path)
			}
			a, err := keep(ctx, call.Sender, name, bytes.NewReader(data))
			if errors.Is(err, ErrNotKept) {
				return tool.Failure("%v", err), nil
			}
			if err != nil {
				return tool.Result{}, fmt.Errorf("keep a file: %w", err)
			}
			return tool.Result{
				Text:        fmt.Sprintf("%s (%s, %d bytes) goes with your answer", a.Name, a.Type, a.Size),
				Labels:      fileLabel(args.Path),
				Attachments: []message.Attachment{a},
			}, nil
		},
	}
}
