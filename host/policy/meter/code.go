package meter

// Code is where the code of a module lies.
type Code struct {
	At     int     // offset of the code section's content in the module
	Bodies []Block // of the module's own functions, by their offsets in that content
}

// FindCode reads where the code of a module lies. It checks no more than Rewrite does.
func FindCode(wasm []byte) (*Code, error) {
	m, err := read(wasm)
	if err != nil {
		return nil, err
	}
	c := &Code{At: m.codeAt}
	for i, body := range m.bodies {
		c.Bodies = append(c.Bodies, Block{Function: len(m.imports) + i, Start: m.bodyAt[i], End: m.bodyAt[i] + len(body)})
	}
	return c, nil
}

// read decodes and checks a module that is not to be rewritten.
func read(wasm []byte) (*module, error) {
	if len(wasm) > MaxModule {
		return nil, over("bytes of the module", len(wasm), MaxModule)
	}
	m, err := decode(wasm)
	if err != nil {
		return nil, err
	}
	return m, m.check(Options{MaxPages: maxPages})
}
