package author

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
)

// compileC calls clang and wasm-ld itself: the clang driver would run any wasm-opt that it finds, and old ones break the
// module. Lines cost bytes of the file and nothing else, because the host drops them when it loads the module. Paths are from the
// policy's folder, so that the same source makes the same module anywhere.
func compileC(ctx context.Context, m Manifest, dir, out string) error {
	return compileCWith(ctx, m, dir, out, "-gline-tables-only")
}

func compileCWith(ctx context.Context, m Manifest, dir, out string, more ...string) error {
	clang, err := findTool("clang", "clang-22", "clang-21", "clang-20", "clang-19", "clang-18", "clang-17", "clang-16", "clang-15", "clang-14")
	if err != nil {
		return fmt.Errorf("%w: install it, on Debian with: apt install clang lld", err)
	}
	linker, err := findTool("wasm-ld", strings.Replace(filepath.Base(clang), "clang", "wasm-ld", 1))
	if err != nil {
		return fmt.Errorf("%w: install it, on Debian with: apt install lld", err)
	}
	include, err := os.MkdirTemp("", "flynn-header-*") // for sources that have no flynn.h beside them
	if err != nil {
		return err
	}
	defer os.RemoveAll(include)
	if err := copySDK(include, [][2]string{{"policy/c", "."}}); err != nil {
		return err
	}
	object := absolute(out + ".o")
	args := append([]string{"--target=wasm32", "-O2", "-Wall", "-Wextra", "-ffreestanding", "-mbulk-memory", "-mmutable-globals", "-I", include,
		"-fdebug-compilation-dir=.", "-ffile-prefix-map=" + include + "=~flynn", "-ffile-prefix-map=" + absolute(dir) + "=."}, more...)
	if err := run(ctx, dir, nil, clang, append(args, "-c", "-o", object, m.Build.Source)...); err != nil {
		return err
	}
	return run(ctx, dir, nil, linker, "--no-entry", "-z", "stack-size=16384", "--stack-first", "-o", absolute(out), object)
}

// oldestGo is the first release with go:wasmexport.
const oldestGo = "go1.24"

// compileGo adds more to the compiler's flags.
func compileGo(ctx context.Context, m Manifest, dir, out string, more ...string) error {
	args := append([]string{"build", "-buildmode=c-shared", "-trimpath", "-buildvcs=false"}, more...)
	_, err := runGo(ctx, dir, append(args, "-o", absolute(out), m.Build.Source)...)
	return err
}

// runGo runs the go command for policies in dir and returns its output.
func runGo(ctx context.Context, dir string, args ...string) ([]byte, error) {
	const advice = "install it from https://go.dev/dl, or on Debian 12 with: apt install -t bookworm-backports golang-go"
	tool, err := findTool("go")
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, advice)
	}
	version, err := exec.CommandContext(ctx, tool, "env", "GOVERSION").Output()
	if err != nil {
		return nil, fmt.Errorf("ask %s for its version: %w", tool, err)
	}
	have := strings.TrimSpace(string(version))
	if tooOld(have) {
		return nil, fmt.Errorf("%s is %s, a policy needs %s or newer: %s", tool, have, oldestGo, advice)
	}
	// With PWD the go command names the folder as it is named here, even if a symbolic link leads to it.
	return output(ctx, dir, []string{"GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0", "PWD=" + absolute(dir)}, tool, args...)
}

// tooOld compares releases; a development version has no number and passes.
func tooOld(version string) bool {
	v := "v" + strings.TrimPrefix(version, "go")
	return semver.IsValid(v) && semver.Compare(v, "v"+strings.TrimPrefix(oldestGo, "go")) < 0
}

const (
	rustTarget = "wasm32-unknown-unknown"
	rustAdvice = "install it, on Debian with: apt install rustc libstd-rust-dev-wasm32 lld, elsewhere with: rustup target add " + rustTarget
)

// compileRust needs no cargo: it compiles the SDK's crate, the policy's own copy or else this Flynn's, and then the policy's crate.
func compileRust(ctx context.Context, m Manifest, dir, out string) error {
	return compileRustWith(ctx, m, dir, out, "-C", "debuginfo=1", "--remap-path-prefix", absolute(dir)+"=.")
}

func compileRustWith(ctx context.Context, m Manifest, dir, out string, more ...string) error {
	rustc, err := findRust(ctx)
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "flynn-rust-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	crate := filepath.Join(absolute(dir), filepath.FromSlash(rustVendor))
	if missing(crate) {
		crate = filepath.Join(temp, "flynn")
		if err := copySDK(crate, rustSDK(".")); err != nil {
			return err
		}
	}
	library := filepath.Join(temp, "libflynn.rlib")
	// Panics have the names of files in them; the folder of this build must not get into the module. Of two prefixes that match a path
	// the last one counts. Features that are named here are on by default in newer compilers.
	common := append(more, "--edition", "2021", "--target", rustTarget, "--remap-path-prefix", crate+"=flynn",
		"-C", "opt-level=3", "-C", "panic=abort", "-C", "codegen-units=1", "-C", "target-feature=+bulk-memory")
	sdkArgs := append([]string{"--crate-type", "rlib", "--crate-name", "flynn", "--cap-lints", "allow", "-o", library}, common...)
	if err := run(ctx, dir, nil, rustc, append(sdkArgs, filepath.Join(crate, "src", "lib.rs"))...); err != nil {
		return fmt.Errorf("compile the SDK: %w", err)
	}
	policyArgs := append([]string{"--crate-type", "cdylib", "--crate-name", "policy", "--extern", "flynn=" + library,
		"-C", "lto", "-C", "link-arg=-zstack-size=16384", "-C", "link-arg=--stack-first", "-o", absolute(out)}, common...)
	return run(ctx, dir, nil, rustc, append(policyArgs, m.Build.Source)...)
}

// findRust returns the first compiler on PATH that has a library for WebAssembly: there may be another one behind one
// that has none.
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

// compileScript uses the SDK that the policy has beside it, with the options of its own asconfig.json if there is one, and
// otherwise this Flynn's.
func compileScript(ctx context.Context, m Manifest, dir, out string) error {
	if err := compileScriptWith(ctx, m, dir, out, "--sourceMap"); err != nil {
		return err
	}
	return splitMap(out)
}

func compileScriptWith(ctx context.Context, m Manifest, dir, out string, more ...string) error {
	asc, err := findCompiler(ctx, absolute(dir))
	if err != nil {
		return err
	}
	vendored := filepath.Join(absolute(dir), filepath.FromSlash(scriptVendor))
	config := filepath.Join(absolute(dir), "asconfig.json")
	own := !missing(vendored)
	if !own {
		temp, err := os.MkdirTemp("", "flynn-packages-*")
		if err != nil {
			return err
		}
		defer os.RemoveAll(temp)
		vendored = filepath.Join(temp, "@flynnhost", "policy")
		if err := copySDK(vendored, [][2]string{{"policy/assemblyscript", "."}}); err != nil {
			return err
		}
	}
	if !own || missing(config) {
		config = filepath.Join(vendored, "asconfig.json")
	}
	packages := filepath.Dir(filepath.Dir(vendored))
	args := append(asc[1:], m.Build.Source, "--config", config, "--path", packages, "--outFile", absolute(out))
	return run(ctx, dir, []string{"NO_COLOR=1"}, asc[0], append(args, more...)...)
}

// findCompiler returns the command that runs asc: from the node_modules of the policy's folder or one above it, then from PATH, and
// at last from what npm has cached. None of it uses a network.
func findCompiler(ctx context.Context, dir string) ([]string, error) {
	for at := range upwards(dir) {
		if local, err := exec.LookPath(filepath.Join(at, "node_modules", ".bin", "asc")); err == nil {
			return []string{local}, nil
		}
	}
	if global, err := exec.LookPath("asc"); err == nil {
		return []string{global}, nil
	}
	cached := []string{"npx", "--offline", "--yes", "--package=assemblyscript", "--", "asc"}
	if err := run(ctx, dir, nil, cached[0], append(cached[1:], "--version")...); err != nil {
		return nil, errors.New("asc is missing: install it in the policy's folder with: npm install --save-dev assemblyscript " +
			"(npm comes with Node.js, on Debian: apt install npm)")
	}
	return cached, nil
}

// regoTool is a program of its own because OPA's compiler would make Flynn four times as large.
const regoTool = "flynn-rego"

// compileRego has flynn-rego compile the folder of the policy's source.
func compileRego(ctx context.Context, m Manifest, dir, out string) error {
	args := []string{"-o", absolute(out), "-kinds", strings.Join(m.Kinds, ","), absolute(filepath.Join(dir, m.Build.Source))}
	if self, err := os.Executable(); err == nil {
		if beside, err := exec.LookPath(filepath.Join(filepath.Dir(self), regoTool)); err == nil {
			return run(ctx, dir, nil, beside, args...)
		}
	}
	if tool, err := findTool(regoTool); err == nil {
		return run(ctx, dir, nil, tool, args...)
	}
	root, ok := checkout(dir)
	if !ok {
		return errors.New(regoTool + " is missing: install it with: go install " + sdkModule + "/cmd/" + regoTool + "@latest")
	}
	tool, err := findTool("go")
	if err != nil {
		return fmt.Errorf("%w, which %s is built with here: install it from https://go.dev/dl", err, regoTool)
	}
	return run(ctx, root, []string{"CGO_ENABLED=0"}, tool, append([]string{"run", "-trimpath", "./cmd/" + regoTool}, args...)...)
}

// checkout returns the folder of Flynn's own sources that dir, or the working directory, lies in.
func checkout(dir string) (string, bool) {
	for _, start := range []string{dir, "."} {
		for at := range upwards(start) {
			if text, err := os.ReadFile(filepath.Join(at, "go.mod")); err == nil && modfile.ModulePath(text) == sdkModule {
				return at, true
			}
		}
	}
	return "", false
}
