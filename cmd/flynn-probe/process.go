//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
)

// setuid PROGRAM... runs copies of this program that try to become another user, and checks who they are.
func setuid(programs []string) (answer, error) {
	for _, program := range programs {
		out, err := exec.Command(program, "exit", "whoami").Output()
		if errors.Is(err, os.ErrPermission) || errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return answer{}, fmt.Errorf("run %s: %w", program, err)
		}
		if who := strings.TrimSpace(string(out)); who != strconv.Itoa(os.Getuid()) {
			return breach("%s runs as user %s", program, who), nil
		}
	}
	return held("still user %d", os.Getuid()), nil
}

// exit does nothing, or prints its user.
func exit(args []string) (answer, error) {
	if len(args) == 1 && args[0] == "whoami" {
		fmt.Println(os.Geteuid())
	}
	os.Exit(0)
	return answer{}, nil
}

// allocate BYTES allocates memory and touches every page of it.
func allocate(args []string) (answer, error) {
	if len(args) != 1 {
		return answer{}, errors.New("needs BYTES")
	}
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return answer{}, err
	}
	const piece = 1 << 20
	var taken [][]byte
	for got := 0; got < n; got += piece {
		b := make([]byte, piece)
		for i := 0; i < piece; i += os.Getpagesize() {
			b[i] = 1
		}
		taken = append(taken, b)
	}
	return breach("took %d MiB", len(taken)), nil
}

// wait is process 1 of a container that a negative control runs in: it reaps until its input ends, which it does even
// when the process that holds the other end crashes.
func wait([]string) (answer, error) {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	go reap(ended)
	_, err := io.Copy(io.Discard, os.Stdin)
	return held("waited"), err
}

func reap(ended <-chan os.Signal) {
	for range ended {
		for {
			if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 || err != nil {
				break
			}
		}
	}
}
