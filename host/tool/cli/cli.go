// Package cli runs a foreign agent's command-line program as one tool call, cli.run: the prompt goes in, and its answer, its usage and
// the name of its session come out.
//
// Start with Config, which says in plain data how such a program is spoken to, Preset for the ones that are known, and tool.Run
// for the life of one run. The program is given a machine like any tool and does not leave it; what it says is foreign: read by
// bounded parsers (output.go) and never believed about anything but itself.
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

// Config says how a program is run.
type Config struct {
	Name string // for people
	// Command and Resume are argument vectors, for a new session and for one that goes on; see placeholders. Without Resume each
	// message is a session of its own.
	Command, Resume []string
	// Prompt is where the message goes: PromptStdin or PromptArgument.
	Prompt string
	// SessionFrom says where the name of the session comes from: SessionGiven, SessionOutput, SessionFile, SessionLast or "", which is nowhere.
	SessionFrom string
	// SessionFile is where SessionFile finds the name, with placeholders.
	SessionFile string
	// Output is how the answer comes: OutputText, OutputJSON, OutputJSONLines or OutputFile.
	Output string
	Fields Fields
	// Unknown are texts in the output or the errors of a run by which the program says that it has no such session.
	Unknown []string
	// Env are variables of the program, with placeholders. They are no secrets.
	Env map[string]string
	// StateDir is the program's home, where it keeps what it remembers.
	StateDir string
	// AuthDir holds the owner's credentials for the program, read-only. AuthFiles are copied from it to the state before each
	// run, and AuthSeed only where the state has none; both are paths relative to the two folders, see auth.go.
	AuthDir             string
	AuthFiles, AuthSeed []string
	// AuthDatabase is a SQLite database of AuthDir, also by its relative path. The first run copies it; later ones copy the rows of
	// AuthTable alone, so that the conversations that the program keeps beside its login stay.
	AuthDatabase, AuthTable string
	// Workspace is the session's, by its path on the machine, and Dir where the program works: the same if it is empty.
	Workspace, Dir string
	// Named is where a folder stands that a call names; empty where none may be named. On the host that is the folder itself.
	Named string
	// OnHost leaves the program its user's own home: it runs on the host, which nobody wants.
	OnHost  bool
	Timeout time.Duration
	// Missing is why no run can succeed as things are, such as a key that is not set; empty if nothing is.
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
	SessionLast   = "last" // the program goes on with the last one of its home by itself, and has no name for it
)

// Values of Config.Output.
const (
	OutputText      = "text"
	OutputJSON      = "json"
	OutputJSONLines = "json-lines"
	OutputFile      = "response_file"
)

// Fields say where in an output of JSON things are; each is a list of selectors of which the last that matches in the order of the output
// counts. See parseSelector.
type Fields struct {
	Delta   []string // pieces of text as they come
	Answer  []string // the whole answer; without it, what Delta found joined
	Error   []string // what went wrong
	Session []string
	// Input, Output, CacheRead and CacheWrite count tokens. InputHasCache is true where Input has those in it that were cached.
	Input, Output, CacheRead, CacheWrite []string
	InputHasCache                        bool
	Cost                                 []string // US dollars
}

// sessionName is what a program may call a session: it becomes an argument of the next run.
var sessionName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$`) })

// NewSession names a session as most programs want it: a random UUID (RFC 9562, version 4).
func NewSession() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails, by its contract
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// variableName is what an environment variable may be called.
var variableName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`) })

// Check refuses what could not be run.
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
		return errors.New("resume needs session_from: who names the session")
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
		return fmt.Errorf("state_dir %q is no clean absolute path inside", c.StateDir)
	}
	for name, value := range c.Env {
		if !variableName().MatchString(name) || strings.ContainsRune(value, 0) {
			return fmt.Errorf("env has a malformed variable %.64q", name)
		}
		if looksSecret(value) {
			return fmt.Errorf("env.%s looks like a secret, which would be the program's to tell: name it with api_key_env, and the proxy adds it", name)
		}
	}
	for _, name := range slices.Concat(c.AuthFiles, c.AuthSeed) {
		if !relative(name) {
			return fmt.Errorf("%q of auth_files or auth_seed is no path below the folder of credentials", name)
		}
	}
	if c.AuthDatabase != "" && !relative(c.AuthDatabase) {
		return fmt.Errorf("auth_database %q is no path below the folder of credentials", c.AuthDatabase)
	}
	if (c.AuthDatabase == "") != (c.AuthTable == "") || c.AuthTable != "" && !variableName().MatchString(c.AuthTable) {
		return errors.New("auth_database and auth_table go together: a file and the table in it that holds the login")
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

// looksSecret tells the keys of well-known services by how they begin. It is no proof that anything else is none.
func looksSecret(value string) bool {
	for _, prefix := range []string{"sk-", "sk_", "ghp_", "github_pat_", "xox", "AIza", "ya29.", "glpat-", "AKIA"} {
		if strings.HasPrefix(value, prefix) && len(value) >= len(prefix)+16 {
			return true
		}
	}
	return false
}

// relative says whether a path stays below the folder that it is counted from.
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
	// Session is the program's own name of the session; empty if it is yet to be learnt.
	Session string `json:"session,omitempty"`
	Resume  bool   `json:"resume,omitempty"`
	// Folder is the one of the host that the conversation is about; empty is the workspace or the agent's own.
	Folder string `json:"folder,omitempty"`
}

// Record is the verdict of a run, as a result keeps it. A field is never renamed: old turns are read for ever.
type Record struct {
	// Session is how the next message goes on; empty if there is no such way.
	Session string `json:"session,omitempty"`
	// Unknown says that the program had no session of that name, and did nothing.
	Unknown bool        `json:"unknown,omitempty"`
	Usage   model.Usage `json:"usage"`
	// Run is how the program ended, without its output.
	Run machine.Result `json:"run"`
}
