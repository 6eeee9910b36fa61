// Package compose reads the compose files that a sandbox may be made of.
//
// Start with Load; a Project is what stands in the file, in the order in which its services start. Of the compose
// specification it knows what makes sense for services that are started for one session, beside the container where
// its commands run, and that are as confined as that. Everything else is an error that names line, service and key, because
// what is silently left out is found out at the worst of times.
//
// The file is all that counts: variables have the defaults written in it, and nothing comes from the host's environment or
// from another file. The package touches no engine, and whether a folder of the host may be mounted is decided elsewhere.
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
	// File is where it was read.
	File string
	// Services are in the order in which they start.
	Services []Service
}

// Service is one container of a project.
type Service struct {
	Name  string
	Image string
	// Entrypoint and Command replace the image's; nil leaves it.
	Entrypoint, Command []string
	Environment         []string // "NAME=value"
	WorkingDir          string
	User                string
	DependsOn           []Dependency
	Health              *Health // nil: the image's
	Binds               []Bind
	Volumes             []Volume
	Tmpfs               []Tmpfs
	// MemoryBytes, CPUs and PidsLimit are 0 where the file says nothing.
	MemoryBytes int64
	CPUs        float64
	PidsLimit   int64
	ReadOnly    bool
	Init        bool
	// Line is where the service begins.
	Line int
}

// Dependency is a service that has to be there before.
type Dependency struct {
	Service string
	Healthy bool // not only started
	Ended   bool // with exit code 0
}

// Health says how the engine finds out whether a service is healthy.
type Health struct {
	// Test is as the engine wants it: NONE, or CMD or CMD-SHELL with words.
	Test                           []string
	Interval, Timeout, StartPeriod time.Duration
	Retries                        int
}

// Bind is a folder or file of the host. A relative source counts from the file's folder.
type Bind struct {
	Source, Target string
	ReadOnly       bool
	Line           int
}

// Volume is one that the project names.
type Volume struct {
	Name, Target string
	ReadOnly     bool
}

// Tmpfs is a folder in memory.
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

// Ends reports whether a service is to end by itself, because another waits for that.
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

// Names are those of the services.
func (p *Project) Names() []string {
	names := make([]string, len(p.Services))
	for i, s := range p.Services {
		names[i] = s.Name
	}
	return names
}

// Error is one thing that is wrong about a file.
type Error struct {
	File    string
	Line    int
	Key     string // such as services.db.ports
	Problem string
	Hint    string // the next step
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

// Errors are all that is wrong, by line.
type Errors []Error

func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, one := range e {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

// maxFile bounds a file, in bytes.
const maxFile = 256 << 10

// variablesIn are the names that an environment file sets, as far as its lines are NAME=value.
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

// Load reads a file. What is wrong in it is an Errors.
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
