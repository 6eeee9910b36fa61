package author

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/policy/cover"
	"golang.org/x/mod/modfile"
)

// TestCovered is Test with Report.Coverage, the coverage of the module's source by the cases. Answers and fuel are those of Test.
func TestCovered(ctx context.Context, dir string, only *regexp.Regexp) (report Report, err error) {
	s, err := OpenSubject(dir)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	report, all, err := s.testCounted(ctx, only)
	if err != nil {
		return report, err
	}
	source, own, err := s.Source()
	if err != nil {
		return report, fmt.Errorf("%s: %w", s.path, err)
	}
	if all.module == nil {
		return report, errors.New("no case was run: nothing is covered")
	}
	coverage := source.Report(all.module.Blocks(), all.counts, own)
	report.Coverage = &coverage
	if s.manifest.Language == "go" {
		err = s.coverLines(ctx, only, report.Cases, &coverage)
	}
	return report, err
}

// testCounted is test with the counts of the blocks that have run.
func (s *Subject) testCounted(ctx context.Context, only *regexp.Regexp) (Report, *tally, error) {
	all := &tally{}
	s.mode.Count = true
	report, err := s.test(ctx, only, all)
	return report, all, err
}

// tally sums the counts of several loadings of one module. A nil tally sums nothing.
type tally struct {
	module *policy.Module // any of them
	counts []uint64
}

// add adds what the module has run, its initialisation included.
func (t *tally) add(m *policy.Module) {
	if t == nil {
		return
	}
	if t.module == nil {
		t.module, t.counts = m, make([]uint64, len(m.Blocks()))
	}
	for i, n := range m.InitialCounts() {
		t.counts[i] += n
	}
	m.TakeCounts(func(block int, n uint64) { t.counts[block] += n })
}

// ownCode distinguishes the author's code from the language's and the SDK's.
func ownCode(m Manifest, dir string) cover.Own {
	own := cover.Own{File: cover.InFolder("flynn.h", "flynn/", "vendor/", "node_modules/", "target/")}
	switch m.Language {
	case "go":
		module := goModule(dir)
		own.Function = func(name string) bool { return ownGo(name, module) }
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

// ownGo reports whether a function is of package main or of the packages below the policy's module. The linker replaces everything but
// letters, digits and dots by an underscore. A library never runs the function main of package main.
func ownGo(name, module string) bool {
	if strings.HasPrefix(name, "main.") {
		return name != "main.main"
	}
	return module != "" && strings.HasPrefix(name, module+"_")
}

// goModule returns the path of the module in the policy's folder as the linker writes it, or "".
func goModule(dir string) string {
	text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return ""
	}
	return regexp.MustCompile(`[^\w.]`).ReplaceAllString(modfile.ModulePath(text), "_")
}

// WriteCoverage writes the coverage of the policy in dir in LCOV's format.
func (r Report) WriteCoverage(w io.Writer, dir string) error {
	err := r.Coverage.WriteLCOV(w, r.Policy, filepath.ToSlash(dir))
	switch {
	case err != nil && r.Coverage.Note != "":
		return fmt.Errorf("%s: %s; use --json for coverage by function", r.Module, r.Coverage.Note)
	case err != nil:
		return fmt.Errorf("%s: %w; use --json for coverage by function", r.Module, err)
	}
	return nil
}
