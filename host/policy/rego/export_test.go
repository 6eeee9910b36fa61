package rego

// NativeNames are the names of the native functions that are written as calls.
func NativeNames() (names []string) {
	for _, b := range native() {
		if b.Infix == "" && !b.IsDeprecated() && !isInternal(b.Name) {
			names = append(names, b.Name)
		}
	}
	return names
}

func isInternal(name string) bool { return len(name) > 9 && name[:9] == "internal." }
