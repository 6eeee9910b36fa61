package livetest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// children are the processes that the host started and that live, by the kernel's own list.
func (s *site) children() []int {
	s.t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", s.cmd.Process.Pid))
	if err != nil || len(tasks) == 0 {
		s.t.Fatalf("the kernel does not list children: %v", err)
	}
	var pids []int
	for _, path := range tasks {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // the thread has ended
		}
		for field := range strings.FieldsSeq(string(text)) {
			pid, err := strconv.Atoi(field)
			if err != nil {
				s.t.Fatal(err)
			}
			pids = append(pids, pid)
		}
	}
	return pids
}

// alive reports whether a process exists and is no zombie.
func alive(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	return !strings.HasPrefix(rest, "Z")
}
