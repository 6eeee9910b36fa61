package main

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/api/mcp"
	programs "github.com/flynnhost/flynn/host/tool/cli"
)

func mcpCommand() *cli.Command {
	return &cli.Command{
		Name:  "mcp",
		Usage: "offer agents to a program, as an MCP server on stdin and stdout",
		Description: "Each agent is a tool (ask_AGENT), and so is what the sandbox of an agent can do (sandbox_shell_exec, ...). A program\n" +
			"that starts MCP servers runs: flynn mcp --config flynn.toml\n\n" +
			"The gateway's token gives the owner's rights. Another program gets a token of its own by [clients.NAME] and names its\n" +
			"file by --token-file. Programs that speak streamable HTTP need none of this: http://LISTEN/mcp.\n\n" +
			"With --cli no flynn needs to run: the one tool asks that agent CLI, on this machine or with --sandbox in a container. A call\n" +
			"may name the directory to work in, and the session to go on with: flynn mcp --cli claude --sandbox",
		Flags: append(gatewayFlags(), mcpCLIFlags()...),
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if cmd.String(mcpCLI) != "" {
				return serveCLI(ctx, cmd)
			}
			if cmd.Bool(mcpSandbox) || cmd.IsSet(mcpImage) || cmd.IsSet(mcpRoot) {
				return usagef("--%s says which agent CLI to run: one of %s", mcpCLI, strings.Join(programs.Presets(), ", "))
			}
			url, tokenFile, err := gatewayAddress(ctx, cmd)
			if err != nil {
				return err
			}
			token, err := gateway.ReadToken(tokenFile)
			if err != nil {
				return err
			}
			root := cmd.Root()
			err = mcp.Bridge(ctx, url+"/mcp", token, version(), io.NopCloser(root.Reader), nopCloser{root.Writer})
			if errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) {
				return nil // the program has gone
			}
			return err
		},
	}
}

// nopCloser leaves the stream to its opener.
type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }
