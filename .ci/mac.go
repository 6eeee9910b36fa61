// The command mac reports what does not compile on a Mac, in a program or in a test:
//
//	go run .ci/mac.go [ARCH]
//
// It checks types and makes no code, which takes a tenth of the time of go vet: that compiles each dependency for the Mac first.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// listed is what go list says of a package.
type listed struct {
	ImportPath, Dir string
	GoFiles         []string
	ImportMap       map[string]string
	Module          *struct {
		Main      bool
		GoVersion string
	}
}

func main() {
	arch := "arm64"
	if len(os.Args) > 1 {
		arch = os.Args[1]
	}
	c := checker{
		arch: arch, files: token.NewFileSet(), listed: map[string]listed{}, errs: map[string]bool{},
		checked: map[string]*types.Package{"unsafe": types.Unsafe},
	}
	err := c.list()
	for path := range c.listed {
		if err == nil {
			_, err = c.check(path)
		}
	}
	for _, e := range slices.Sorted(maps.Keys(c.errs)) {
		fmt.Fprintln(os.Stderr, e)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mac:", err)
	}
	if err != nil || len(c.errs) > 0 {
		os.Exit(1)
	}
}

// checker checks the packages of the module and all that they need.
type checker struct {
	arch    string
	files   *token.FileSet
	listed  map[string]listed
	checked map[string]*types.Package
	errs    map[string]bool // a package that has tests is checked with them and without
}

// list asks the go command for the packages, those of the tests among them.
func (c *checker) list() error {
	cmd := exec.Command("go", "list", "-deps", "-test", "-json=ImportPath,Dir,GoFiles,ImportMap,Module", "./...")
	cmd.Env = append(os.Environ(), "GOOS=darwin", "GOARCH="+c.arch, "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("go list: %w", err)
	}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read what go list says: %w", err)
		}
		if !strings.HasSuffix(p.ImportPath, ".test") { // the main function of a test is go's
			c.listed[p.ImportPath] = p
		}
	}
}

// check checks a package after those that it imports. Of other modules it reads the declarations only.
func (c *checker) check(path string) (*types.Package, error) {
	if done, ok := c.checked[path]; ok {
		return done, nil
	}
	p, ok := c.listed[path]
	if !ok {
		return nil, fmt.Errorf("go list has no package %q", path)
	}
	var parsed []*ast.File
	for _, name := range p.GoFiles {
		file, err := parser.ParseFile(c.files, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		parsed = append(parsed, file)
	}
	own := p.Module != nil && p.Module.Main
	conf := types.Config{
		Importer: importer{c, p.ImportMap}, IgnoreFuncBodies: !own, Sizes: types.SizesFor("gc", c.arch),
		Error: func(err error) { c.errs[err.Error()] = true },
	}
	if own {
		conf.GoVersion = "go" + p.Module.GoVersion
	}
	name, _, _ := strings.Cut(path, " ") // such as p [p.test], the package p with its tests
	done, _ := conf.Check(name, c.files, parsed, nil)
	c.checked[path] = done
	return done, nil
}

// importer finds the packages that one of them imports.
type importer struct {
	*checker
	renamed map[string]string
}

func (i importer) Import(path string) (*types.Package, error) {
	if to, ok := i.renamed[path]; ok {
		path = to
	}
	return i.check(path)
}
