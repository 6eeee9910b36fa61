//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

const (
	// leaveBytes is how much shared memory leave makes, and leaveSets how many queues and semaphore sets.
	leaveBytes = 16 << 20
	leaveSets  = 300
	// leftSets is how many of those may be left: they are the kernel's memory, some tens of kilobytes each when they are full.
	leftSets = 150
)

// leave makes System V objects that outlive their processes, and ends. It skips kinds that the kernel does not have.
func leave([]string) (answer, error) {
	if id, err := unix.SysvShmGet(unix.IPC_PRIVATE, leaveBytes, 0o600|unix.IPC_CREAT); err == nil {
		memory, err := unix.SysvShmAttach(id, 0, 0)
		if err != nil {
			return answer{}, err
		}
		for i := 0; i < len(memory); i += os.Getpagesize() {
			memory[i] = 1
		}
	}
	for range leaveSets {
		_, _, _ = unix.Syscall(unix.SYS_MSGGET, unix.IPC_PRIVATE, 0o600|unix.IPC_CREAT, 0)
		_, _, _ = unix.Syscall(unix.SYS_SEMGET, unix.IPC_PRIVATE, 1, 0o600|unix.IPC_CREAT)
	}
	return held("made what there is room for"), nil
}

// left counts what leave has left; see proc_sysvipc(5).
func left([]string) (answer, error) {
	var counts []any
	most := 0
	for _, kind := range []string{"shm", "msg", "sem"} {
		table, err := os.ReadFile("/proc/sysvipc/" + kind)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return answer{}, err
		}
		n := max(bytes.Count(table, []byte("\n"))-1, 0) // below the titles
		counts = append(counts, n)
		if most = max(most, n); kind == "shm" && n > 0 {
			most = leaveSets
		}
	}
	text := fmt.Sprintf("%d pieces of shared memory, %d queues, %d sets of semaphores", counts...)
	if most > leftSets {
		return breach("%s", text), nil
	}
	return held("%s", text), nil
}
