package author

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Prove asks a module the cases of the policy's folder in which path lies, if path is the module of that folder. It asks the given bytes, not the
// current file at path. The error names the first case that fails. cache is a folder for compiled code, "" for a temporary one.
func Prove(ctx context.Context, path string, wasm []byte, cache string) error {
	dir, m, err := FolderOf(path)
	switch {
	case errors.Is(err, ErrNoSource): // a module without a folder
		return nil
	case err != nil:
		return err
	case !hasCases(dir):
		return nil
	}
	report, err := askModule(ctx, m, dir, wasm, cache)
	if err != nil {
		return err
	}
	return firstFailure(dir, report.Cases)
}

// Proofs returns a digest of the manifest and the cases that Prove uses for a module at the path.
func Proofs(path string) string {
	dir := filepath.Dir(path)
	files, err := filepath.Glob(filepath.Join(dir, casesDir, "*"))
	h := sha256.New()
	for _, f := range append(files, filepath.Join(dir, manifestFile)) {
		if err == nil {
			err = digestInto(h, f)
		}
	}
	if err != nil { // Prove reports it
		return err.Error()
	}
	return hex.EncodeToString(h.Sum(nil))
}

func digestInto(w io.Writer, path string) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	fmt.Fprintf(w, "%q\n", path)
	_, err = io.Copy(w, io.LimitReader(f, maxProof))
	return err
}

// maxProof bounds what is read of one file for the digest, in bytes.
const maxProof = 16 << 20

// hasCases reports whether the folder has files of cases.
func hasCases(dir string) bool {
	files, err := filepath.Glob(filepath.Join(dir, casesDir, "*.toml"))
	return err != nil || len(files) > 0
}

// askModule asks a module the cases in dir, as Test does.
func askModule(ctx context.Context, m Manifest, dir string, wasm []byte, cache string) (report Report, err error) {
	temp, err := os.MkdirTemp("", "flynn-policy-*")
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	s := &Subject{dir: dir, manifest: m, path: filepath.Join(temp, "policy.wasm"), cache: cmp.Or(cache, filepath.Join(temp, "cache"))}
	if err := os.WriteFile(s.path, wasm, 0o600); err != nil {
		return report, err
	}
	return s.test(ctx, nil, nil)
}

func firstFailure(dir string, results []CaseResult) error {
	bad := slices.DeleteFunc(results, func(c CaseResult) bool { return c.Passed })
	if len(bad) == 0 {
		return nil
	}
	var diffs []string
	for _, d := range bad[0].Diffs {
		diffs = append(diffs, d.String())
	}
	more := ""
	if len(bad) > 1 {
		more = fmt.Sprintf(" (and %d more)", len(bad)-1)
	}
	return fmt.Errorf("case %q of %s fails: %s%s: run flynn policy dev test %s", bad[0].Name, bad[0].File, strings.Join(diffs, ", "), more, dir)
}
