package author

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/policy/cover"
	"golang.org/x/mod/modfile"
)

// TestCovered is Test with Report.Coverage: what the cases have run of the module's source. Answers and fuel are those of Test.
func TestCovered(ctx context.Context, dir string, only *regexp.Regexp) (report Report, err error) {
	p, err := load(dir)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	report, all, err := p.testCounted(ctx, dir, only)
	if err != nil {
		return report, err
	}
	coverage, err := p.coverage(dir, all)
	if err == nil && p.manifest.Language == "go" {
		err = p.coverLines(ctx, dir, only, report.Cases, &coverage)
	}
	report.Coverage = &coverage
	return report, err
}

// testCounted is test with the counts of what has run.
func (p *loaded) testCounted(ctx context.Context, dir string, only *regexp.Regexp) (Report, *tally, error) {
	all := &tally{}
	p.mode.Count = true
	report, err := p.test(ctx, dir, only, func(ctx context.Context, c Case) (asker, error) {
		a, err := p.openCase(ctx, c)
		if err != nil {
			return nil, err
		}
		return countedAsker{a, all}, nil
	})
	return report, all, err
}

// tally adds up what several loadings of one module have run.
type tally struct {
	module *policy.Module // any of them
	counts []uint64
}

// add takes what the module has run. Its initialisation counts: it has run whatever was asked.
func (t *tally) add(m *policy.Module) {
	if t.module == nil {
		t.module, t.counts = m, make([]uint64, len(m.Blocks()))
	}
	for i, n := range m.InitialCounts() {
		t.counts[i] += n
	}
	m.TakeCounts(func(block int, n uint64) { t.counts[block] += n })
}

// countedAsker adds to the tally when it is closed.
type countedAsker struct {
	asker
	all *tally
}

func (c countedAsker) Close() error {
	if q, ok := c.asker.(*question); ok {
		c.all.add(q.module)
	}
	return c.asker.Close()
}

// coverage puts a tally beside the policy's source.
func (p *loaded) coverage(dir string, t *tally) (cover.Report, error) {
	wasm, err := readModule(p.manifest, dir)
	if err != nil {
		return cover.Report{}, err
	}
	source, err := readSource(p.path, wasm)
	if err != nil {
		return cover.Report{}, fmt.Errorf("%s: %w", p.path, err)
	}
	if t.module == nil {
		return cover.Report{}, errors.New("no case was asked, so that nothing is covered")
	}
	return source.Report(t.module.Blocks(), t.counts, ownCode(p.manifest, dir)), nil
}

// ownCode tells the author's code from that of the language and of the SDK.
func ownCode(m Manifest, dir string) cover.Own {
	own := cover.Own{File: cover.InFolder("flynn.h", "flynn/", "vendor/", "node_modules/", "target/")}
	switch m.Language {
	case "go":
		module := goModule(dir)
		own.Function = func(name string) bool { return ownGo(name, module) }
		if own.Below = goPackage(dir); strings.HasSuffix(m.Build.Source, ".go") {
			// Files that are named one by one keep the name that they were given, and every other is in a folder.
			own.Below, own.File = "", func(name string) bool { return !strings.Contains(name, "/") && strings.HasSuffix(name, ".go") }
		}
	case "rust":
		own.Function = func(name string) bool {
			return !slices.ContainsFunc([]string{"_ZN4core", "_ZN5alloc", "_ZN3std", "_ZN17compiler_builtins", "_ZN5flynn", "rust_", "__rust"},
				func(prefix string) bool { return strings.HasPrefix(name, prefix) })
		}
	case "rego":
		own.Function = regexp.MustCompile(`^g\d+\.data\.`).MatchString // a rule; the rest is OPA's own library
	case "assemblyscript":
		own.Function = func(name string) bool {
			return !strings.HasPrefix(name, "~") && !strings.HasPrefix(name, "flynn") && !strings.HasPrefix(name, "node_modules/")
		}
	}
	return own
}

// ownGo knows the functions of package main and of the packages below the policy's module. The linker has put an underscore for
// everything but letters, digits and dots. Package main has a function main that a library never runs.
func ownGo(name, module string) bool {
	if strings.HasPrefix(name, "main.") {
		return name != "main.main"
	}
	return module != "" && strings.HasPrefix(name, module+"_")
}

// goModule is the path of the module in the policy's folder as the linker writes it, or "".
func goModule(dir string) string {
	text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return ""
	}
	return regexp.MustCompile(`[^\w.]`).ReplaceAllString(modfile.ModulePath(text), "_")
}

// goPackage is how the compiler names the files in dir: by the path of the module that the folder lies in and the way from there.
func goPackage(dir string) string {
	dir = absolute(dir)
	for at := dir; ; at = filepath.Dir(at) {
		text, err := os.ReadFile(filepath.Join(at, "go.mod"))
		if rest, outside := filepath.Rel(at, dir); err == nil && outside == nil {
			return path.Join(modfile.ModulePath(text), filepath.ToSlash(rest)) + "/"
		}
		if at == filepath.Dir(at) {
			return "./"
		}
	}
}

// WriteCoverage writes the coverage of the policy in dir in LCOV's format.
func (r Report) WriteCoverage(w io.Writer, dir string) error {
	if err := r.Coverage.WriteLCOV(w, r.Policy, filepath.ToSlash(dir)); err != nil {
		return fmt.Errorf("%s: %w; take --json", r.Module, err)
	}
	return nil
}

// lineTables makes clang say which line each instruction is from, which costs bytes of the file and nothing else: the host drops them when it
// loads the module. Paths are from the policy's folder, so that the same source makes the same module anywhere.
func lineTables(dir, include string) []string {
	return []string{"-gline-tables-only", "-fdebug-compilation-dir=.", "-ffile-prefix-map=" + include + "=~flynn", "-ffile-prefix-map=" + absolute(dir) + "=."}
}

// rustLineTables is lineTables for rustc.
func rustLineTables(dir string) []string {
	return []string{"-C", "debuginfo=1", "--remap-path-prefix", absolute(dir) + "=."}
}
