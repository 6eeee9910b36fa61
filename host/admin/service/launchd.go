package service

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// launchd is that of the Mac, whose domain is the machine or a user's session.
type launchd struct{ Config }

var _ manager = (*launchd)(nil)

func newLaunchd(c Config) *launchd {
	if c.System {
		c.Folder = cmp.Or(c.Folder, "/Library/LaunchDaemons")
	} else {
		c.Folder = cmp.Or(c.Folder, filepath.Join(c.Home, "Library", "LaunchAgents"))
	}
	return &launchd{c}
}

// domain is where the service lives; a user has one as long as they are signed in at the screen.
func (l *launchd) domain() string {
	if l.System {
		return "system"
	}
	return "gui/" + strconv.Itoa(l.UID)
}

func (l *launchd) target() string { return l.domain() + "/" + label(l.Name) }
func (l *launchd) file() string   { return filepath.Join(l.Folder, label(l.Name)+".plist") }

// logFile is where launchd writes what the service prints.
func (l *launchd) logFile() string {
	if l.System {
		return "/Library/Logs/" + l.Name + ".log"
	}
	return filepath.Join(l.Home, "Library", "Logs", l.Name+".log")
}

func (l *launchd) log() string { return "tail -f " + l.logFile() }

func (l *launchd) render(spec Spec) (string, error) {
	spec.Log = l.logFile()
	return spec.Plist()
}

func (l *launchd) run(ctx context.Context, args ...string) error {
	_, err := command(ctx, "launchctl", args...)
	return err
}

func (l *launchd) answers(ctx context.Context) error {
	if err := l.run(ctx, "print", l.domain()); err != nil {
		return fmt.Errorf("%w: sign in at the screen of the Mac, or install for the whole machine with sudo", err)
	}
	return nil
}

func (l *launchd) loaded(ctx context.Context) bool { return l.run(ctx, "print", l.target()) == nil }

func (l *launchd) enable(ctx context.Context) error { return l.run(ctx, "enable", l.target()) }

func (l *launchd) disable(ctx context.Context) error { return l.stop(ctx) }

func (l *launchd) forget(context.Context) error { return nil }

// start loads the service, whose file has it run at once.
func (l *launchd) start(ctx context.Context) error {
	if l.loaded(ctx) {
		return l.run(ctx, "kickstart", l.target())
	}
	return l.run(ctx, "bootstrap", l.domain(), l.file())
}

// stop unloads the service: one that is loaded would be started again.
func (l *launchd) stop(ctx context.Context) error {
	if !l.loaded(ctx) {
		return nil
	}
	if err := l.run(ctx, "bootout", l.target()); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for l.loaded(ctx) { // launchd does not wait for the end of the program, and refuses to load the service before
		select {
		case <-time.After(poll):
		case <-ctx.Done():
			return fmt.Errorf("stop %s: it has not ended: %w", l.target(), ctx.Err())
		}
	}
	return nil
}

// poll is the time between two looks at a service that ends.
const poll = 100 * time.Millisecond

// restart loads the file anew, which may have changed.
func (l *launchd) restart(ctx context.Context) error {
	if err := l.stop(ctx); err != nil {
		return err
	}
	return l.run(ctx, "bootstrap", l.domain(), l.file())
}

// state reads launchctl print, whose output is for people; it has not changed in ten years.
func (l *launchd) state(ctx context.Context) (State, error) {
	st := State{State: Stopped, AtBoot: true}
	text, err := command(ctx, "launchctl", "print", l.target())
	if err != nil {
		return st, nil // it is not loaded
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "\t\t") {
			continue // of a part of the service
		}
		key, value, _ := strings.Cut(strings.TrimSpace(line), " = ")
		switch key {
		case "state":
			if value == "running" {
				st.State = Running
			}
		case "pid":
			st.PID, _ = strconv.Atoi(value)
		case "last exit code":
			if value != "0" && value != "(never exited)" {
				st.Detail = "last exit code " + value
			}
		}
	}
	switch {
	case st.State == Running:
		st.Detail = ""
	case st.Detail != "":
		st.State = Failed
	}
	return st, nil
}
