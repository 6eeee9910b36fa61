// Package code implements the tool code.run, which runs one program in a new container that is removed afterwards.
//
// Start with New and program.Run. The caller configures the container, and package sandbox runs it. A call has been admitted before
// (tool.Enforcer), and so has every tool call that the program makes through its module flynn. Nothing here runs on the host.
package code

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/internal/event"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/quota"
	"github.com/flynnhost/flynn/host/sandbox/spec"
	"github.com/flynnhost/flynn/host/tool"
	"github.com/flynnhost/flynn/host/tool/builtin"
)

// Name is the name of the tool.
const Name = "code.run"

// Sandboxes runs programs; *fleet.Fleet implements it.
type Sandboxes interface {
	RunCode(ctx context.Context, c sandbox.Code) (sandbox.CodeResult, error)
}

// Attachments provides the files that people sent.
type Attachments interface {
	// Attached returns the files of a session's conversation by name; left counts those that are too many or too large.
	Attached(ctx context.Context, session message.SessionKey) (files map[string][]byte, left int, err error)
}

// Media stores the files that go with answers.
type Media interface {
	// Keep stores a file that a program made. An error that wraps builtin.ErrNotKept is shown to the model.
	Keep(ctx context.Context, sender message.SenderKey, name string, body io.Reader) (message.Attachment, error)
	// Open opens a file by its digest.
	Open(digest string) (io.ReadCloser, error)
}

// Config configures the tool. To describe a call, Languages suffices; to run one, everything but Events and Log is required.
type Config struct {
	// Languages are the languages of programs, python and javascript, each with its container.
	Languages   map[string]spec.Spec
	Sandboxes   Sandboxes
	Attachments Attachments
	Media       Media
	Events      *event.Bus // receives Violated; may be nil
	Log         *slog.Logger
}

type program struct{ Config }

var (
	_ tool.Tool  = program{}
	_ tool.Pager = program{}
)

// New returns the tool.
func New(c Config) tool.Tool {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return program{c}
}

// Bounds of a call, in bytes and files. Package sandbox bounds the other files of a program.
const (
	maxProgram = 256 << 10
	maxFile    = 256 << 10
	maxFiles   = 16
	// maxStream bounds the part of each stream that the model is shown.
	maxStream = 24 << 10
)

// Spec implements tool.Tool. An approval is valid for the present contents of the containers.
func (p program) Spec() tool.Spec {
	digest, err := json.Marshal(p.Languages)
	if err != nil {
		panic("code: a specification is plain data: " + err.Error())
	}
	return tool.Spec{
		Name: Name,
		Description: "Run one program to its end in a fresh container and get its output. Nothing stays for the next program. " +
			"Files that people sent are in the folder in; what the program writes to the folder out goes with your answer.",
		Effect: tool.Execute,
		Own:    true,
		Digest: string(digest),
		Schema: p.schema(),
	}
}

func (p program) schema() json.RawMessage {
	languages, err := json.Marshal(slices.Sorted(maps.Keys(p.Languages)))
	if err != nil {
		panic("code: names of languages are plain data: " + err.Error())
	}
	return fmt.Appendf(nil, `{"type":"object","additionalProperties":false,"required":["language","program"],"properties":{
		"language":{"enum":%s},
		"program":{"type":"string","minLength":1,"maxLength":%d},
		"files":{"type":"object","maxProperties":%d,"additionalProperties":{"type":"string","maxLength":%d},
			"description":"text files to put beside the program, by relative path"}}}`, languages, maxProgram, maxFiles, maxFile)
}

// Rest implements tool.Pager.
func (program) Rest() string { return "Let the program print less, or write it to a file in out." }

type arguments struct {
	Language string            `json:"language"`
	Program  string            `json:"program"`
	Files    map[string]string `json:"files"`
}

// Run implements tool.Tool.
func (p program) Run(ctx context.Context, call tool.Call) (tool.Result, error) {
	var args arguments
	if err := json.Unmarshal(call.Args, &args); err != nil {
		return tool.Result{Text: fmt.Sprintf("the arguments do not fit: %v", err), IsError: true}, nil
	}
	spec, ok := p.Languages[args.Language]
	if !ok { // unreachable: the schema excludes it
		return tool.Result{Text: fmt.Sprintf("programs in %q cannot be run", args.Language), IsError: true}, nil
	}
	files, left, err := p.files(ctx, call.Session, args)
	if err != nil {
		return tool.Result{}, err
	}
	r := run{program: p, call: call, spec: spec, left: left}
	c := sandbox.Code{
		Spec: spec, Session: call.Session.Parse().Workspace(), Language: interpreter(args.Language), Program: []byte(args.Program), Files: files, MaxOutput: maxStream,
		Progress: func(_ machine.Stream, b []byte) { call.Progress(b) },
	}
	if call.Helper != nil && spec.Helpers {
		c.Helpers = r.help
	}
	result, err := p.Sandboxes.RunCode(ctx, c)
	var full quota.Refusal
	if errors.As(err, &full) {
		return tool.Result{Text: full.Error(), IsError: true, Labels: r.labels}, nil
	}
	if err != nil {
		return tool.Result{Labels: r.labels}, err
	}
	return r.told(ctx, result), nil
}

// interpreter returns the name that package sandbox uses for a language.
func interpreter(language string) string {
	if language == "javascript" {
		return "node"
	}
	return language
}

// inFolder is the folder in which programs find the files that people sent.
const inFolder = "in"

// files returns the files of the call and of the conversation. The model's own files may not lie in the folder of the host's.
func (p program) files(ctx context.Context, session message.SessionKey, args arguments) (files map[string][]byte, left int, err error) {
	attached, left, err := p.Attachments.Attached(ctx, session)
	if err != nil {
		return nil, 0, fmt.Errorf("read the attachments: %w", err)
	}
	files = map[string][]byte{}
	for name, content := range attached {
		files[path.Join(inFolder, name)] = content
	}
	for name, content := range args.Files {
		files[name] = []byte(content)
	}
	return files, left, nil
}

// run is one run of a program.
type run struct {
	program
	call     tool.Call
	spec     spec.Spec
	left     int // attachments that were left out
	helped   int
	labels   []string
	attached []message.Attachment
}

// help answers a tool call of the program. The files of a result are passed on as files, and also attached to the answer if the tool
// asks for it.
func (r *run) help(ctx context.Context, c sandbox.HelperCall) sandbox.HelperAnswer {
	r.helped++
	result := r.call.Helper(ctx, c.Tool, c.Args, c.Pause)
	r.labels = tool.JoinLabels(r.labels, result.Labels)
	r.attached = append(r.attached, result.Attachments...)
	a := sandbox.HelperAnswer{Text: result.Text, IsError: result.IsError}
	for _, m := range result.Media {
		data, err := r.media(m.SHA256)
		if err != nil {
			r.Log.Error("cannot give a file of a result to a program", "tool", c.Tool, "error", err)
			a.Text += fmt.Sprintf("\n[file %.100q is not available]", m.Name)
			continue
		}
		a.Files = append(a.Files, sandbox.HelperFile{Name: fileName(m.Name), Data: data})
	}
	return a
}

// maxMedia bounds a file that a program gets, in bytes.
const maxMedia = 16 << 20

func (r *run) media(digest string) ([]byte, error) {
	body, err := r.Media.Open(digest)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	data, err := io.ReadAll(io.LimitReader(body, maxMedia+1))
	if err == nil && len(data) > maxMedia {
		err = fmt.Errorf("it has more than %d bytes", maxMedia)
	}
	return data, err
}

// fileName makes a valid file name of a foreign name.
func fileName(name string) string {
	clean := strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("._-", c) {
			return c
		}
		return '_'
	}, name)
	if clean = strings.TrimLeft(clean, ".-"); clean == "" {
		return "file"
	}
	return clean[:min(len(clean), 100)]
}

// keep stores the files that the program made and describes each outcome in a line.
func (r *run) keep(ctx context.Context, files map[string][]byte) (lines []string) {
	names := slices.Sorted(maps.Keys(files))
	for i, name := range names {
		if len(r.attached) >= message.MaxAttachments {
			return append(lines, fmt.Sprintf("%d more files do not go with your answer, which can have %d: %s", len(names)-i, message.MaxAttachments, some(names[i:])))
		}
		a, err := r.Media.Keep(ctx, r.call.Sender, path.Base(name), bytes.NewReader(files[name]))
		switch {
		case errors.Is(err, builtin.ErrNotKept):
			lines = append(lines, fmt.Sprintf("%s does not go with your answer: %v", name, err))
		case err != nil:
			r.Log.Error("cannot keep a file of a program", "error", err)
			lines = append(lines, name+" does not go with your answer: the host could not keep it")
		default:
			r.attached = append(r.attached, a)
			lines = append(lines, fmt.Sprintf("out/%s (%s, %d bytes) goes with your answer", name, a.Type, a.Size))
		}
	}
	return lines
}

// maxNamed bounds how many of the files left out together are named.
const maxNamed = 5

// some joins the first names of a list.
func some(names []string) string {
	if len(names) <= maxNamed {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:maxNamed], ", ") + " and so on"
}
