package main

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host/buildinfo"
	"github.com/flynnhost/flynn/host/gateway/api/mcp"
	programs "github.com/flynnhost/flynn/host/tool/cli"
)

func mcpCommand() *cli.Command {
	return &cli.Command{
		Name: "mcp", Category: groupDevelop,
		Usage: "offer agents to an MCP client, as a server on stdin and stdout",
		Description: "Each agent is a tool (ask_AGENT), and so is each tool of an agent's sandbox (sandbox_shell_exec, ...). A client that starts\n" +
			"MCP servers runs: flynn mcp --config flynn.toml\n\n" +
			"The gateway's token gives the owner's rights. To give a client fewer, add [clients.NAME] and pass the file with its token\n" +
			"as --token-file. Clients that speak streamable HTTP connect to http://LISTEN/mcp instead.\n\n" +
			"With --cli no flynn needs to run: the one tool asks that agent CLI, on this machine or with --sandbox in a container. A call\n" +
			"may name the directory to work in and the session to continue: flynn mcp --cli claude --sandbox",
		Flags: append(gatewayFlags(), mcpCLIFlags()...),
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if cmd.String(mcpCLI) != "" {
				return serveCLI(ctx, cmd)
			}
			if cmd.Bool(mcpSandbox) || cmd.IsSet(mcpImage) || cmd.IsSet(mcpRoot) {
				return usagef("--%s is missing: name the agent CLI to run, one of %s", mcpCLI, strings.Join(programs.Presets(), ", "))
			}
			url, token, err := gatewayToken(ctx, cmd)
			if err != nil {
				return err
			}
			return bridge(ctx, cmd, url, token)
		},
	}
}

// bridge connects stdin and stdout to the gateway's MCP endpoint until the client closes them.
func bridge(ctx context.Context, cmd *cli.Command, url, token string) error {
	root := cmd.Root()
	err := mcp.Bridge(ctx, url+"/mcp", token, buildinfo.Version(), io.NopCloser(root.Reader), nopCloser{root.Writer})
	if errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// nopCloser is io.NopCloser for a writer.
type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }
