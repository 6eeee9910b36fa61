package main

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/flynnhost/flynn/host"
)

// serving is the script command "serving CONFIG": a host runs with a configuration of the script until the script ends, and listens on
// a free port in the place of port 1, which the file names.
func serving(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: serving CONFIG")
	}
	path := ts.MkAbs(args[0])
	text, err := os.ReadFile(path)
	ts.Check(err)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	address := free.Addr().String()
	ts.Check(free.Close())
	ts.Check(os.WriteFile(path, bytes.Replace(text, []byte("127.0.0.1:1\""), []byte(address+"\""), 1), 0o600))
	getenv := func(key string) string { return map[string]string{"HOME": ts.Getenv("HOME")}[key] }
	ctx, stop := context.WithCancel(context.Background())
	h, err := host.New(ctx, host.Config{Path: path, Getenv: getenv, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		stop()
	}
	ts.Check(err)
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }() // ends with the script
	ts.Defer(func() {
		stop()
		<-done
	})
	for deadline := time.Now().Add(time.Minute); ; {
		if conn, err := net.Dial("tcp", address); err == nil {
			conn.Close()
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("the host does not listen on %s", address)
		}
	}
}
