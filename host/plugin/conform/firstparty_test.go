//go:build unix

package conform

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/plugin"
	"github.com/flynnhost/flynn/sdk/need"
	"github.com/flynnhost/flynn/sdk/plugintest/suite"
)

var driverKind = regexp.MustCompile(`(?m)^kinds\s*=\s*\["sandbox"\]`)

// firstParty are the folders of all plugins of this tree: whatever is in plugins, and the examples that are plugins.
func firstParty(t *testing.T) (dirs []string) {
	t.Helper()
	for _, pattern := range []string{"../../../plugins/*", "../../../examples/*/" + plugin.ManifestName} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("there is nothing at %s: %v", pattern, err)
		}
		for _, name := range found {
			dir := strings.TrimSuffix(name, "/"+plugin.ManifestName)
			text, err := os.ReadFile(filepath.Join(dir, plugin.ManifestName))
			if err != nil {
				t.Fatal(err)
			}
			if !driverKind.Match(text) { // package fleet tries drivers, with an engine and its image
				dirs = append(dirs, dir)
			}
		}
	}
	return dirs
}

// trial is the outcome of one folder.
type trial struct {
	report suite.Report
	lacks  error // the program that the plugin runs in
	err    error
}

// TestFirstPartyPlugins holds the plugins and examples of this tree to the contract that others are held to.
func TestFirstPartyPlugins(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	t.Parallel()
	dirs := firstParty(t)
	for _, dir := range dirs {
		if _, err := os.Stat(filepath.Join(dir, FileName)); err != nil {
			t.Errorf("%s is tried without its platform: write its %s: %v", filepath.Base(dir), FileName, err)
		}
	}
	// Side by side: a trial waits a good part of the time.
	trials, room := make([]trial, len(dirs)), make(chan struct{}, min(runtime.NumCPU(), 8))
	var trying sync.WaitGroup
	for i, dir := range dirs {
		room <- struct{}{}
		trying.Go(func() {
			defer func() { <-room }()
			trials[i] = try(t.Context(), dir)
		})
	}
	trying.Wait()
	var all suite.Report
	for i, dir := range dirs {
		t.Run(filepath.Base(dir), trials[i].judge)
		all.Results = append(all.Results, trials[i].report.Results...)
	}
	t.Logf("%d plugins: %s", len(dirs), counts(all))
}

// try builds a plugin and tries it.
func try(ctx context.Context, dir string) (out trial) {
	if _, err := os.Stat(filepath.Join(dir, "main.go")); err != nil {
		_, out.lacks = exec.LookPath("node")
	} else {
		out.err = build(ctx, dir)
	}
	if out.lacks == nil && out.err == nil {
		out.report, out.err = Run(ctx, Config{Dir: dir, Config: suite.Config{Patience: patience(dir), Slack: busy}})
	}
	return out
}

// patience is longer for plugins with a platform, for a busy machine is not their fault; the others would only wait longer for what does not come.
func patience(dir string) time.Duration {
	f, err := readFile(dir)
	if err != nil || f.Fake.Package != "" || len(f.Fake.Command) > 0 || filepath.Base(filepath.Dir(dir)) == "plugins" {
		return busy
	}
	return 0
}

// build builds a plugin in Go where plugin.toml expects it, with the flags of `just build`: after that there is nothing left to do.
func build(ctx context.Context, dir string) error {
	if err := need.Sources(); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-buildvcs=false", "-o", "bin/", ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w\n%s", err, out)
	}
	return nil
}

// judge fails for each check that failed, and says how many there were.
func (r trial) judge(t *testing.T) {
	need.Part(t, "node", r.lacks)
	if r.err != nil {
		t.Fatal(r.err)
	}
	for _, one := range r.report.Results {
		switch one.Outcome {
		case suite.Fail:
			t.Errorf("%s: %s", one.Check, one.Detail)
		case suite.Skip:
			t.Logf("%s is skipped: %s", one.Check, one.Detail)
		}
	}
	t.Log(counts(r.report))
}

func counts(r suite.Report) string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped", r.Count(suite.Pass), r.Count(suite.Fail), r.Count(suite.Skip))
}
