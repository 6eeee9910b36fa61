package author

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/flynnhost/flynn/sdk"
)

const (
	rustTarget = "wasm32-unknown-unknown"
	rustAdvice = "install it, on Debian with: apt install rustc libstd-rust-dev-wasm32 lld, elsewhere with: rustup target add " + rustTarget

	rustCrate  = "policy/rust"  // the SDK, in the sources that this Flynn carries
	rustVendor = "vendor/flynn" // and in a policy's folder
)

// compileRust needs no cargo: it compiles the SDK's crate and the policy's, one after the other. Features that are named here, newer
// compilers take by themselves.
func compileRust(ctx context.Context, m Manifest, dir, out string) error {
	return compileRustWith(ctx, m, dir, out, rustLineTables)
}

// compileRustWith adds flags that depend on the policy's folder.
func compileRustWith(ctx context.Context, m Manifest, dir, out string, more func(dir string) []string) error {
	rustc, err := findRust(ctx)
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "flynn-rust-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	crate, err := crateSources(dir, temp)
	if err != nil {
		return err
	}
	library := filepath.Join(temp, "libflynn.rlib")
	// Panics carry the names of files; the folder of this build must not get into the module.
	common := []string{"--edition", "2021", "--target", rustTarget, "--remap-path-prefix", crate + "=flynn",
		"-C", "opt-level=3", "-C", "panic=abort", "-C", "codegen-units=1", "-C", "target-feature=+bulk-memory"}
	common = append(more(dir), common...) // of two prefixes that fit a path the last one counts
	sdkArgs := append([]string{"--crate-type", "rlib", "--crate-name", "flynn", "--cap-lints", "allow", "-o", library}, common...)
	if err := run(ctx, dir, nil, rustc, append(sdkArgs, filepath.Join(crate, "src", "lib.rs"))...); err != nil {
		return fmt.Errorf("compile the SDK: %w", err)
	}
	policyArgs := append([]string{"--crate-type", "cdylib", "--crate-name", "policy", "--extern", "flynn=" + library,
		"-C", "lto", "-C", "link-arg=-zstack-size=16384", "-C", "link-arg=--stack-first", "-o", absolute(out)}, common...)
	return run(ctx, dir, nil, rustc, append(policyArgs, m.Build.Source)...)
}

// findRust returns the first compiler on PATH that has a library for WebAssembly: beside one that has none there may be
// another one.
func findRust(ctx context.Context) (string, error) {
	found := ""
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		rustc, err := exec.LookPath(filepath.Join(dir, "rustc"))
		if err != nil || !filepath.IsAbs(dir) {
			continue
		}
		found = rustc
		library, err := exec.CommandContext(ctx, rustc, "--print", "target-libdir", "--target", rustTarget).Output()
		if err != nil {
			continue
		}
		if core, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(library)), "libcore-*.rlib")); err == nil && len(core) > 0 {
			return rustc, nil
		}
	}
	if found == "" {
		return "", fmt.Errorf("rustc is missing: %s", rustAdvice)
	}
	return "", fmt.Errorf("%s has no library for %s: %s", found, rustTarget, rustAdvice)
}

// crateSources is the folder of the SDK's crate: the policy's own copy, or else this Flynn's, written to temp.
func crateSources(dir, temp string) (string, error) {
	own := filepath.Join(absolute(dir), filepath.FromSlash(rustVendor))
	switch _, err := os.Stat(own); {
	case err == nil:
		return own, nil
	case !errors.Is(err, fs.ErrNotExist):
		return "", err
	}
	crate := filepath.Join(temp, "flynn")
	return crate, copyCrate(crate)
}

func furnishRust(dir string) error {
	return copyCrate(filepath.Join(dir, filepath.FromSlash(rustVendor)))
}

func copyCrate(to string) error {
	return fs.WalkDir(sdk.PolicySources, rustCrate, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		return copySource(name, filepath.Join(to, filepath.FromSlash(strings.TrimPrefix(name, rustCrate+"/"))))
	})
}
