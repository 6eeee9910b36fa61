// Package service installs Flynn as a service of systemd or launchd, for one user or for the whole machine, and starts and stops it.
//
// Start with Open, which finds out what supervises programs here. Service.Plan makes a Spec of a configuration, which becomes a unit or a
// property list from the templates in the folder files. systemctl and launchctl do the work. The package does not ask whether the Flynn in a
// service answers: flynn status does.
package service

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/internal/durable"
)

// Config says which service.
type Config struct {
	OS     string // as runtime.GOOS
	Name   string
	System bool
	UID    int    // of the user who runs the command
	Home   string // of that user
	// Folder is where the service's file goes; "" is where the system looks for it.
	Folder string
	Getenv func(string) string
}

// Service is one service, installed or not.
type Service struct {
	Config
	manager manager
}

// manager is what supervises the programs of a machine.
type manager interface {
	// answers returns an error if the manager does not run.
	answers(context.Context) error
	file() string // of the service
	render(Spec) (string, error)
	// enable makes the file known, and has the service start with the machine or the user's session from then on.
	enable(context.Context) error
	// disable stops the service, and takes enable back.
	disable(context.Context) error
	// forget is called once the file is gone.
	forget(context.Context) error
	start(context.Context) error
	stop(context.Context) error
	restart(context.Context) error
	state(context.Context) (State, error)
	// log is the command that shows the service's log.
	log() string
}

// States of a service.
const (
	Running = "running"
	Stopped = "stopped"
	Failed  = "failed"
	Busy    = "starting or stopping"
)

// State is what a manager knows of a service.
type State struct {
	Name      string    `json:"name"`
	Installed bool      `json:"installed"`
	File      string    `json:"file"`
	AtBoot    bool      `json:"at_boot"` // whether it starts by itself
	State     string    `json:"state"`
	PID       int       `json:"pid,omitempty"`
	Since     time.Time `json:"since,omitzero"`
	Detail    string    `json:"detail,omitempty"` // why it is not running
	Log       string    `json:"log"`              // the command that shows its log
}

// ErrNoManager says that nothing here can run a service.
var ErrNoManager = errors.New("nothing here runs services")

// ErrNotInstalled says that the service has no file.
var ErrNotInstalled = errors.New("the service is not installed")

// ValidName reports whether a name can be that of a service.
func ValidName(name string) error {
	odd := func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' }
	if name == "" || len(name) > 60 || strings.ContainsFunc(name, odd) || strings.Trim(name, "-") != name {
		return fmt.Errorf("%q cannot name a service: use small letters, digits and -, such as flynn-home", name)
	}
	return nil
}

// Open returns the service of a name. The error is ErrNoManager if neither systemd nor launchd answers.
func Open(ctx context.Context, c Config) (*Service, error) {
	if err := ValidName(c.Name); err != nil {
		return nil, err
	}
	s := &Service{Config: c}
	switch c.OS {
	case "linux":
		s.manager = newSystemd(c)
	case "darwin":
		s.manager = newLaunchd(c)
	default:
		return nil, fmt.Errorf("%w: flynn knows systemd and launchd", ErrNoManager)
	}
	if err := s.manager.answers(ctx); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoManager, err)
	}
	return s, nil
}

// File is the path of the service's file.
func (s *Service) File() string { return s.manager.file() }

// LogCommand shows the service's log.
func (s *Service) LogCommand() string { return s.manager.log() }

// Render returns what the service's file would have.
func (s *Service) Render(spec Spec) (string, error) {
	spec.Name, spec.System = s.Name, s.System
	if err := spec.check(); err != nil {
		return "", err
	}
	return s.manager.render(spec)
}

// Current returns what the service's file has; nil if there is none.
func (s *Service) Current() ([]byte, error) {
	text, err := os.ReadFile(s.File())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return text, err
}

// Install writes the service's file, and has the service start by itself from the next start of the machine or the user's session on.
func (s *Service) Install(ctx context.Context, text string) error {
	if err := os.MkdirAll(filepath.Dir(s.File()), 0o755); err != nil {
		return fmt.Errorf("install the service: %w", err)
	}
	if err := durable.WriteFile(s.File(), []byte(text), 0o644); err != nil {
		return fmt.Errorf("install the service: %w", err)
	}
	return s.manager.enable(ctx)
}

// Uninstall stops the service and deletes its file.
func (s *Service) Uninstall(ctx context.Context) error {
	if err := s.installed(); err != nil {
		return err
	}
	if err := s.manager.disable(ctx); err != nil {
		return err
	}
	if err := os.Remove(s.File()); err != nil {
		return fmt.Errorf("uninstall the service: %w", err)
	}
	return s.manager.forget(ctx)
}

func (s *Service) installed() error {
	text, err := s.Current()
	if err == nil && text == nil {
		err = fmt.Errorf("%w: there is no %s", ErrNotInstalled, s.File())
	}
	return err
}

// Start starts the service; with systemd it returns when Flynn is ready.
func (s *Service) Start(ctx context.Context) error { return s.does(ctx, s.manager.start) }

// Stop stops the service until it is started again, by a person or with the machine.
func (s *Service) Stop(ctx context.Context) error { return s.does(ctx, s.manager.stop) }

// Restart stops the service, if it runs, and starts it.
func (s *Service) Restart(ctx context.Context) error { return s.does(ctx, s.manager.restart) }

func (s *Service) does(ctx context.Context, do func(context.Context) error) error {
	if err := s.installed(); err != nil {
		return err
	}
	return do(ctx)
}

// State asks how the service does.
func (s *Service) State(ctx context.Context) (State, error) {
	st := State{State: Stopped}
	err := s.installed()
	if err == nil {
		st, err = s.manager.state(ctx)
		st.Installed = true
	}
	if errors.Is(err, ErrNotInstalled) {
		err = nil
	}
	st.Name, st.File, st.Log = s.Name, s.File(), s.LogCommand()
	return st, err
}

// patience bounds one command of a manager. A start takes as long as Flynn takes to be ready, a stop as long as it takes to end.
const patience = 3 * time.Minute

// command runs a manager's command and returns what it printed.
func command(ctx context.Context, program string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.WaitDelay = time.Second
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		text := strings.Join(strings.Fields(said.String()), " ")
		if text == "" {
			text = err.Error()
		}
		return "", fmt.Errorf("%s %s: %.300s", program, strings.Join(args, " "), text)
	}
	return out.String(), nil
}
