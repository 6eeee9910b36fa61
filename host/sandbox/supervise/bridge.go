//go:build linux

package supervise

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/sandbox/bridge/wire"
	"github.com/flynnhost/flynn/host/sandbox/frame"
)

const (
	// bridgeFolder is first in the PATH of commands: the host puts links to this program there, one for each bridged command.
	bridgeFolder = "/.flynn/bin"
	// bridgeSocket is abstract, because no folder is writable; it belongs to the container's network namespace, which is not shared with
	// other sandboxes.
	bridgeSocket = "@flynn-bridge"
	// exitNoBridge is the exit code if the host does not answer.
	exitNoBridge = 125
)

// isWorkload reports whether the program at the other end of a Unix socket belongs to the workload.
func (o *outlet) isWorkload(socket *os.File) bool {
	raw, err := socket.SyscallConn()
	if err != nil {
		return false
	}
	known := false
	_ = raw.Control(func(fd uintptr) {
		peer, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		known = err == nil && int(peer.Uid) == o.s.hello.UID
	})
	return known
}

// CalledAs returns the bridged command for which this program was called, if any; its name is args[0] then.
func CalledAs(args []string) (name string, is bool) {
	if os.Getpid() == 1 || len(args) == 0 {
		return "", false
	}
	name = filepath.Base(args[0])
	return name, !strings.HasPrefix(strings.TrimPrefix(name, "."), "flynn-sandboxd")
}

// CallBridge makes the host run a bridged command, and returns its exit code. A signal that ends this program also ends the command,
// because the host notices the end of the connection.
func CallBridge(name string, args []string) int {
	code, err := callBridge(name, args)
	if err != nil {
		fmt.Fprintf(os.Stderr, "flynn: %s: %v\n", name, err)
		return exitNoBridge
	}
	return code
}

func callBridge(name string, args []string) (int, error) {
	conn, err := dial(bridgeSocket)
	if err != nil {
		return 0, fmt.Errorf("connect to the host: %w", err)
	}
	defer conn.Close()
	dir, err := os.Getwd()
	if err != nil {
		return 0, fmt.Errorf("find the working directory: %w", err)
	}
	body := frame.Encode(wire.CallBody{Name: []byte(name), Argv: frame.Words(args), Dir: []byte(dir)})
	if len(body) > wire.MaxCall {
		return 0, errors.New("the arguments are too long")
	}
	if err := wire.Write(conn, wire.Call, body); err != nil {
		return 0, fmt.Errorf("send the call to the host: %w", err)
	}
	return follow(conn)
}

// follow copies the output until the exit code arrives.
func follow(conn io.ReadWriter) (int, error) {
	for {
		k, p, err := wire.Read(conn)
		if err != nil {
			return 0, fmt.Errorf("lost the connection to the host: %w", err)
		}
		switch k {
		case wire.Output:
			if _, err := os.Stdout.Write(p); err != nil {
				return 0, err
			}
		case wire.Errors:
			_, _ = os.Stderr.Write(p)
		case wire.Input:
			go sendInput(conn)
		case wire.Exit:
			return int(p[0]), nil
		}
	}
}

// sendInput ends with the program.
func sendInput(conn io.Writer) {
	buf := make([]byte, wire.MaxData)
	for {
		n, err := os.Stdin.Read(buf)
		if n > 0 && wire.Write(conn, wire.Input, buf[:n]) != nil {
			return
		}
		if err != nil {
			_ = wire.Write(conn, wire.Input, nil)
			return
		}
	}
}
