//go:build linux

// Command flynn-sandboxd-listen is flynn-sandboxd for drivers that cannot attach to a container: hosts connect to it over TLS. It is a program
// of its own because TLS would cost every other sandbox memory and time to start.
package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"strings"

	"github.com/flynnhost/flynn/host/sandbox/frame"
	"github.com/flynnhost/flynn/host/sandbox/resume"
	"github.com/flynnhost/flynn/host/sandbox/supervise"
)

func main() {
	if name, is := supervise.CalledAs(os.Args); is {
		os.Exit(supervise.CallBridge(name, os.Args[1:]))
	}
	run := func(args []string) error { return supervise.RunListening(args, listen) }
	if len(os.Args) == 3 && os.Args[1] == frame.RelayWord {
		run = relay
	}
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "flynn-sandboxd-listen:", err)
		os.Exit(1)
	}
}

// listen implements supervise.Listen. An address that begins with a slash is the path of a Unix socket.
func listen(identity []byte, address string) (<-chan io.ReadWriteCloser, error) {
	network := "tcp"
	if strings.HasPrefix(address, "/") {
		network = "unix"
	}
	plain, err := net.Listen(network, address)
	if err != nil {
		return nil, err
	}
	l, err := resume.NewListener(plain, identity, resume.Timeouts{})
	if err != nil {
		return nil, err
	}
	go l.Serve()
	return l.Hosts(), nil
}

// relay connects the standard streams with the supervisor that listens at an address. It ends with either of them.
func relay(args []string) error {
	conn, err := net.Dial("unix", args[1])
	if err != nil {
		return err
	}
	done := make(chan error, 2)
	pass := func(to io.Writer, from io.Reader) {
		_, err := io.Copy(to, from)
		done <- err
	}
	go pass(conn, os.Stdin)
	go pass(os.Stdout, conn)
	return <-done
}
