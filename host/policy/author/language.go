package author

import (
	"context"
	"path/filepath"
)

// language is one way to write a policy. Its file in this package is named after it and has the rest; templates/NAME,
// NAME-route and NAME-tool have what New writes.
type language struct {
	name   string
	source string // what is compiled where the manifest does not say: a file, or a folder
	// compile makes the module of the policy in dir at the path out.
	compile func(ctx context.Context, m Manifest, dir, out string) error
	// furnish puts this Flynn's SDK into the folder of a new policy, so that it builds without a network.
	furnish func(dir string) error
}

// writtenIn are the languages that can be built, in the order in which they are offered.
func writtenIn() []language {
	return []language{
		{"c", "policy.c", compileC, furnishC},
		{"go", ".", compileGo, furnishGo},
		{"rust", "policy.rs", compileRust, furnishRust},
		{"assemblyscript", "policy.ts", compileAssemblyScript, furnishAssemblyScript},
		{"rego", ".", compileRego, furnishRego},
	}
}

// readyMade is the language of a policy that comes as a module and is not built.
const readyMade = "wasm"

// languageNamed finds a language that can be built.
func languageNamed(name string) (language, bool) {
	for _, l := range writtenIn() {
		if l.name == name {
			return l, true
		}
	}
	return language{}, false
}

// Languages are the names of the languages that can be built, in the order in which they are offered.
func Languages() []string {
	var names []string
	for _, l := range writtenIn() {
		names = append(names, l.name)
	}
	return names
}

func furnishC(dir string) error { return copySource("policy/c/flynn.h", filepath.Join(dir, "flynn.h")) }
