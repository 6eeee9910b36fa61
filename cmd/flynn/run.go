package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host/buildinfo"
	"github.com/flynnhost/flynn/host/config"
)

// commands lists the subcommands. Within its group, the help text keeps this order.
func commands() []*cli.Command {
	return []*cli.Command{
		initCommand(),
		serveCommand(),
		statusCommand(),
		logsCommand(),
		serviceCommand(),
		doctorCommand(),
		openCommand(),
		webCommand(),
		configCommand(),
		pluginCommand(),
		routeCommand(),
		accessCommand(),
		consoleCommand(),
		policyCommand(),
		channelCommand(),
		modelCommand(),
		agentCommand(),
		secretCommand(),
		chatCommand(),
		sessionCommand(),
		haltCommand(),
		renamed("stop", haltCommand()),
		resumeCommand(),
		restartCommand(),
		clusterCommand(),
		memoryCommand(),
		sandboxCommand(),
		toolCommand(),
		approvalsCommand(),
		auditCommand(),
		storeCommand(),
		backupCommand(),
		restoreCommand(),
		scheduleCommand(),
		mcpCommand(),
		usageCommand(),
		explainCommand(),
		versionCommand(),
		upgradeCommand(),
	}
}

// renamed returns a command under its old name, for one release: it works, and names the new one. Those of a group pass the
// group's name.
func renamed(old string, c *cli.Command, group ...string) *cli.Command {
	now, action := strings.Join(slices.Concat([]string{"flynn"}, group, []string{c.Name}), " "), c.Action
	c.Name, c.Hidden = old, true
	c.Action = func(ctx context.Context, cmd *cli.Command) error {
		fmt.Fprintf(cmd.Root().ErrWriter, "flynn: %s is now %s; the next release drops the old name\n", cmd.FullName(), now)
		return action(ctx, cmd)
	}
	return c
}

// run is the whole program: it parses args, runs the subcommand, prints its error and returns the
// exit code. Nothing below it calls os.Exit or reads the process's own environment.
func run(ctx context.Context, args []string, getenv func(string) string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the program at once

	root := rootCommand()
	root.Reader, root.Writer, root.ErrWriter = stdin, stdout, stderr
	prepare(root)
	ctx = withGetenv(ctx, getenv)
	err := root.Run(ctx, args)
	if err != nil {
		o := newOutput(ctx, root)
		o.interrupted = ctx.Err() != nil
		o.fail(err)
	}
	return exitCode(err)
}

// attended returns a context that also ends when the terminal is closed, or when a write to out shows that nobody reads it any more.
// Without it either would end the program before a command has removed what it made.
//
// SIGPIPE itself must not end the context: a program that asks for the signal gets it for each broken pipe and socket that it writes to,
// such as that of a container that has just gone. It is asked for, and dropped, because otherwise a failed write to standard output kills
// the program.
func attended(ctx context.Context, out *output) (context.Context, context.CancelFunc) {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, cancel := context.WithCancel(ctx)
	out.out = &abandoned{w: out.out, leave: cancel}
	if signal.Ignored(syscall.SIGHUP) { // as nohup has it
		return ctx, cancel
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP)
	return ctx, func() { stop(); cancel() }
}

// abandoned calls leave when its reader is gone.
type abandoned struct {
	w     io.Writer
	leave func()
}

func (a *abandoned) Write(p []byte) (int, error) {
	n, err := a.w.Write(p)
	if errors.Is(err, syscall.EPIPE) {
		a.leave()
	}
	return n, err
}

func rootCommand() *cli.Command {
	return &cli.Command{
		Name:        "flynn",
		Usage:       "a self-hosted host for AI agents that people talk to over chat channels",
		Description: exitCodes,
		Version:     buildinfo.Version(),
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "config", Usage: "read the configuration from `FILE` (default: $FLYNN_CONFIG, else flynn.toml)"},
			&cli.BoolFlag{Name: "json", Usage: "print JSON"},
			&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "print nothing when a command succeeds"},
		},
		Commands:                      commands(),
		CustomRootCommandHelpTemplate: rootHelp(),
		EnableShellCompletion:         true,
		ConfigureShellCompletionCommand: func(c *cli.Command) {
			c.Hidden, c.Category, c.Usage = false, groupDevelop, "print a script that completes commands in bash, zsh, fish or PowerShell"
		},
		// run prints errors and chooses the exit code; the library must do neither.
		ExitErrHandler: func(context.Context, *cli.Command, error) {},
	}
}

// prepare makes every command of the tree behave alike: wrong usage is an error of its own class, a group refuses a subcommand that it
// does not know, and a command refuses arguments that its ArgsUsage does not name.
func prepare(c *cli.Command) {
	c.OnUsageError = func(_ context.Context, _ *cli.Command, err error, _ bool) error { return usageError{err} }
	switch {
	case c.Action == nil:
		c.Action = unknownCommand
	default:
		c.ArgValidator = checkArguments
	}
	for _, sub := range c.Commands {
		prepare(sub)
	}
}

// unknownCommand is the action of a group that was called alone or with an unknown subcommand.
func unknownCommand(_ context.Context, cmd *cli.Command) error {
	name := cmd.Args().First()
	if name == "" {
		return cli.ShowSubcommandHelp(cmd)
	}
	return unknownCommandNamed(cmd, name)
}

func unknownCommandNamed(cmd *cli.Command, name string) error {
	names := slices.Clone(ending)
	for _, c := range cmd.VisibleCommands() {
		names = append(names, c.Names()...)
	}
	if near := config.Nearest(name, names); near != "" && !slices.Contains(ending, near) {
		return usagef("no command %q in %q (did you mean %q?)", name, cmd.FullName(), near)
	}
	return usagef("no command %q in %q (run %q)", name, cmd.FullName(), cmd.FullName()+" --help")
}

// ending are commands that stop, delete or refuse something. They are never suggested, nor is another one for a name that is nearest to
// one of them: a suggestion may be run without a second look.
var ending = []string{"stop", "halt", "delete", "remove", "forget", "prune", "revoke", "deny", "restart", "rollback", "uninstall"}

// checkArguments counts a command's arguments against its ArgsUsage, in which [NAME] may be left out and NAME... may be repeated.
func checkArguments(_ context.Context, cmd *cli.Command) error {
	words := strings.Fields(cmd.ArgsUsage)
	least, most := 0, len(words)
	for _, word := range words {
		if !strings.HasPrefix(word, "[") {
			least++
		}
		if strings.Contains(word, "...") {
			most = math.MaxInt
		}
	}
	needs := ""
	switch n := cmd.Args().Len(); {
	case n >= least && n <= most:
		return nil
	case most == 0:
		return usagef("unexpected argument %q (run %q)", cmd.Args().First(), cmd.FullName()+" --help")
	case most == math.MaxInt:
		needs = "at least one argument"
	case least < most && most == 1:
		needs = "at most one argument"
	case least < most:
		needs = "at most two arguments"
	case most == 1:
		needs = "one argument"
	default:
		needs = "two arguments"
	}
	return usagef("needs %s: %s %s", needs, cmd.FullName(), cmd.ArgsUsage)
}

// withConfig returns an action on the configuration, as loadConfig returns it.
func withConfig(do func(context.Context, *cli.Command, *config.Config) error) cli.ActionFunc {
	return func(ctx context.Context, cmd *cli.Command) error {
		c, err := loadConfig(ctx, cmd)
		if err != nil {
			return err
		}
		return do(ctx, cmd, c)
	}
}

type getenvKey struct{}

func withGetenv(ctx context.Context, getenv func(string) string) context.Context {
	return context.WithValue(ctx, getenvKey{}, getenv)
}

// getenvOf returns the environment that run was given.
func getenvOf(ctx context.Context) func(string) string {
	return ctx.Value(getenvKey{}).(func(string) string)
}

// configPath returns the configuration file that the command works on.
func configPath(ctx context.Context, cmd *cli.Command) string {
	return cmp.Or(cmd.String("config"), getenvOf(ctx)("FLYNN_CONFIG"), "flynn.toml")
}
