package main

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/flynnhost/flynn/sdk/need"
)

// serveOne is the script command "serve CONFIG [FILE...]": it runs a host to the end of the script, at a free address in place of
// "127.0.0.1:1" in the configuration and in other files.
func serveOne(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: serve CONFIG [FILE...]")
	}
	address, err := need.FreeAddress()
	ts.Check(err)
	for _, name := range args {
		text, err := os.ReadFile(ts.MkAbs(name))
		ts.Check(err)
		ts.Check(os.WriteFile(ts.MkAbs(name), bytes.ReplaceAll(text, []byte(`"127.0.0.1:1"`), []byte(`"`+address+`"`)), 0o600))
	}

	getenv := environment(ts)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	var errs bytes.Buffer
	go func() {
		defer close(ended)
		run(ctx, []string{"flynn", "--config", ts.MkAbs(args[0]), "serve"}, getenv, strings.NewReader(""), discard{}, &errs)
	}()
	ts.Defer(func() { cancel(); <-ended })
	for deadline := time.After(2 * time.Minute); ; {
		if resp, err := http.Get("http://" + address + "/readyz"); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
		}
		select {
		case <-ended:
			ts.Fatalf("the host has ended: %s", errs.String())
		case <-deadline:
			ts.Fatalf("the host is not ready")
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// environment returns the environment of a script as it is now. The script may change its own while a host runs.
func environment(ts *testscript.TestScript) func(string) string {
	ts.Check(ts.Exec("env", "-0"))
	values := map[string]string{}
	for _, line := range strings.Split(ts.ReadFile("stdout"), "\x00") {
		name, value, _ := strings.Cut(line, "=")
		values[name] = value
	}
	return func(name string) string { return values[name] }
}
