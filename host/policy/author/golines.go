package author

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/policy/cover"
)

// Go's linker leaves no debug information in Wasm, and its optimiser leaves many lines without code: of
//
//	if f.Role() == "owner" {
//		n = 1
//	}
//
// nothing in the module is of the second line. Its lines are therefore counted in a second module, of the same source by the same compiler,
// in which each line has code of its own. It speaks for the module that ships because it has to answer every case as that one did, and ask the
// host the same on the way; and because that one is built again, to the byte, so that both are known to be of the source that lies there.

// roomOfLines is how many times the limits of the module the second one gets: without the optimiser it takes longer.
const roomOfLines = 20

// coverLines puts the coverage of lines into a report, whose blocks stay those of the module that ships. Without, the note says why.
func (p *loaded) coverLines(ctx context.Context, dir string, only *regexp.Regexp, shipped []CaseResult, report *cover.Report) error {
	exact, err := p.goLines(ctx, dir, only, shipped)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		report.Note = "lines are told apart by calls and branches only: " + strings.ReplaceAll(err.Error(), "\n", " ")
		return nil
	}
	exact.Total, exact.Module = report.Total, report.Module
	*report = exact
	return nil
}

// goLines runs the cases in the second module.
func (p *loaded) goLines(ctx context.Context, dir string, only *regexp.Regexp, shipped []CaseResult) (report cover.Report, err error) {
	ctx, cancel := context.WithTimeout(ctx, buildTimeout)
	defer cancel()
	temp, err := os.MkdirTemp("", "flynn-lines-*")
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	if err := p.sameSource(ctx, dir, filepath.Join(temp, "again.wasm")); err != nil {
		return report, err
	}
	second, source, err := p.second(ctx, dir, filepath.Join(temp, "lines.wasm"))
	if err != nil {
		return report, err
	}
	result, all, err := second.testCounted(ctx, dir, only)
	if err != nil {
		return report, err
	}
	if err := sameConduct(shipped, result.Cases); err != nil {
		return report, err
	}
	return source.Report(all.module.Blocks(), all.counts, ownCode(p.manifest, dir)), nil
}

// sameSource builds the module again.
func (p *loaded) sameSource(ctx context.Context, dir, again string) error {
	if err := compileGo(ctx, p.manifest, dir, again); err != nil {
		return err
	}
	want, err := os.ReadFile(p.path)
	if err != nil {
		return err
	}
	got, err := os.ReadFile(again)
	if err == nil && !bytes.Equal(want, got) {
		err = fmt.Errorf("%s was not built from this source by this toolchain: run flynn policy build %s", p.path, dir)
	}
	return err
}

// second builds the module with the optimiser off, with the compiler's listing of it.
func (p *loaded) second(ctx context.Context, dir, path string) (*loaded, *cover.Source, error) {
	const flags = "-S -N -l"
	said, err := compileGoWith(ctx, p.manifest, dir, path, "-gcflags="+flags, "-gcflags=./...="+flags)
	if err != nil {
		return nil, nil, err
	}
	listing, err := cover.ParseListing(bytes.NewReader(said))
	if err != nil {
		return nil, nil, err
	}
	wasm, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	source, others, err := cover.ReadListed(wasm, listing)
	if err == nil && len(others) > 0 {
		err = fmt.Errorf("the compiler's listing of %s is not what it has built", strings.Join(others, ", "))
	}
	second := *p
	second.path, second.mode = path, Mode{Room: roomOfLines}
	return &second, source, err
}

// sameConduct compares what two modules did in each case: their host calls with the answers, and their own answer. Of a failure only the
// class has to be the same.
func sameConduct(one, two []CaseResult) error {
	for i, a := range one {
		b := two[i]
		callsA, answerA, _ := strings.Cut(a.trace, "\n-> ")
		callsB, answerB, _ := strings.Cut(b.trace, "\n-> ")
		if a.Outcome.Error != "" {
			answerA, answerB = errorClass(a.Outcome.Error), errorClass(b.Outcome.Error)
		}
		switch class := errorClass(a.Outcome.Error); {
		case callsA == callsB && answerA == answerB:
		case slices.Contains([]policy.Class{policy.ClassFuel, policy.ClassDepth, policy.ClassDeadline, policy.ClassMemory}, policy.Class(class)):
			return fmt.Errorf("case %q ends at a limit (%s), and without the optimiser elsewhere: raise it under [limits] of %s", a.Name, class, manifestFile)
		default:
			return fmt.Errorf("without the optimiser the policy does something else in case %q", a.Name)
		}
	}
	return nil
}
