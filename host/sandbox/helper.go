package sandbox

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"sync"

	"github.com/flynnhost/flynn/host/internal/stopwatch"
	"github.com/flynnhost/flynn/host/sandbox/bridge"
	"github.com/flynnhost/flynn/host/sandbox/spec"
)

// Helpers answers the calls that a running program makes with its module flynn, one call at a time. The context ends with the program.
type Helpers func(ctx context.Context, call HelperCall) HelperAnswer

// HelperCall is a call by a program.
type HelperCall struct {
	Tool string
	Args json.RawMessage // as sent by the program, not validated
	// Pause stops the clock of the program's time limit, for example while a person decides, until resume is called.
	Pause func() (resume func())
}

// HelperAnswer is the answer to a HelperCall.
type HelperAnswer struct {
	Text string
	// IsError makes the call raise an exception with Text.
	IsError bool
	// Files are placed in the workspace, and their paths are appended to the text.
	Files []HelperFile
}

// HelperFile is a file of an answer.
type HelperFile struct {
	Name string // a plain name, without folders
	Data []byte
}

const (
	// maxHelperArgs bounds the arguments of a call, maxHelperText the text of an answer, and maxHelperFiles all files that answers place in
	// the workspace of one run, in bytes.
	maxHelperArgs  = 1 << 20
	maxHelperText  = 1 << 20
	maxHelperFiles = 16 << 20
	// helperFolder is the folder for files of answers, with a subfolder for each call.
	helperFolder = "in/calls"
)

//go:embed helper/flynn.py
var pythonModule []byte

//go:embed helper/flynn.js
var nodeModule []byte

// helperModule returns the file that makes `import flynn` work.
func helperModule(language string) (name string, content []byte) {
	switch language {
	case "python":
		return "flynn.py", pythonModule
	case "node":
		return "node_modules/flynn/index.js", nodeModule
	}
	return "", nil
}

// helping holds the helpers of one run, from the offer until the run has ended.
type helping struct {
	ctx    context.Context
	cancel context.CancelFunc
	answer Helpers
	clock  *stopwatch.Watch
	put    func(ctx context.Context, name string, data []byte) error

	answering chan struct{} // holds a token while a call is answered; guards the next two fields
	n         int           // calls so far
	room      int           // bytes of files that answers may still have

	mu      sync.Mutex
	over    bool
	running sync.WaitGroup // running calls; Add is called under mu
}

func newHelping(ctx context.Context, answer Helpers, clock *stopwatch.Watch, put func(context.Context, string, []byte) error) *helping {
	h := &helping{answer: answer, clock: clock, put: put, answering: make(chan struct{}, 1), room: maxHelperFiles}
	h.ctx, h.cancel = context.WithCancel(ctx)
	return h
}

// end cancels the running calls and waits for them.
func (h *helping) end() {
	h.mu.Lock()
	h.over = true
	h.mu.Unlock()
	h.cancel()
	h.running.Wait()
}

// enter counts a call, unless the run has ended.
func (h *helping) enter() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		return false
	}
	h.running.Add(1)
	return true
}

var errNoHelpers = errors.New("this program has no helper functions")

// serve answers one call in the format of the modules.
func (h *helping) serve(ctx context.Context, tool string, args []byte) ([]byte, error) {
	if h == nil || !h.enter() {
		return nil, errNoHelpers
	}
	defer h.running.Done()
	ctx, cancel := context.WithCancel(ctx) // ends with the connection and with the run
	defer cancel()
	defer context.AfterFunc(h.ctx, cancel)()
	select {
	case h.answering <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-h.answering }()
	if len(args) > maxHelperArgs {
		return nil, fmt.Errorf("arguments of %d bytes are more than %d", len(args), maxHelperArgs)
	}
	a := h.answer(ctx, HelperCall{Tool: tool, Args: args, Pause: h.clock.Pause})
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	h.n++
	for _, f := range a.Files {
		a.Text += h.file(ctx, f)
	}
	if len(a.Text) > maxHelperText {
		return nil, fmt.Errorf("the answer of %d bytes is more than %d", len(a.Text), maxHelperText)
	}
	return json.Marshal(helperReply{Text: a.Text, Error: a.IsError})
}

// helperReply is the format that the modules parse.
type helperReply struct {
	Text  string `json:"text"`
	Error bool   `json:"error,omitempty"`
}

// file places a file in the workspace and returns a line that names it.
func (h *helping) file(ctx context.Context, f HelperFile) string {
	name := path.Join(helperFolder, fmt.Sprint(h.n), path.Base(path.Clean("/"+f.Name)))
	if h.room -= len(f.Data); h.room < 0 {
		return fmt.Sprintf("\n[file %s of %d bytes was left out: a program gets %d bytes of files]", path.Base(name), len(f.Data), maxHelperFiles)
	}
	if err := h.put(ctx, name, f.Data); err != nil {
		return fmt.Sprintf("\n[file %s could not be written to the workspace]", path.Base(name))
	}
	return "\n[file: " + name + "]"
}

// helperBridge returns the command that the modules call. The container may be made for a pool, before its run is known, so of is called
// for each call.
func helperBridge(of func() *helping) (bridge.Command, error) {
	rules, err := bridge.Compile([]bridge.Form{{Args: []bridge.Arg{{Pattern: `[A-Za-z0-9_.-]{1,128}`}}}})
	if err != nil {
		return bridge.Command{}, err
	}
	return bridge.Command{
		Name: spec.HelperCommand, Rules: rules, Stdin: true,
		Run: func(ctx context.Context, call bridge.Accepted, stdin []byte, out bridge.Output) (int, error) {
			reply, err := of().serve(ctx, call.Argv[0], stdin)
			if err != nil {
				return 0, err
			}
			out(false, reply)
			return 0, nil
		},
	}, nil
}
