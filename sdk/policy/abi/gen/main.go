// Command gen writes the constants of package abi in other languages.
//
// Run it with `go generate ./sdk/policy/abi/gen` after a change to abi.go; a test fails while the committed file differs from its output.
package main

import (
	"fmt"
	"os"
)

//go:generate go run . ../abi.go flynn.h.tmpl ../../c/flynn.h
//go:generate go run . ../abi.go abi.rs.tmpl ../../rust/src/abi.rs
//go:generate go run . ../abi.go abi.ts.tmpl ../../assemblyscript/abi.ts
func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: gen abi.go TEMPLATE TARGET")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run(source, template, target string) error {
	text, err := generate(source, template)
	if err != nil {
		return err
	}
	return os.WriteFile(target, text, 0o644)
}
