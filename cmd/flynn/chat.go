package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/chat"
	"github.com/flynnhost/flynn/host/gateway/chat/tui"
)

func chatCommand() *cli.Command {
	return &cli.Command{
		Name: "chat", Category: groupTalk,
		Usage: "talk to a running flynn from the terminal or a pipe",
		Description: "On a terminal this is a program to stay in: /help lists its commands and keys. Answers stay in the terminal's own\n" +
			"scrollback, Ctrl-C stops an answer and twice leaves. With --plain, with ACCESSIBLE=1, on a dumb terminal and in a pipe\n" +
			"it is a line client without any escape sequence:\n\n" +
			"Every line is a message. Answers go to stdout as they stream; tool calls, decisions and questions go to stderr.\n" +
			"From a pipe, flynn chat waits for the answer to a line before it reads the next, and denies tool calls that\n" +
			"need an approval unless --approvals says otherwise. On a terminal, /stop ends the running answer and /quit leaves.\n" +
			"With --json every event is printed as one line.\n\n" +
			"Exit codes: 0 every line was answered, 1 one was not, or flynn could not be reached, 2 wrong usage, 3 errors in\nthe configuration.",
		Flags: append(gatewayFlags(),
			&cli.StringFlag{Name: "conversation", Aliases: []string{"c"}, Value: "main", Usage: "continue the conversation `NAME`"},
			&cli.BoolFlag{Name: "plain", Usage: "read and print lines, also on a terminal"},
			&cli.StringFlag{Name: "approvals", Usage: "`HOW` to answer requests for approval: ask, wait or deny (default: ask on a terminal, deny in a pipe)"},
			&cli.DurationFlag{Name: "timeout", Value: chat.DefaultTimeout, Usage: "exit when a line from a pipe has no answer after `TIME`", Validator: positive},
		),
		Action: runChat,
	}
}

func runChat(ctx context.Context, cmd *cli.Command) error {
	switch cmd.String("approvals") {
	case "", chat.Ask, chat.Wait, chat.Deny:
	default:
		return usagef("--approvals is %q; say ask, wait or deny", cmd.String("approvals"))
	}
	url, token, err := gatewayToken(ctx, cmd)
	if err != nil {
		return err
	}
	o := newOutput(ctx, cmd)
	interactive := isTerminal(cmd.Root().Reader)
	if screen, ok := cmd.Root().Writer.(*os.File); ok && interactive && wantsProgram(cmd, o, getenvOf(ctx)) {
		return tui.Run(ctx, tui.Config{
			URL: url, Token: token, Conversation: cmd.String("conversation"),
			In: cmd.Root().Reader, Out: screen, Environ: os.Environ(), Colour: o.colour,
		})
	}
	err = chat.Run(ctx, chat.Config{
		URL: url, Token: token, Conversation: cmd.String("conversation"),
		In: cmd.Root().Reader, Out: o.out, Err: o.err,
		Interactive: interactive, Approvals: cmd.String("approvals"),
		JSON: o.asJSON, Color: o.colour && !cmd.Bool("plain") && getenvOf(ctx)("ACCESSIBLE") == "", Timeout: cmd.Duration("timeout"),
	})
	switch {
	case errors.Is(err, chat.ErrTurnFailed):
		return reported{err} // the failures were printed as they came
	case interactive && errors.Is(err, context.Canceled):
		return nil // Ctrl-C is a way to leave
	}
	return err
}

// wantsProgram reports whether the conversation gets the whole terminal: if it can show it, and nothing asks for lines.
func wantsProgram(cmd *cli.Command, o *output, getenv func(string) string) bool {
	return isTerminal(cmd.Root().Writer) && getenv("TERM") != "dumb" && getenv("TERM") != "" && getenv("ACCESSIBLE") == "" &&
		!o.asJSON && !cmd.Bool("plain") && cmd.String("approvals") == ""
}

// gatewayFlags returns the flags that gatewayAddress reads.
func gatewayFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "url", Usage: "reach the gateway at `URL` (default: $FLYNN_URL, else [gateway] listen)"},
		&cli.StringFlag{Name: "token-file", Usage: "read the token from `FILE` (default: $FLYNN_TOKEN_FILE, else [gateway] token_file)"},
	}
}

// gatewayAddress returns the gateway's address and the file with the token: from flags, else from the environment, else from the
// configuration.
func gatewayAddress(ctx context.Context, cmd *cli.Command) (url, tokenFile string, err error) {
	getenv := getenvOf(ctx)
	url, tokenFile = cmp.Or(cmd.String("url"), getenv("FLYNN_URL")), cmp.Or(cmd.String("token-file"), getenv("FLYNN_TOKEN_FILE"))
	if url != "" && tokenFile != "" {
		return url, tokenFile, nil
	}
	g, err := config.LoadGateway(configPath(ctx, cmd), getenv)
	return cmp.Or(url, "http://"+g.Listen), cmp.Or(tokenFile, g.TokenFile), err
}

// gatewayToken returns the gateway's address and the token itself.
func gatewayToken(ctx context.Context, cmd *cli.Command) (url, token string, err error) {
	url, tokenFile, err := gatewayAddress(ctx, cmd)
	if err != nil {
		return "", "", err
	}
	token, err = gateway.ReadToken(tokenFile)
	if errors.Is(err, fs.ErrNotExist) && cmd.String("token-file") == "" {
		err = fmt.Errorf("no flynn has made the token %s yet: start it with: flynn serve", tokenFile)
	}
	return url, token, err
}
