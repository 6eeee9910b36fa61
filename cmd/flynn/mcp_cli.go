package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/BurntSushi/toml"
	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/door/mcp"
	"github.com/flynnhost/flynn/host/store"
	programs "github.com/flynnhost/flynn/host/tool/cli"
)

// Flags of flynn mcp that make it a host of its own.
const (
	mcpCLI     = "cli"
	mcpSandbox = "sandbox"
	mcpImage   = "sandbox-image"
	mcpRoot    = "root"
	mcpAuthDir = "auth-dir"
	mcpState   = "state"
)

func mcpCLIFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: mcpCLI, Usage: "run the agent CLI `NAME` (" + strings.Join(programs.Presets(), ", ") + ") without a running flynn"},
		&cli.BoolFlag{Name: mcpSandbox, Usage: "with --cli: run it in a container, one for each session; without this it runs on this machine, with your rights"},
		&cli.StringFlag{Name: mcpImage, Usage: "with --sandbox: the `IMAGE` with the program", Value: "flynn-subagent"},
		&cli.StringSliceFlag{Name: mcpRoot, Usage: "with --cli: a `DIR` that the directory of a call may be or lie in (default: the working directory)"},
		&cli.StringFlag{Name: mcpAuthDir, Usage: "with --sandbox: a `DIR` with a login of yours, which is copied into the container; without it the key is added outside"},
		&cli.StringFlag{Name: mcpState, Usage: "with --cli: keep sessions in `DIR` (default: flynn/mcp in $XDG_STATE_HOME)"},
	}
}

// keyEnv is where the key of each program that can do without a login comes from.
func keyEnv(program string) string {
	return map[string]string{"claude": "ANTHROPIC_API_KEY", "codex": "OPENAI_API_KEY", "gemini": "GEMINI_API_KEY"}[program]
}

// serveCLI offers an agent CLI to the program on stdin and stdout, from a host of its own that ends with it.
func serveCLI(ctx context.Context, cmd *cli.Command) error {
	for _, name := range []string{mcpImage, mcpAuthDir} {
		if cmd.IsSet(name) && !cmd.Bool(mcpSandbox) {
			return usagef("--%s is for --%s", name, mcpSandbox)
		}
	}
	log := slog.New(slog.NewTextHandler(cmd.Root().ErrWriter, &slog.HandlerOptions{Level: slog.LevelWarn}))
	h, remove, err := openCLI(ctx, cmd, log)
	if err != nil {
		return err
	}
	defer remove()
	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	var failed error
	running.Go(func() {
		failed = h.Run(ctx)
		stop()
	})
	url, _, _ := strings.Cut(h.URL(), "/#")
	token, err := gateway.ReadToken(h.TokenFile())
	if err == nil {
		root := cmd.Root()
		err = mcp.Bridge(ctx, url+"/mcp", token, version(), io.NopCloser(root.Reader), nopCloser{root.Writer})
	}
	stop()
	running.Wait()
	if errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) {
		err = nil // the program has gone
	}
	return errors.Join(err, failed)
}

// mostHosts is how many programs may have an agent CLI offered to them side by side.
const mostHosts = 32

// openCLI opens a host whose store no other one uses: the state folder, or where that is in use a numbered one beside it. Sessions are
// taken up again by the host that has their folder. remove takes away its configuration.
func openCLI(ctx context.Context, cmd *cli.Command, log *slog.Logger) (h *host.Host, remove func(), err error) {
	state, err := cliState(ctx, cmd)
	if err != nil {
		return nil, nil, err
	}
	for n := 1; ; n++ {
		dir := state
		if n > 1 {
			dir = fmt.Sprintf("%s-%d", state, n)
		}
		path, err := writeCLIConfig(cmd, getenvOf(ctx), dir)
		if err != nil {
			return nil, nil, err
		}
		h, err := host.New(ctx, host.Config{Path: path, Getenv: getenvOf(ctx), Log: log, Version: version()})
		if err == nil {
			return h, func() { os.Remove(path) }, nil
		}
		os.Remove(path)
		if !errors.Is(err, store.ErrLocked) || n == mostHosts {
			return nil, nil, err
		}
	}
}

// cliState is the folder for what outlasts the program: one for each agent CLI and way to run it, since sessions go on in their own alone.
func cliState(ctx context.Context, cmd *cli.Command) (string, error) {
	dir := cmd.String(mcpState)
	if dir == "" {
		getenv := getenvOf(ctx)
		base := getenv("XDG_STATE_HOME")
		if home := getenv("HOME"); base == "" && home != "" {
			base = filepath.Join(home, ".local", "state")
		}
		if base == "" {
			return "", usagef("there is no HOME to keep sessions in: name a folder with --%s", mcpState)
		}
		dir = filepath.Join(base, "flynn", "mcp")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	way := "host"
	if cmd.Bool(mcpSandbox) {
		way = "sandbox"
	}
	return filepath.Join(dir, cmd.String(mcpCLI)+"-"+way), nil
}

// table is one of a configuration.
type table = map[string]any

// writeCLIConfig writes the configuration of a host that has the agent CLI and nothing else, and returns its path.
func writeCLIConfig(cmd *cli.Command, getenv func(string) string, dir string) (string, error) {
	name := cmd.String(mcpCLI)
	roots, err := cliRoots(cmd)
	if err != nil {
		return "", err
	}
	sandboxed := cmd.Bool(mcpSandbox)
	program := table{"preset": name, "folder_by_call": true}
	agent := table{"kind": "cli", "sandbox": sandboxed, "approve": "none", "cli": program}
	config := table{
		"agent_configs": table{name: agent}, "cli": table{"roots": roots}, "routing": table{"default_agent": name},
		"gateway": table{"listen": "127.0.0.1:0"}, "store": table{"dir": filepath.Join(dir, "store")},
	}
	switch login := cmd.String(mcpAuthDir); {
	case !sandboxed:
		program["dangerously_on_host"], program["dangerously_for_programs"] = true, true
		if home := getenv("HOME"); home != "" { // where its login is
			program["env"] = table{"HOME": home}
		}
	case login != "":
		if login, err = filepath.Abs(login); err != nil {
			return "", err
		}
		program["auth"], program["auth_dir"] = "mount", login
		config["sandbox"] = table{"enabled": true, "image": cmd.String(mcpImage), "mount_roots": []string{login}}
	default:
		if key := keyEnv(name); key != "" {
			program["api_key_env"] = key
		}
		config["sandbox"] = table{"enabled": true, "image": cmd.String(mcpImage)}
	}
	var text bytes.Buffer
	if err := toml.NewEncoder(&text).Encode(config); err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	file, err := os.CreateTemp(dir, "flynn-*.toml") // a name of its own: the folder may be another host's, which watches its file
	if err != nil {
		return "", err
	}
	_, err = file.Write(text.Bytes())
	return file.Name(), errors.Join(err, file.Close())
}

func cliRoots(cmd *cli.Command) ([]string, error) {
	roots := cmd.StringSlice(mcpRoot)
	if len(roots) == 0 {
		roots = []string{"."}
	}
	for i, root := range roots {
		var err error
		if roots[i], err = filepath.Abs(root); err != nil {
			return nil, err
		}
		if info, err := os.Stat(roots[i]); err != nil || !info.IsDir() {
			return nil, usagef("--%s %s is no folder", mcpRoot, root)
		}
	}
	return roots, nil
}
