package main

import (
	"context"
	"errors"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host/gateway"
)

func openCommand() *cli.Command {
	return &cli.Command{
		Name: "open", Category: groupStart,
		Usage: "open the web page in a browser, signed in as its owner",
		Description: "Without a desktop, and with --print, prints the address instead. The address gives the owner's rights: open it in your own\n" +
			"browser and share it with nobody. The token comes from [gateway] token_file; the page asks for it if the address has none.",
		Flags:  append(gatewayFlags(), &cli.BoolFlag{Name: "print", Usage: "only print the address"}),
		Action: openPage,
	}
}

// webCommand is the name of flynn open before it opened anything: it prints the address.
func webCommand() *cli.Command {
	c := openCommand()
	c.Action = printPage
	return renamed("web", c)
}

func openPage(ctx context.Context, cmd *cli.Command) error {
	launcher, err := browserLauncher(getenvOf(ctx))
	if err != nil || cmd.Bool("print") || cmd.Bool("json") {
		return printPage(ctx, cmd)
	}
	url, token, err := gatewayToken(ctx, cmd)
	if err != nil {
		return err
	}
	_, tokenFile, err := gatewayAddress(ctx, cmd)
	if err != nil {
		return err
	}
	signIn := filepath.Join(filepath.Dir(tokenFile), "open.html")
	if err := writeSignIn(signIn, gateway.PageURL(url, token)); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if out, err := exec.CommandContext(ctx, launcher, signIn).CombinedOutput(); err != nil {
		return fmt.Errorf("open a browser with %s: %w: %.200s; print the address with: flynn open --print", launcher, err, out)
	}
	newOutput(ctx, cmd).done("opened %s", url)
	return nil
}

func printPage(ctx context.Context, cmd *cli.Command) error {
	url, token, err := gatewayToken(ctx, cmd)
	if err != nil {
		return err
	}
	address := gateway.PageURL(url, token)
	return newOutput(ctx, cmd).result(map[string]string{"url": address}, "%s", address)
}

// writeSignIn writes a page that leads to an address. Other users of the machine can read the arguments of a browser, but not this file, so
// the token stays out of them.
func writeSignIn(path, address string) error {
	text := "<!doctype html><meta name=referrer content=no-referrer><meta http-equiv=refresh content=\"0;url=" + html.EscapeString(address) + "\">\n"
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("write the page that opens the address: %w", err)
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// browserLauncher returns the program that opens a file in the person's browser, or why there is none.
func browserLauncher(getenv func(string) string) (string, error) {
	if runtime.GOOS == "darwin" {
		return exec.LookPath("open")
	}
	if getenv("DISPLAY") == "" && getenv("WAYLAND_DISPLAY") == "" {
		return "", errors.New("there is no desktop")
	}
	return exec.LookPath("xdg-open")
}
