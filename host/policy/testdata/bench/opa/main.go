// Program opa stands beside a policy in the table of benchmarks: OPA as a library, with a prepared query. It is a program of its own so that the
// tests of the engine are not linked with OPA, and takes its own time, inside its process.
//
//	opa compile DIR OUT   compiles the policy in DIR to Wasm, as `flynn policy dev build` does
//	opa all DIR           answers with all facts of a message as input, as Go values, as a host has to that does not know what rules read
//	opa least DIR         answers with the two facts that the rules read as input, made to OPA's own values before
//
// It reads questions from standard input, one JSON object a line, and an empty line. Then it answers each line with a number of rounds
// by one line, the nanoseconds that each of them took. A round asks every question once.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	oparego "github.com/open-policy-agent/opa/v1/rego"

	"github.com/flynnhost/flynn/host/policy/rego"
)

func main() {
	if err := do(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func do(ctx context.Context, args []string) error {
	switch {
	case len(args) == 3 && args[0] == "compile":
		wasm, err := rego.Compile(ctx, os.DirFS(args[1]), []string{"route"})
		if err != nil {
			return err
		}
		return os.WriteFile(args[2], wasm, 0o600)
	case len(args) == 2 && (args[0] == "all" || args[0] == "least"):
		return answer(ctx, args[0] == "least", args[1])
	}
	return fmt.Errorf("usage: opa compile DIR OUT, opa all DIR, opa least DIR")
}

type question struct {
	Channel, Sender string
	Facts           map[string]any
	Agent           string // that is right

	input oparego.EvalOption
}

func answer(ctx context.Context, least bool, dir string) error {
	source, err := os.ReadFile(filepath.Join(dir, "policy.rego"))
	if err != nil {
		return err
	}
	query, err := oparego.New(oparego.Query("data.flynn.route"), oparego.Module("policy.rego", string(source))).PrepareForEval(ctx)
	if err != nil {
		return err
	}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	questions, err := read(in, least)
	for err == nil && in.Scan() {
		err = rounds(in.Text(), func() error {
			for i := range questions {
				q := &questions[i]
				if name, err := agent(query.Eval(ctx, q.input)); err != nil || name != q.Agent {
					return fmt.Errorf("%s is sent to %q, want %q: %v", q.Sender, name, q.Agent, err)
				}
			}
			return nil
		})
	}
	return err
}

func read(in *bufio.Scanner, least bool) (list []question, err error) {
	for in.Scan() && len(in.Bytes()) > 0 {
		var q question
		if err := json.Unmarshal(in.Bytes(), &q); err != nil {
			return nil, err
		}
		q.input = oparego.EvalInput(q.Facts)
		if least {
			q.input = oparego.EvalParsedInput(ast.MustInterfaceToValue(map[string]any{"channel": q.Channel, "sender": q.Sender}))
		}
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

func agent(set oparego.ResultSet, err error) (string, error) {
	if err != nil || len(set) == 0 {
		return "", err
	}
	value, _ := set[0].Expressions[0].Value.(map[string]any)
	name, ok := value["agent"].(string)
	if !ok {
		return "", fmt.Errorf("the rule answers %v", set[0].Expressions[0].Value)
	}
	return name, nil
}
