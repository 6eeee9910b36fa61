package author

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/flynnhost/flynn/sdk"
)

// templates hold one folder for each set of files that New composes a policy of.
//
//go:embed all:templates
var templates embed.FS

const sdkModule = "github.com/flynnhost/flynn"

// New makes the folder dir with a small policy that builds, and whose cases pass, without a network.
func New(dir, lang, kind string) error {
	name := filepath.Base(absolute(dir))
	if !nameForm().MatchString(name) {
		return fmt.Errorf("a policy cannot be named %q: use lower-case words joined by hyphens", name)
	}
	if kind != kindRoute && kind != kindTool {
		return fmt.Errorf("a policy's kind is %s or %s, not %q", kindRoute, kindTool, kind)
	}
	l, ok := languageNamed(spelledOut(lang))
	if !ok {
		return fmt.Errorf("there is no scaffold for %q: use one of %s", lang, strings.Join(Languages(), ", "))
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("%s exists already: choose another name", dir)
		}
		return err
	}
	facts := strings.NewReplacer("{{.Name}}", name, "{{.Language}}", l.name, "{{.Kind}}", kind, "{{.Data}}", exampleData[kind], "{{.Case}}", exampleCase[kind])
	for _, set := range []string{"common", kind, l.name, l.name + "-" + kind} {
		if err := instantiate(path.Join("templates", set), dir, facts); err != nil {
			return err
		}
	}
	return l.furnish(dir)
}

// exampleData is what the policy of each kind reads.
var exampleData = map[string]string{kindRoute: `owner_agent = "coder"`, kindTool: `denied_tool = "shell.exec"`}

// exampleCase is one of the cases of each kind.
var exampleCase = map[string]string{kindRoute: "the owner reaches the coder", kindTool: "a guest may not use the tool"}

// instantiate writes one set of templates. A set that does not exist is empty. It does without text/template, which calls methods by
// their names, so that the linker has to keep every exported one of the program.
func instantiate(set, dir string, facts *strings.Replacer) error {
	return fs.WalkDir(templates, set, func(name string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || d.IsDir() {
			return err
		}
		text, err := templates.ReadFile(name)
		if err != nil {
			return err
		}
		target := strings.TrimSuffix(strings.TrimPrefix(name, set+"/"), ".tmpl")
		return writeNew(filepath.Join(dir, filepath.FromSlash(target)), facts.Replace(string(text)))
	})
}

// furnishGo puts this Flynn's SDK into the policy's vendor folder, as `go mod vendor` would once the module
// is to be had from a proxy. Tests stay behind.
func furnishGo(dir string) error {
	packages := []string{"sdk/policy", "sdk/policy/abi", "sdk/policy/internal/hostcall", "sdk/policy/policytest"}
	list := "# " + sdkModule + " v0.0.0\n## explicit; go 1.24\n"
	for _, p := range packages {
		list += sdkModule + "/" + p + "\n"
		if err := vendorPackage(dir, p); err != nil {
			return err
		}
	}
	return writeNew(filepath.Join(dir, "vendor", "modules.txt"), list)
}

func vendorPackage(dir, pkg string) error {
	from := strings.TrimPrefix(pkg, "sdk/")
	files, err := fs.Glob(sdk.PolicySources, from+"/*.go")
	if err != nil {
		return err
	}
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		target := filepath.Join(dir, "vendor", filepath.FromSlash(sdkModule), filepath.FromSlash(pkg), path.Base(f))
		if err := copySource(f, target); err != nil {
			return err
		}
	}
	return nil
}

func copySource(name, target string) error {
	text, err := fs.ReadFile(sdk.PolicySources, name)
	if err != nil {
		return err
	}
	return writeNew(target, string(text))
}

func writeNew(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644)
}
