package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/config/edit"
)

// edited is the JSON of a command that edits flynn.toml.
type edited struct {
	Path string `json:"path"`
	Diff string `json:"diff"`
	// Running reports whether a flynn runs on the file; then Generation is the one in force.
	Running    bool   `json:"running"`
	Generation uint64 `json:"generation,omitempty"`
	// Hosts are those that have agreed on it and put it in force, where several share a database.
	Hosts []string `json:"hosts,omitempty"`
}

func dryRunFlag() cli.Flag {
	return &cli.BoolFlag{Name: "dry-run", Usage: "show what would change, and write nothing"}
}

// openConfig opens the configuration file of a command to edit it.
func openConfig(ctx context.Context, cmd *cli.Command) (*edit.File, error) {
	return edit.Open(configPath(ctx, cmd))
}

// loadForEdit opens the configuration's file for an edit, and returns its meaning as well.
func loadForEdit(ctx context.Context, cmd *cli.Command) (*edit.File, *config.Config, error) {
	f, err := openConfig(ctx, cmd)
	if err != nil {
		return nil, nil, err
	}
	c, err := f.Load(getenvOf(ctx), host.Checks()...)
	return f, c, err
}

// saveConfig shows what an edit changes, writes the file, and has a running flynn take it up.
func saveConfig(ctx context.Context, cmd *cli.Command, f *edit.File, success string) error {
	o, path := newOutput(ctx, cmd), configPath(ctx, cmd)
	e := edited{Path: path, Diff: f.Diff()}
	if !o.asJSON && !o.quiet {
		fmt.Fprint(o.err, withoutControls(e.Diff))
	}
	if _, err := f.Load(getenvOf(ctx), host.Checks()...); err != nil {
		return fmt.Errorf("nothing is written, because the file would be wrong: %w", err)
	}
	if e.Diff == "" {
		return o.success(e, "%s says so already", path)
	}
	if cmd.Bool("dry-run") {
		return o.success(e, "Nothing is written.")
	}
	running, ok, err := runningOn(ctx, path, getenvOf(ctx))
	if err != nil {
		return fmt.Errorf("nothing is written, because the running flynn does not answer: %w", err)
	}
	made, err := editorOf(ctx, path, running, ok).Apply(ctx, edit.Author{}, f)
	if err != nil {
		return err
	}
	e.Generation = made.Generation
	if e.Running = ok; !ok {
		return o.success(e, "%s Flynn is not running; it takes effect at the next start.", success)
	}
	if e.Hosts = running.hosts; len(e.Hosts) > 1 {
		return o.success(e, "%s It is in force on all hosts that run: %s.", success, cell(strings.Join(e.Hosts, ", ")))
	}
	return o.success(e, "%s It is in force as configuration %d.", success, e.Generation)
}

// editorOf is the editor of the file for a command; the flynn that runs on it, if one does, takes up what it writes.
func editorOf(ctx context.Context, path string, running *runningHost, ok bool) *edit.Editor {
	c := edit.EditorConfig{Path: path, Getenv: getenvOf(ctx), Checks: host.Checks()}
	if ok {
		c.Reload = running.Reload
	}
	return edit.NewEditor(c)
}

// withoutControls keeps the lines of a text, and nothing else that controls a terminal.
func withoutControls(text string) string {
	lines := strings.SplitAfter(text, "\n")
	for i, line := range lines {
		whole, ended := strings.CutSuffix(line, "\n")
		if whole == "" {
			continue
		}
		lines[i] = cell(whole)
		if ended {
			lines[i] += "\n"
		}
	}
	return strings.Join(lines, "")
}
