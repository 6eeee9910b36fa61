package meter

// Section is a custom section of a module.
type Section struct {
	Name string
	Data []byte
}

// Sections returns the custom sections of a module, in their order.
func Sections(wasm []byte) ([]Section, error) {
	if len(wasm) > MaxModule {
		return nil, over("bytes of the module", len(wasm), MaxModule)
	}
	r := &reader{data: wasm}
	r.bytes(8)
	var list []Section
	for !r.done() && r.err == nil {
		id := r.byte()
		content := &reader{data: r.bytes(r.count())}
		if id != secCustom || r.err != nil {
			continue
		}
		name := content.name()
		if content.err != nil {
			return nil, content.err
		}
		list = append(list, Section{name, content.data[content.at:]})
	}
	return list, r.err
}

// FunctionNames reads a name section: names by the index of the function. It stops at the first error.
func FunctionNames(section []byte) map[int]string {
	names := map[int]string{}
	for r := (&reader{data: section}); !r.done(); {
		id := r.byte()
		part := &reader{data: r.bytes(r.count())}
		if id != nameFunctions {
			continue
		}
		for range part.count() {
			index, name := part.u32(), part.name()
			if part.err != nil {
				return names
			}
			names[int(index)] = name
		}
	}
	return names
}

// Producer is one entry of a producers section: a tool that made the module.
type Producer struct {
	Field   string `json:"field"` // language, processed-by or sdk
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
}

// Producers reads a producers section. It stops at the first error.
func Producers(section []byte) []Producer {
	var list []Producer
	r := &reader{data: section}
	for range r.count() {
		field := r.name()
		for range r.count() {
			p := Producer{field, r.name(), r.name()}
			if r.err != nil {
				return list
			}
			list = append(list, p)
		}
	}
	return list
}
