// Package mcptest brings reference servers of the Model Context Protocol to tests: those of npm, in the versions that servers locks.
// They are installed once into the user's cache.
package mcptest

import (
	"context"
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/flynnhost/flynn/sdk/need"
)

//go:embed servers/package.json servers/package-lock.json
var files embed.FS

var install = sync.OnceValues(installServers)

// Server returns the program of a reference server, which node runs, and the folder in which it finds all that it needs. A test that asks for it
// is skipped, or fails, as need.Part says, where it cannot be had.
func Server(t *testing.T, name string) (program, dir string) {
	t.Helper()
	dir, err := install()
	need.Part(t, "mcp-servers", err)
	return filepath.Join(dir, "node_modules/@modelcontextprotocol", name, "dist/index.js"), dir
}

func installServers() (dir string, err error) {
	if _, err := exec.LookPath("node"); err != nil {
		return "", err
	}
	lock, err := files.ReadFile("servers/package-lock.json")
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(cache, "flynn-test", fmt.Sprintf("mcp-servers-%x", sha256.Sum256(lock))[:28])
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", err
	}
	draft, err := os.MkdirTemp(filepath.Dir(dir), "draft-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(draft)
	servers, err := fs.Sub(files, "servers")
	if err != nil {
		return "", err
	}
	if err := os.CopyFS(draft, servers); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
	cmd.Dir = draft
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm ci: %w: %s", err, out)
	}
	if err := os.Rename(draft, dir); err != nil && !errors.Is(err, fs.ErrExist) {
		if _, there := os.Stat(dir); there != nil { // another process was quicker
			return "", err
		}
	}
	return dir, nil
}
