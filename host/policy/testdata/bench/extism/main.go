// Program extism stands beside a policy in the table of benchmarks: a plugin of Extism's that answers the twenty rules. It is a module of its own,
// so that Flynn does not depend on Extism, and takes its own time, inside its process.
//
// Its arguments are the plugin and the timeout of a call in milliseconds, or 0 for none. It reads questions from standard input, one JSON object a
// line, and an empty line. Then it answers each line with a number of rounds by one line, the nanoseconds that each of them took. A
// round asks every question once.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"time"

	sdk "github.com/extism/go-sdk"
)

func main() {
	if err := measure(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type question struct {
	Channel, Sender string
	Agent           string // that is right

	input []byte // as the plugin wants it
}

func measure(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("want a plugin and a timeout, got %q", args)
	}
	timeout, err := strconv.ParseUint(args[1], 10, 31)
	if err != nil {
		return err
	}
	manifest := sdk.Manifest{Wasm: []sdk.Wasm{sdk.WasmFile{Path: args[0]}}, Timeout: timeout}
	plugin, err := sdk.NewPlugin(ctx, manifest, sdk.PluginConfig{}, nil)
	if err != nil {
		return err
	}
	defer plugin.Close(ctx)
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	questions, err := read(in)
	for err == nil && in.Scan() {
		err = rounds(in.Text(), func() error {
			for i := range questions {
				q := &questions[i]
				if _, out, err := plugin.Call("route", q.input); err != nil || string(out) != q.Agent {
					return fmt.Errorf("%s is sent to %q, want %q: %v", q.Sender, out, q.Agent, err)
				}
			}
			return nil
		})
	}
	return err
}

func read(in *bufio.Scanner) (list []question, err error) {
	for in.Scan() && len(in.Bytes()) > 0 {
		var q question
		if err := json.Unmarshal(in.Bytes(), &q); err != nil {
			return nil, err
		}
		q.input = []byte(q.Channel + "\x00" + q.Sender)
		list = append(list, q)
	}
	return list, in.Err()
}

// rounds prints what each of them takes.
func rounds(wanted string, round func() error) error {
	var n int
	if _, err := fmt.Sscan(wanted, &n); err != nil {
		return err
	}
	took := make([]any, n)
	for i := range took {
		began := time.Now()
		if err := round(); err != nil {
			return err
		}
		took[i] = time.Since(began).Nanoseconds()
	}
	_, err := fmt.Println(took...)
	return err
}
