package author

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/flynnhost/flynn/host/policy"
)

// A golden trace is what a policy did in each case of a file: its host calls with their results, the rules that it traced,
// and its own answer. cases/NAME.golden lies beside cases/NAME.toml; without it nothing is compared. Fuel is not
// part of it, because another version of a compiler makes the same decision for other fuel.
const goldenSuffix = ".golden"

// trace returns one case as a golden file has it.
func trace(c Case, o Outcome, r policy.Record) string {
	var b strings.Builder
	fmt.Fprintf(&b, "== %s\n", c.Name)
	for _, call := range r.Calls {
		b.WriteString(traceCall(call))
	}
	o.Fuel, o.Took = 0, 0
	answer, _, _ := strings.Cut(o.String(), "; fuel ")
	fmt.Fprintf(&b, "-> %s\n", answer)
	return b.String()
}

func traceCall(c policy.HostCall) string {
	line, data := strings.TrimSpace(c.Name+" "+c.Arguments()), policy.OneLine(c.Data)
	if c.Name == "trace" || c.Name == "log" {
		return line + "\n"
	}
	return strings.TrimSuffix(fmt.Sprintf("%s -> %d %s", line, c.Ret, data), " ") + "\n"
}

// compareTraces adds the differences from the golden files to the results. A case that is missing from its file differs, too.
func compareTraces(dir string, results []CaseResult) error {
	files := map[string]map[string]string{}
	for i := range results {
		r := &results[i]
		golden, read := files[r.File]
		if !read {
			var err error
			if golden, err = readGolden(goldenPath(dir, r.File)); err != nil {
				return err
			}
			files[r.File] = golden
		}
		if golden == nil || golden[r.Name] == r.trace {
			continue
		}
		want, got := firstLineApart(golden[r.Name], r.trace)
		r.Diffs = append(r.Diffs, Diff{"trace", want, got})
		r.Passed = false
	}
	return nil
}

func goldenPath(dir, file string) string {
	return filepath.Join(dir, casesDir, strings.TrimSuffix(file, ".toml")+goldenSuffix)
}

// readGolden returns the traces by case, or nil where there is no file.
func readGolden(path string) (map[string]string, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for block := range strings.SplitSeq("\n"+string(text), "\n== ") {
		name, _, _ := strings.Cut(block, "\n")
		all[name] = "== " + strings.TrimSuffix(block, "\n") + "\n"
	}
	return all, nil
}

// firstLineApart returns the first lines that differ.
func firstLineApart(want, got string) (string, string) {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range max(len(a), len(b)) {
		x, y := lineAt(a, i), lineAt(b, i)
		if x != y {
			return x, y
		}
	}
	return "", ""
}

func lineAt(lines []string, i int) string {
	if i >= len(lines) || lines[i] == "" {
		return "nothing more"
	}
	return lines[i]
}

// UpdateTraces asks the built module in dir all its cases, writes the golden files and returns their names.
func UpdateTraces(ctx context.Context, dir string) (written []string, err error) {
	s, err := OpenSubject(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	cases, err := s.Cases()
	if err != nil {
		return nil, err
	}
	results, err := s.runCases(ctx, cases, nil)
	if err != nil {
		return nil, err
	}
	texts := map[string]string{}
	for _, r := range results {
		if _, begun := texts[r.File]; !begun {
			written = append(written, goldenPath(dir, r.File))
		}
		texts[r.File] += r.trace
	}
	for file, text := range texts {
		if err := replace(goldenPath(dir, file), func(temp string) error { return os.WriteFile(temp, []byte(text), 0o644) }); err != nil {
			return nil, err
		}
	}
	return written, nil
}
