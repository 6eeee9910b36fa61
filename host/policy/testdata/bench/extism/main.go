// Program extism measures a plugin of Extism's that answers twenty rules, for comparison with a policy. It is a module of its own, so that
// Flynn does not depend on Extism.
//
// Its arguments are the plugin, how many calls to make, and the timeout of one in milliseconds, or 0 for none. It reads questions from
// standard input, one a line, as channel, sender and the agent that is right with tabs between, and prints the nanoseconds of one call.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	sdk "github.com/extism/go-sdk"
)

func main() {
	if err := measure(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type question struct {
	input []byte
	agent string
}

func measure(args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("want a plugin, a number of calls and a timeout, got %q", args)
	}
	calls, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	timeout, err := strconv.ParseUint(args[2], 10, 31)
	if err != nil {
		return err
	}
	questions, err := read()
	if err != nil {
		return err
	}
	ctx := context.Background()
	manifest := sdk.Manifest{Wasm: []sdk.Wasm{sdk.WasmFile{Path: args[0]}}, Timeout: timeout}
	plugin, err := sdk.NewPlugin(ctx, manifest, sdk.PluginConfig{}, nil)
	if err != nil {
		return err
	}
	defer plugin.Close(ctx)
	if err := ask(plugin, questions, 2*len(questions)); err != nil { // checked, and warm
		return err
	}
	begin := time.Now()
	if err := ask(plugin, questions, calls); err != nil {
		return err
	}
	fmt.Println(time.Since(begin).Nanoseconds() / int64(max(calls, 1)))
	return nil
}

func read() (list []question, err error) {
	for in := bufio.NewScanner(os.Stdin); in.Scan(); err = in.Err() {
		f := strings.Split(in.Text(), "\t")
		if len(f) != 3 {
			return nil, fmt.Errorf("malformed question %q", in.Text())
		}
		list = append(list, question{[]byte(f[0] + "\x00" + f[1]), f[2]})
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("no questions")
	}
	return list, err
}

func ask(plugin *sdk.Plugin, questions []question, calls int) error {
	for n := range calls {
		q := &questions[n%len(questions)]
		_, out, err := plugin.Call("route", q.input)
		if err != nil {
			return err
		}
		if string(out) != q.agent {
			return fmt.Errorf("%q is answered by %q", q.input, out)
		}
	}
	return nil
}
