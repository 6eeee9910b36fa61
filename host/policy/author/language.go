package author

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/sdk"
)

const sdkModule = "github.com/flynnhost/flynn"

// language is one way to write a policy. templates/NAME, NAME-route and NAME-tool have what New writes.
type language struct {
	name   string
	source string // what is compiled if the manifest does not say: a file, or a folder
	// compile makes the module of the policy in dir at the path out, with what it takes to know its lines.
	compile func(ctx context.Context, m Manifest, dir, out string) error
	// sdk are the folders of sdk.PolicySources that New copies into a policy's folder, so that it builds without a network, and where to.
	sdk [][2]string
}

const (
	rustVendor   = "vendor/flynn"
	scriptVendor = "vendor/@flynnhost/policy" // where npm and editors find it, too: package.json names the folder
	goVendor     = "vendor/" + sdkModule + "/sdk/"
)

func rustSDK(to string) [][2]string {
	return [][2]string{{"policy/rust", to}, {"policy/rust/src", path.Join(to, "src")}}
}

// languages are those that can be built, in the order in which they are offered.
func languages() []language {
	goSDK := [][2]string{}
	for _, p := range []string{"policy", "policy/abi", "policy/internal/hostcall", "policy/policytest"} {
		goSDK = append(goSDK, [2]string{p, goVendor + p})
	}
	return []language{
		{"c", "policy.c", compileC, [][2]string{{"policy/c", "."}}},
		{"go", ".", func(ctx context.Context, m Manifest, dir, out string) error { return compileGo(ctx, m, dir, out) }, goSDK},
		{"rust", "policy.rs", compileRust, rustSDK(rustVendor)},
		{"assemblyscript", "policy.ts", compileScript, [][2]string{{"policy/assemblyscript", scriptVendor}}},
		{"rego", ".", compileRego, nil}, // imports nothing
	}
}

// readyMade is the language of a policy that comes as a module and is not built.
const readyMade = "wasm"

// languageNamed returns a language that can be built. People shorten AssemblyScript.
func languageNamed(name string) (language, bool) {
	if name == "as" {
		name = "assemblyscript"
	}
	all := languages()
	i := slices.IndexFunc(all, func(l language) bool { return l.name == name })
	if i < 0 {
		return language{}, false
	}
	return all[i], true
}

// Languages returns the names of the languages that can be built, in the order in which they are offered.
func Languages() []string {
	var names []string
	for _, l := range languages() {
		names = append(names, l.name)
	}
	return names
}

// copySDK copies files of sdk.PolicySources below dir: of each folder those that lie directly in it, without tests.
func copySDK(dir string, folders [][2]string) error {
	for _, f := range folders {
		entries, err := fs.ReadDir(sdk.PolicySources, f[0])
		if err != nil {
			return fmt.Errorf("this flynn was built without the SDK: %w", err)
		}
		for _, e := range entries {
			if e.IsDir() || strings.HasSuffix(e.Name(), "_test.go") {
				continue
			}
			text, err := fs.ReadFile(sdk.PolicySources, path.Join(f[0], e.Name()))
			if err != nil {
				return err
			}
			if err := writeNew(filepath.Join(dir, filepath.FromSlash(f[1]), e.Name()), string(text)); err != nil {
				return err
			}
		}
	}
	return nil
}

// listVendored writes the modules.txt that `go mod vendor` would write, if the folders have a module in Go.
func listVendored(dir string, folders [][2]string) error {
	list := ""
	for _, f := range folders {
		if pkg, ok := strings.CutPrefix(f[1], "vendor/"+sdkModule); ok {
			list += sdkModule + pkg + "\n"
		}
	}
	if list == "" {
		return nil
	}
	return writeNew(filepath.Join(dir, "vendor", "modules.txt"), "# "+sdkModule+" v0.0.0\n## explicit; go 1.24\n"+list)
}

func writeNew(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644)
}
