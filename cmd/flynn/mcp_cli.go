package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/BurntSushi/toml"
	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host"
	"github.com/flynnhost/flynn/host/buildinfo"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/store"
	programs "github.com/flynnhost/flynn/host/tool/cli"
)

// Flags of flynn mcp for running an agent CLI without a running host.
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
		&cli.StringFlag{Name: mcpImage, Usage: "with --sandbox: the `IMAGE` with the agent CLI", Value: "flynn-subagent"},
		&cli.StringSliceFlag{Name: mcpRoot, Usage: "with --cli: a `DIR` in which calls may work; may be repeated (default: the working directory)"},
		&cli.StringFlag{Name: mcpAuthDir, Usage: "with --sandbox: copy your login from `DIR` into the container; without it Flynn adds the API key to requests outside it"},
		&cli.StringFlag{Name: mcpState, Usage: "with --cli: keep sessions in `DIR` (default: flynn/mcp in $XDG_STATE_HOME)"},
	}
}

// keyEnv names the environment variable with the API key of each agent CLI that needs no login.
var keyEnv = map[string]string{"claude": "ANTHROPIC_API_KEY", "codex": "OPENAI_API_KEY", "gemini": "GEMINI_API_KEY"}

// serveCLI offers an agent CLI to the MCP client on stdin and stdout, from a host of its own that ends with the client.
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
		err = bridge(ctx, cmd, url, token)
	}
	stop()
	running.Wait()
	return errors.Join(err, failed)
}

// mostHosts bounds the clients that an agent CLI is offered to at the same time.
const mostHosts = 32

// openCLI opens a host on a store that no other host uses: the state folder or, where that is in use, a numbered one beside it. A session
// can only be continued by a host on its folder. remove deletes the host's configuration.
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
		h, err := host.New(ctx, host.Config{Path: path, Getenv: getenvOf(ctx), Log: log, Version: buildinfo.Version()})
		if err == nil {
			return h, func() { os.Remove(path) }, nil
		}
		os.Remove(path)
		if !errors.Is(err, store.ErrLocked) || n == mostHosts {
			return nil, nil, err
		}
	}
}

// cliState returns the folder of the data that outlasts the process: one for each agent CLI and way to run it, because a session can only
// be continued in its own.
func cliState(ctx context.Context, cmd *cli.Command) (string, error) {
	dir := cmd.String(mcpState)
	if dir == "" {
		getenv := getenvOf(ctx)
		base := getenv("XDG_STATE_HOME")
		if home := getenv("HOME"); base == "" && home != "" {
			base = filepath.Join(home, ".local", "state")
		}
		if base == "" {
			return "", usagef("HOME is not set: name a folder for the sessions with --%s", mcpState)
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

// table is a TOML table.
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
		if key := keyEnv[name]; key != "" {
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
			return nil, usagef("--%s %s is not a folder", mcpRoot, root)
		}
	}
	return roots, nil
}
