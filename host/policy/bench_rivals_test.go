package policy

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// rival is a program that answers the same questions in its own way and takes its own time.
type rival struct {
	stdin io.WriteCloser
	out   *bufio.Scanner
}

// buildRival builds a program below testdata/bench, and says why it could not: the source of what it needs may be missing.
func buildRival(b *testing.B, name string) (program string, err error) {
	program = filepath.Join(b.TempDir(), name)
	build := exec.Command("go", "build", "-o", program, ".")
	build.Dir = filepath.Join("testdata", "bench", name)
	if said, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build it: %w: %s", err, said)
	}
	return program, nil
}

func startRival(b *testing.B, questions []byte, program string, args ...string) *rival {
	cmd := exec.Command(program, args...)
	var said strings.Builder
	cmd.Stderr = &said
	stdin, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	r := &rival{stdin, bufio.NewScanner(stdout)}
	r.out.Buffer(nil, 1<<20)
	b.Cleanup(func() {
		stdin.Close()
		if err := cmd.Wait(); err != nil {
			b.Errorf("%s: %v: %s", filepath.Base(program), err, &said)
		}
	})
	if _, err := fmt.Fprintf(stdin, "%s\n", questions); err != nil {
		b.Fatal(err)
	}
	return r
}

// rounds makes so many and returns the time of one decision in each.
func (r *rival) rounds(b *testing.B, n, questions int) []time.Duration {
	if _, err := fmt.Fprintln(r.stdin, n); err != nil {
		b.Fatal(err)
	}
	if !r.out.Scan() {
		b.Fatal("a rival has ended")
	}
	var took []time.Duration
	for _, word := range strings.Fields(r.out.Text()) {
		nanos, err := strconv.Atoi(word)
		if err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Duration(nanos/questions))
	}
	return took
}

// rivalQuestions are the messages as rivals read them.
func rivalQuestions(b *testing.B, messages []RouteFacts, want []string) []byte {
	var all []byte
	everything := newDocument(func(string) bool { return true })
	for i := range messages {
		q := routeQuery(&messages[i], "UTC", newAgentList(messages[i].Agents))
		facts, failed := everything.build(q, nil)
		if failed != nil {
			b.Fatal(failed)
		}
		line, err := json.Marshal(map[string]any{"channel": messages[i].Message.Channel, "sender": messages[i].Message.SenderKey(),
			"facts": json.RawMessage(facts), "agent": want[i]})
		if err != nil {
			b.Fatal(err)
		}
		all = append(append(all, line...), '\n')
	}
	return all
}
