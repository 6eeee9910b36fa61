// Package compose reads the compose files that a sandbox may be made from.
//
// Start with Load; a Project is the content of a file, with its services in start order. The package supports the part of the compose
// specification that makes sense for services that are started for one session, beside the container where its commands run and as confined
// as that one. Everything else is an error that names line, service and key, because a setting that is silently ignored is worse.
//
// The file is self-contained: variables have the defaults written in it, and nothing is taken from the host's environment or from another
// file. The package does not use an engine, and it does not decide which host folders may be mounted.
package compose

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Project is a compose file.
type Project struct {
	// File is the path of the file.
	File string
	// Services are in start order.
	Services []Service
}

// Service is one container of a project.
type Service struct {
	Name  string
	Image string
	// Entrypoint and Command replace those of the image; nil keeps them.
	Entrypoint, Command []string
	Environment         []string // "NAME=value"
	WorkingDir          string
	User                string
	DependsOn           []Dependency
	Health              *Health // nil keeps that of the image
	Binds               []Bind
	Volumes             []Volume
	Tmpfs               []Tmpfs
	// MemoryBytes, CPUs and PidsLimit are 0 if the file does not set them.
	MemoryBytes int64
	CPUs        float64
	PidsLimit   int64
	ReadOnly    bool
	Init        bool
	// Line is the line where the service begins.
	Line int
}

// Dependency is a service that must be started before.
type Dependency struct {
	Service string
	Healthy bool // and healthy, not only started
	Ended   bool // and ended with exit code 0
}

// Health is how the engine checks whether a service is healthy.
type Health struct {
	// Test has the form that the engine expects: NONE, or CMD or CMD-SHELL followed by words.
	Test                           []string
	Interval, Timeout, StartPeriod time.Duration
	Retries                        int
}

// Bind mounts a folder or file of the host. A relative source is relative to the folder of the compose file.
type Bind struct {
	Source, Target string
	ReadOnly       bool
	Line           int
}

// Volume mounts a named volume of the project.
type Volume struct {
	Name, Target string
	ReadOnly     bool
}

// Tmpfs mounts a folder in memory.
type Tmpfs struct {
	Target string
	Bytes  int64
}

// Service returns the service of that name.
func (p *Project) Service(name string) (Service, bool) {
	for _, s := range p.Services {
		if s.Name == name {
			return s, true
		}
	}
	return Service{}, false
}

// Ends reports whether a service is expected to end by itself, because another waits for that.
func (p *Project) Ends(name string) bool {
	for _, s := range p.Services {
		for _, d := range s.DependsOn {
			if d.Service == name && d.Ended {
				return true
			}
		}
	}
	return false
}

// Names returns the names of the services.
func (p *Project) Names() []string {
	names := make([]string, len(p.Services))
	for i, s := range p.Services {
		names[i] = s.Name
	}
	return names
}

// Error is one error in a file.
type Error struct {
	File    string
	Line    int
	Key     string // such as services.db.ports
	Problem string
	Hint    string // what to do about it
}

func (e Error) Error() string {
	text := fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Problem)
	if e.Key != "" {
		text = fmt.Sprintf("%s:%d: %s: %s", e.File, e.Line, e.Key, e.Problem)
	}
	if e.Hint != "" {
		text += ": " + e.Hint
	}
	return text
}

// Errors are all errors in a file, sorted by line.
type Errors []Error

func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, one := range e {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

// maxFile bounds the size of a file.
const maxFile = 256 << 10

// variablesIn returns the names that an environment file sets in lines of the form NAME=value.
func variablesIn(path string) (map[string]bool, error) {
	about, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !about.Mode().IsRegular() {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names := map[string]bool{}
	lines := bufio.NewScanner(io.LimitReader(f, maxFile))
	for lines.Scan() {
		line := strings.TrimPrefix(strings.TrimSpace(lines.Text()), "export ")
		if name, _, set := strings.Cut(line, "="); set && !strings.HasPrefix(line, "#") {
			names[strings.TrimSpace(name)] = true
		}
	}
	return names, lines.Err()
}

// Load reads a file. If its content is invalid, the error is an Errors.
func Load(path string) (*Project, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the compose file: %w", err)
	}
	defer f.Close()
	src, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the compose file: %w", err)
	case len(src) > maxFile:
		return nil, fmt.Errorf("read the compose file: %s is larger than %d bytes", path, maxFile)
	}
	beside, err := variablesIn(filepath.Join(filepath.Dir(path), ".env"))
	if err != nil {
		return nil, fmt.Errorf("read the compose file: %w", err)
	}
	p, err := parse(path, src, beside)
	if wrong := (Errors)(nil); errors.As(err, &wrong) {
		return nil, wrong
	}
	return p, err
}
