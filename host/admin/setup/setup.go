// Package setup sets Flynn up: it looks at what the machine has, proves a model and a channel, makes the first sender an owner, and writes a
// small flynn.toml with its secrets in files of their own.
//
// Start with Setup.Run, which flynn init calls. It asks through an Asker and knows nothing of terminals. Look finds keys, model servers and
// engines; ProveModel makes a real completion; ProveChannel starts the plugin and waits until its platform accepts the token. Everything
// that a run writes is in a Journal, which undoes it if the run is ended before it is finished. Package config/edit edits the file.
package setup

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
)

// Asker asks the person who sets Flynn up. Its methods return ErrNobody where nobody can be asked, and the error of ctx when it ends.
type Asker interface {
	// Choose returns one of the options.
	Choose(ctx context.Context, title string, options []Option) (value string, err error)
	// Text asks for one line; an empty answer is initial. valid says what is wrong with an answer, in words.
	Text(ctx context.Context, title, help, initial string, valid func(string) error) (string, error)
	// Secret asks for one line without showing it.
	Secret(ctx context.Context, title, help string) (config.Secret, error)
	// Confirm asks a question of yes or no; initial is the answer of those who only press Enter.
	Confirm(ctx context.Context, title string, initial bool) (bool, error)
	// Say tells one line, or a few.
	Say(text string)
	// Asks reports whether somebody can be asked.
	Asks() bool
}

// Option is one answer to choose from.
type Option struct{ Value, Title string }

// Errors of askers.
var (
	ErrNobody  = errors.New("nobody can be asked here")
	ErrAborted = errors.New("interrupted")
)

// Hosts gives access to the Flynn that runs on a configuration, or runs one for as long as it is needed.
type Hosts interface {
	// Begin returns when a Flynn runs on the configuration at path. end stops it if Begin started it.
	Begin(ctx context.Context, path string) (h Host, end func(), err error)
	// Running returns the Flynn that runs on the configuration at path, if one does.
	Running(ctx context.Context, path string) (h Host, ok bool, err error)
}

// Host is a running Flynn.
type Host interface {
	// Access lists those who ask to be let in.
	Access(ctx context.Context) ([]gateway.AccessEntry, error)
	// Decide answers the request with a code.
	Decide(ctx context.Context, code string, approve bool) error
	// Reload puts the file in force; an error says why it is not.
	Reload(ctx context.Context) (generation uint64, err error)
}

// Config configures a Setup.
type Config struct {
	// Path is the configuration file to write.
	Path   string
	Getenv func(string) string
	// Checks are those of flynn serve.
	Checks []config.Check
	// Launcher is the command that runs plugins in a jail.
	Launcher []string
	Asker    Asker
	Hosts    Hosts
	// Places is where to look for servers and engines; the zero value is nowhere.
	Places Places
}

// Setup sets up one configuration file.
type Setup struct {
	Config
	journal Journal
}

// New returns a Setup.
func New(c Config) *Setup { return &Setup{Config: c} }

// dataName is the folder beside the configuration that holds the store, and with it the secrets. Neither plugins nor sandboxes see it.
const dataName = "flynn-data"

// secretsName is the folder of secrets in the store's folder.
const secretsName = "secrets"

func (s *Setup) dir() string     { return filepath.Dir(s.Path) }
func (s *Setup) dataDir() string { return filepath.Join(s.dir(), dataName) }

// SecretsDir is the folder of a configuration's secret files.
func SecretsDir(c *config.Config) string { return filepath.Join(c.Store.Dir, secretsName) }
