package author

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"

	"github.com/flynnhost/flynn/sdk"
)

const (
	// scriptPackage is the name under which policies import the AssemblyScript SDK.
	scriptPackage = "@flynnhost/policy"
	// scriptSources is where package sdk has it.
	scriptSources = "policy/assemblyscript"
	// vendored is the folder of a policy that has its own copy of the SDK.
	vendored = "vendor"
	// scriptOptions are the compiler's.
	scriptOptions = "asconfig.json"
)

// spelledOut is the language's name, which people shorten.
func spelledOut(lang string) string {
	if lang == "as" {
		return "assemblyscript"
	}
	return lang
}

// compileAssemblyScript uses the SDK that the policy has beside it, with the options of its own asconfig.json if there is one, and
// otherwise this Flynn's.
func compileAssemblyScript(ctx context.Context, m Manifest, dir, out string) error {
	if err := compileScript(ctx, m, dir, out, "--sourceMap"); err != nil {
		return err
	}
	return splitMap(out)
}

// compileScript is compileAssemblyScript with other options of the compiler's.
func compileScript(ctx context.Context, m Manifest, dir, out string, more ...string) error {
	asc, err := findCompiler(ctx, absolute(dir))
	if err != nil {
		return err
	}
	packages, config := absolute(filepath.Join(dir, vendored)), absolute(filepath.Join(dir, scriptOptions))
	own := !missing(filepath.Join(packages, scriptPackage))
	if !own {
		if packages, err = os.MkdirTemp("", "flynn-packages-*"); err != nil {
			return err
		}
		defer os.RemoveAll(packages)
		if err := copyScriptSDK(packages); err != nil {
			return err
		}
	}
	if !own || missing(config) {
		config = filepath.Join(packages, scriptPackage, scriptOptions)
	}
	args := append(asc[1:], m.Build.Source, "--config", config, "--path", packages, "--outFile", absolute(out))
	return run(ctx, dir, []string{"NO_COLOR=1"}, asc[0], append(args, more...)...)
}

func missing(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// findCompiler returns the command that runs asc: the one that the policy's folder has installed, or one above it, then the one on PATH,
// and at last the one that npx makes of what npm has kept. None of it asks a network.
func findCompiler(ctx context.Context, dir string) ([]string, error) {
	for at := dir; ; at = filepath.Dir(at) {
		if local, err := exec.LookPath(filepath.Join(at, "node_modules", ".bin", "asc")); err == nil {
			return []string{local}, nil
		}
		if at == filepath.Dir(at) {
			break
		}
	}
	if global, err := exec.LookPath("asc"); err == nil {
		return []string{global}, nil
	}
	kept := []string{"npx", "--offline", "--yes", "--package=assemblyscript", "--", "asc"}
	if err := run(ctx, dir, nil, kept[0], append(kept[1:], "--version")...); err != nil {
		return nil, errors.New("asc is missing: install it in the policy's folder with: npm install --save-dev assemblyscript " +
			"(npm comes with Node.js, on Debian: apt install npm)")
	}
	return kept, nil
}

// furnishAssemblyScript lays the SDK where npm and editors find it, too: package.json names the folder.
func furnishAssemblyScript(dir string) error { return copyScriptSDK(filepath.Join(dir, vendored)) }

// copyScriptSDK writes the SDK below a folder of packages.
func copyScriptSDK(packages string) error {
	files, err := fs.Glob(sdk.PolicySources, scriptSources+"/*")
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("this flynn was built without %s", scriptSources)
	}
	for _, f := range files {
		if err := copySource(f, filepath.Join(packages, filepath.FromSlash(scriptPackage), path.Base(f))); err != nil {
			return err
		}
	}
	return nil
}
