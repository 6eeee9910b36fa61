// Package cli runs an agent CLI, called the program here, as one tool call, cli.run: it passes on the prompt and returns the answer, the
// usage and the name of the program's session.
//
// Start with Config, which describes a program in plain data, Preset for the known programs, and Tool.Run for one run. The program runs on
// a machine like any tool. Its output is foreign: bounded parsers read it (output.go).
//
// The package does not route, keep conversations or make containers.
package cli

import (
	"crypto/rand"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/sandbox/machine"
)

// ToolName is the name of the one tool of an agent of kind cli.
const ToolName = "cli.run"

// Config describes a program.
type Config struct {
	Name string // for people
	// Command and Resume are argument vectors, for a new session and for an existing one; see placeholders. Without Resume each
	// message is a session of its own.
	Command, Resume []string
	// Prompt is how the program gets the message: PromptStdin or PromptArgument.
	Prompt string
	// SessionFrom is the source of the session's name: SessionGiven, SessionOutput, SessionFile, SessionLast or "" for none.
	SessionFrom string
	// SessionFile is the file for SessionFrom = SessionFile, with placeholders.
	SessionFile string
	// Output is the form of the answer: OutputText, OutputJSON, OutputJSONLines or OutputFile.
	Output string
	Fields Fields
	// Unknown are texts in the output or the errors of a run by which the program reports that it has no such session.
	Unknown []string
	// Env are variables of the program, with placeholders. They must not be secrets.
	Env map[string]string
	// StateDir is the program's home, with its state.
	StateDir string
	// AuthDir holds the owner's credentials for the program, read-only. AuthFiles are copied from it to StateDir before each
	// run, AuthSeed only if StateDir has none; both are paths relative to the two folders, see auth.go.
	AuthDir             string
	AuthFiles, AuthSeed []string
	// AuthDatabase is a SQLite database of AuthDir, also by its relative path. The first run copies it; later ones copy the rows of
	// AuthTable alone, so that the program's conversations in the database stay.
	AuthDatabase, AuthTable string
	// Workspace is the session's workspace on the machine, and Dir the working folder of the program; empty means Workspace.
	Workspace, Dir string
	// Named is the path on the machine of a folder that a call names; empty if a call may not name one. On the host it is the folder itself.
	Named string
	// OnHost runs the program on the host, in its user's own home.
	OnHost  bool
	Timeout time.Duration
	// Missing is why no run can succeed now, such as a key that is not set; empty otherwise.
	Missing string
}

// Values of Config.Prompt.
const (
	PromptStdin    = "stdin"
	PromptArgument = "argument"
)

// Values of Config.SessionFrom.
const (
	SessionGiven  = "given"  // by us: a random UUID
	SessionOutput = "output" // Fields.Session finds it
	SessionFile   = "file"
	SessionLast   = "last" // the program continues the last one of its home, which has no name
)

// Values of Config.Output.
const (
	OutputText      = "text"
	OutputJSON      = "json"
	OutputJSONLines = "json-lines"
	OutputFile      = "response_file"
)

// Fields locate values in an output of JSON. Each is a list of selectors, see parseSelector; the last match in the order of the output
// counts.
type Fields struct {
	Delta   []string // pieces of text as they come
	Answer  []string // the whole answer; without it, what Delta found joined
	Error   []string // what went wrong
	Session []string
	// Input, Output, CacheRead and CacheWrite count tokens. InputHasCache is true if Input includes cached tokens.
	Input, Output, CacheRead, CacheWrite []string
	InputHasCache                        bool
	Cost                                 []string // US dollars
}

// sessionName matches the names that a program may give a session: the name becomes an argument of the next run.
var sessionName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$`) })

// NewSession returns a random UUID (RFC 9562, version 4), the form of names that most programs require.
func NewSession() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails, by its contract
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// variableName matches names of environment variables.
var variableName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`) })

// Check returns an error for a Config that cannot be run.
func (c Config) Check() error {
	switch {
	case len(c.Command) == 0 || c.Command[0] == "":
		return errors.New(`command is missing: write command = ["PROGRAM", "ARGUMENT"], or preset = "claude"`)
	case !slices.Contains([]string{PromptStdin, PromptArgument}, c.Prompt):
		return fmt.Errorf("prompt %q is none of stdin, argument", c.Prompt)
	case c.Prompt == PromptArgument && !mentions(c.Command, "{prompt}"):
		return errors.New(`prompt = "argument" needs {prompt} in command`)
	case c.Prompt == PromptStdin && (mentions(c.Command, "{prompt}") || mentions(c.Resume, "{prompt}")):
		return errors.New(`{prompt} in command or resume needs prompt = "argument"`)
	case c.Prompt == PromptArgument && len(c.Resume) > 0 && !mentions(c.Resume, "{prompt}"):
		return errors.New(`prompt = "argument" needs {prompt} in resume`)
	case len(c.Resume) > 0 && c.SessionFrom == "":
		return errors.New("resume needs session_from")
	case c.SessionFrom == SessionLast && len(c.Resume) == 0:
		return errors.New(`session_from = "last" needs resume`)
	case c.SessionFrom != "" && c.SessionFrom != SessionLast && !mentions(c.Resume, "{session}"):
		return errors.New("session_from needs resume with {session} in it")
	case c.SessionFrom == SessionGiven && !mentions(c.Command, "{session}"):
		return errors.New(`session_from = "given" needs {session} in command`)
	case c.SessionFrom != SessionGiven && mentions(c.Command, "{session}"):
		return errors.New(`{session} in command needs session_from = "given"`)
	case c.SessionFrom == SessionOutput && len(c.Fields.Session) == 0:
		return errors.New(`session_from = "output" needs fields.session`)
	case c.SessionFrom == SessionFile && c.SessionFile == "":
		return errors.New(`session_from = "file" needs session_file`)
	case c.Output == OutputFile && !mentions(c.Command, "{response_file}"):
		return errors.New(`output = "response_file" needs {response_file} in command`)
	case c.Timeout <= 0:
		return errors.New("a run needs a time limit")
	case !c.OnHost && !path.IsAbs(c.StateDir) || !c.OnHost && path.Clean(c.StateDir) != c.StateDir:
		return fmt.Errorf("state_dir %q is not a clean absolute path inside", c.StateDir)
	}
	for name, value := range c.Env {
		if !variableName().MatchString(name) || strings.ContainsRune(value, 0) {
			return fmt.Errorf("env has a malformed variable %.64q", name)
		}
		if looksSecret(value) {
			return fmt.Errorf("env.%s looks like a secret, which the program could reveal: name it with api_key_env, and the proxy adds it", name)
		}
	}
	for _, name := range slices.Concat(c.AuthFiles, c.AuthSeed) {
		if !relative(name) {
			return fmt.Errorf("%q of auth_files or auth_seed is not a path below the folder of credentials", name)
		}
	}
	if c.AuthDatabase != "" && !relative(c.AuthDatabase) {
		return fmt.Errorf("auth_database %q is not a path below the folder of credentials", c.AuthDatabase)
	}
	if (c.AuthDatabase == "") != (c.AuthTable == "") || c.AuthTable != "" && !variableName().MatchString(c.AuthTable) {
		return errors.New("auth_database and auth_table need each other: a file and the table in it with the login")
	}
	return errors.Join(checkWords(c.Command), checkWords(c.Resume), c.Fields.check(), c.checkFields())
}

// checkFields makes sure that an answer can be found.
func (c Config) checkFields() error {
	if (c.Output == OutputJSON || c.Output == OutputJSONLines) && len(c.Fields.Answer)+len(c.Fields.Delta) == 0 {
		return fmt.Errorf("output = %q needs fields.answer or fields.delta", c.Output)
	}
	if !slices.Contains([]string{OutputText, OutputJSON, OutputJSONLines, OutputFile}, c.Output) {
		return fmt.Errorf("output %q is none of text, json, json-lines, response_file", c.Output)
	}
	return nil
}

// looksSecret recognises keys of well-known services by their beginning. Other values may be secrets, too.
func looksSecret(value string) bool {
	for _, prefix := range []string{"sk-", "sk_", "ghp_", "github_pat_", "xox", "AIza", "ya29.", "glpat-", "AKIA"} {
		if strings.HasPrefix(value, prefix) && len(value) >= len(prefix)+16 {
			return true
		}
	}
	return false
}

// relative reports whether a path is relative and stays below its folder.
func relative(name string) bool {
	return name != "" && !path.IsAbs(name) && path.Clean(name) == name && name != ".." && !strings.HasPrefix(name, "../") &&
		!strings.ContainsAny(name, "\x00\n")
}

func mentions(words []string, placeholder string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(w, placeholder) })
}

// Args are the arguments of cli.run.
type Args struct {
	Prompt string `json:"prompt"`
	// Session is the program's own name of the session; empty if it is not known yet.
	Session string `json:"session,omitempty"`
	Resume  bool   `json:"resume,omitempty"`
	// Folder is the working folder on the host; empty is the workspace or the agent's own.
	Folder string `json:"folder,omitempty"`
}

// Record is the stored record of a run. A field is never renamed: old turns are read for ever.
type Record struct {
	// Session is the name with which the next message resumes; empty if it cannot.
	Session string `json:"session,omitempty"`
	// Unknown means that the program had no session of that name, and did nothing.
	Unknown bool        `json:"unknown,omitempty"`
	Usage   model.Usage `json:"usage"`
	// Run is how the program ended, without its output.
	Run machine.Result `json:"run"`
}
