// Command gen writes the headers of other languages from the constants of package abi.
//
// Run it with `go generate ./sdk/policy/abi/gen` after a change to abi.go; a test fails while the
// committed header differs from what it writes.
package main

import (
	"fmt"
	"os"
)

//go:generate go run . ../abi.go flynn.h.tmpl ../../c/flynn.h
func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: gen abi.go flynn.h.tmpl flynn.h")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run(source, template, target string) error {
	header, err := generate(source, template)
	if err != nil {
		return err
	}
	return os.WriteFile(target, header, 0o644)
}
