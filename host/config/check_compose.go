package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/flynnhost/flynn/host/sandbox/compose"
)

// composed checks that a compose file and the service for commands are set together.
func (c *checker) composed(at keyPath, s Sandbox) {
	switch {
	case s.Compose != "" && s.Service == "":
		c.report(at.child("service"), "missing", "name the service of the compose file in which commands run")
	case s.Compose == "" && s.Service != "":
		c.report(at.child("compose"), "missing", "name the compose file that has this service, or remove service")
	}
}

// projects reads the compose files, each once.
func (c *checker) projects() {
	read := map[string]*compose.Project{}
	c.cfg.Sandbox.Project = c.project(keyPath{"sandbox"}, c.cfg.Sandbox, read)
	for _, name := range sorted(c.cfg.Sandboxes) {
		s := c.cfg.Sandboxes[name]
		s.Project = c.project(keyPath{"sandboxes", name}, s, read)
		c.cfg.Sandboxes[name] = s
	}
	for _, path := range sorted(read) {
		if p := read[path]; p != nil {
			c.composeBinds(p)
		}
	}
}

func (c *checker) project(at keyPath, s Sandbox, read map[string]*compose.Project) *compose.Project {
	if s.Compose == "" || s.Service == "" {
		return nil
	}
	p, known := read[s.Compose]
	if !known {
		var err error
		if p, err = compose.Load(s.Compose); err != nil {
			c.composeErrors(at.child("compose"), err)
		}
		read[s.Compose] = p
	}
	if p == nil {
		return nil
	}
	if _, ok := p.Service(s.Service); !ok && (c.lines.has(at.child("service")) || c.lines.has(at.child("compose"))) {
		c.report(at.child("service"), fmt.Sprintf("no service %q in %s", s.Service, s.Compose), didYouMean(s.Service, p.Names()))
	}
	return p
}

// composeErrors reports the errors in a compose file, with that file's lines.
func (c *checker) composeErrors(at keyPath, err error) {
	var wrong compose.Errors
	if !errors.As(err, &wrong) {
		c.report(at, cause(err).Error(), "name a compose file; paths count from the folder of the configuration file")
		return
	}
	for _, e := range wrong {
		c.errs = append(c.errs, Error{File: e.File, Line: e.Line, Key: e.Key, Problem: e.Problem, Hint: e.Hint})
	}
}

// composeBinds checks the folders of the host that services mount.
func (c *checker) composeBinds(p *compose.Project) {
	rules := c.cfg.MountRules(c.getenv)
	for _, s := range p.Services {
		for _, b := range s.Binds {
			problem, hint := "", ""
			if _, err := rules.Check(b.Source); err != nil {
				problem, hint = apart(err)
			} else if above := c.writableAbove(b.Source); above != "" {
				problem = fmt.Sprintf("%s lies in %s, which a sandbox may write to, and so may be swapped for a link", b.Source, above)
				hint = "mount folders beside each other"
			}
			if problem != "" {
				c.errs = append(c.errs, Error{File: p.File, Line: b.Line, Key: "services." + s.Name + ".volumes", Problem: problem, Hint: hint})
			}
		}
	}
}

// apart splits an error into the problem and the hint after it.
func apart(err error) (problem, hint string) {
	text := err.Error()
	if i := strings.LastIndex(text, ": "); i >= 0 {
		return text[:i], text[i+2:]
	}
	return text, ""
}
