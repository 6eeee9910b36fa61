package service

import (
	"fmt"
	"net"
)

// Ready tells systemd that the program which it has started is ready, see sd_notify(3). Without systemd it does nothing.
func Ready(getenv func(string) string) error {
	socket := getenv("NOTIFY_SOCKET")
	if socket == "" {
		return nil
	}
	conn, err := net.Dial("unixgram", socket) // a name that begins with @ is abstract, as in Go
	if err != nil {
		return fmt.Errorf("tell systemd that flynn is ready: %w", err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("READY=1")); err != nil {
		return fmt.Errorf("tell systemd that flynn is ready: %w", err)
	}
	return nil
}
