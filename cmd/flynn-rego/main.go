// Command flynn-rego compiles a policy in Rego to the module that Flynn runs.
//
//	flynn-rego -kinds route,tool -o policy.wasm DIR
//
// `flynn policy dev build` calls it. It is a program of its own because OPA's compiler, which it is made of, is several times as large as
// Flynn.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/flynnhost/flynn/host/policy/rego"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stderr))
}

// Exit codes.
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
)

func run(ctx context.Context, args []string, stderr io.Writer) int {
	flags := flag.NewFlagSet("flynn-rego", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprintln(stderr, "usage: flynn-rego [-kinds route,tool] [-o policy.wasm] [DIR]")
		flags.PrintDefaults()
	}
	out := flags.String("o", "policy.wasm", "write the module to `FILE`")
	kinds := flags.String("kinds", "route", "what the policy decides: route, tool or both, with a comma between")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		return exitUsage
	case flags.NArg() > 1:
		flags.Usage()
		return exitUsage
	}
	dir := "."
	if flags.NArg() == 1 {
		dir = flags.Arg(0)
	}
	if err := compile(ctx, dir, *out, strings.Split(*kinds, ",")); err != nil {
		fmt.Fprintln(stderr, err)
		return exitError
	}
	return exitOK
}

func compile(ctx context.Context, dir, out string, kinds []string) error {
	wasm, err := rego.Compile(ctx, os.DirFS(dir), kinds)
	if err != nil {
		return err
	}
	return os.WriteFile(out, wasm, 0o644)
}
