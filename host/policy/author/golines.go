package author

import (
	"bytes"
	"context"
	"encoding/json"
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

// Lines of Go are counted in a second module, which is built by the same compiler from the same source with a call before each statement: see
// cover.Statements. Its counts hold for the module that ships because the two have to answer every case alike, with the same calls of the host
// on the way, and because the module that ships is built again and has to come out the same to the byte, so that both come from this source.

// roomOfLines multiplies the limits for the second module, which makes more calls.
const roomOfLines = 20

// coverLines adds the coverage of lines to a report, whose blocks stay those of the module that ships. If there is none, the note says why.
func (s *Subject) coverLines(ctx context.Context, only *regexp.Regexp, shipped []CaseResult, report *cover.Report) error {
	exact, err := s.goLines(ctx, only, shipped)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		report.Note = "lines are not known: " + strings.ReplaceAll(err.Error(), "\n", " ")
		return nil
	}
	exact.Total, exact.Module = report.Total, report.Module
	*report = exact
	return nil
}

// goLines runs the cases in the second module.
func (s *Subject) goLines(ctx context.Context, only *regexp.Regexp, shipped []CaseResult) (report cover.Report, err error) {
	ctx, cancel := context.WithTimeout(ctx, buildTimeout)
	defer cancel()
	temp, err := os.MkdirTemp("", "flynn-lines-*")
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	if err := s.sameSource(ctx, filepath.Join(temp, "again.wasm")); err != nil {
		return report, err
	}
	second := *s
	second.path, second.mode = filepath.Join(temp, "lines.wasm"), Mode{Room: roomOfLines}
	statements, err := s.instrumented(ctx, temp, second.path)
	if err != nil {
		return report, err
	}
	result, all, err := second.testCounted(ctx, only)
	if err != nil {
		return report, err
	}
	if err := sameConduct(shipped, result.Cases); err != nil {
		return report, err
	}
	wasm, err := os.ReadFile(second.path)
	if err != nil {
		return report, err
	}
	return statements.Report(wasm, all.module.Blocks(), all.counts)
}

// sameSource builds the module again, and compares it with the one that ships.
func (s *Subject) sameSource(ctx context.Context, again string) error {
	if err := compileGo(ctx, s.manifest, s.dir, again); err != nil {
		return err
	}
	want, err := os.ReadFile(s.path)
	if err != nil {
		return err
	}
	got, err := os.ReadFile(again)
	if err == nil && !bytes.Equal(want, got) {
		err = fmt.Errorf("%s was not built from this source by this toolchain: run flynn policy dev build %s", s.path, s.dir)
	}
	return err
}

// instrumented builds the second module at out. The compiler reads copies of the author's files, below temp, in place of the files.
func (s *Subject) instrumented(ctx context.Context, temp, out string) (*cover.Statements, error) {
	files, err := goFiles(ctx, s.manifest, s.dir)
	if err != nil {
		return nil, err
	}
	statements, copies := &cover.Statements{}, map[string]string{}
	for i, path := range files {
		name, err := filepath.Rel(absolute(s.dir), path)
		if err != nil {
			return nil, err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if text, err = statements.Instrument(filepath.ToSlash(name), text); err != nil {
			return nil, err
		}
		copies[path] = filepath.Join(temp, fmt.Sprintf("%d.go", i))
		if err := os.WriteFile(copies[path], text, 0o600); err != nil {
			return nil, err
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": copies})
	if err != nil {
		return nil, err
	}
	path := filepath.Join(temp, "overlay.json")
	if err := os.WriteFile(path, overlay, 0o600); err != nil {
		return nil, err
	}
	return statements, compileGo(ctx, s.manifest, s.dir, out, "-overlay="+path)
}

// goFiles returns the paths of the author's files that are compiled into the module.
func goFiles(ctx context.Context, m Manifest, dir string) ([]string, error) {
	const format = `{{$dir := .Dir}}{{range .GoFiles}}{{$dir}}/{{.}}{{"\n"}}{{end}}`
	list, err := runGo(ctx, dir, "list", "-deps", "-f="+format, m.Build.Source)
	if err != nil {
		return nil, err
	}
	own := ownCode(m, dir).File
	return slices.DeleteFunc(strings.Split(string(list), "\n"), func(path string) bool {
		name, err := filepath.Rel(absolute(dir), path)
		return err != nil || !own(filepath.ToSlash(name))
	}), nil
}

// sameConduct returns an error for the first case in which two modules made other host calls, got other results or answered otherwise. Failures
// only have to be of the same class.
func sameConduct(one, two []CaseResult) error {
	for i, a := range one {
		b := two[i]
		callsA, answerA, _ := strings.Cut(a.trace, "\n-> ")
		callsB, answerB, _ := strings.Cut(b.trace, "\n-> ")
		if a.Outcome.Error != "" {
			answerA, answerB = a.Outcome.Class(), b.Outcome.Class()
		}
		switch class := a.Outcome.Class(); {
		case callsA == callsB && answerA == answerB:
		case slices.Contains([]policy.Class{policy.ClassFuel, policy.ClassDepth, policy.ClassDeadline, policy.ClassMemory}, policy.Class(class)):
			return fmt.Errorf("case %q ends at a limit (%s), and elsewhere while statements are counted: raise it under [limits] of %s", a.Name, class, manifestFile)
		default:
			return fmt.Errorf("the policy does something else in case %q while statements are counted", a.Name)
		}
	}
	return nil
}
