package author

import "path/filepath"

// About tells of the module at path what the policy.toml beside it says, if there is one and it is about that module.
func About(path string) (m Manifest, ok bool) {
	dir := filepath.Dir(path)
	m, err := LoadManifest(dir)
	return m, err == nil && m.modulePath(dir) == filepath.Clean(path)
}
