package author

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/flynnhost/flynn/host/policy/cover"
	"github.com/flynnhost/flynn/host/policy/meter"
)

// mapSection is the section with the name of the source map.
const mapSection = "sourceMappingURL"

// splitMap removes the name of the source map from a module that was just compiled, so that the module equals the one that the compiler makes
// without a map. The map stays beside it, with the module's digest.
func splitMap(out string) error {
	wasm, err := os.ReadFile(out)
	if err != nil {
		return err
	}
	if wasm, err = cutMapSection(wasm); err != nil {
		return err
	}
	found, err := readAtMost(out+cover.MapSuffix, cover.MaxMap)
	if err != nil {
		return err
	}
	kept, err := cover.KeepMap(found, wasm)
	if err != nil {
		return fmt.Errorf("read what the compiler wrote: %w", err)
	}
	return errors.Join(os.WriteFile(out, wasm, 0o644), os.WriteFile(out+cover.MapSuffix, kept, 0o644))
}

// cutMapSection cuts the section off the end of a module.
func cutMapSection(wasm []byte) ([]byte, error) {
	sections, err := meter.Sections(wasm)
	if err != nil {
		return nil, err
	}
	if len(sections) == 0 || sections[len(sections)-1].Name != mapSection {
		return nil, errors.New("the compiler wrote no section sourceMappingURL at the end of the module")
	}
	// A custom section is a zero, its size, the size of its name, the name and its data.
	content := 1 + len(mapSection) + len(sections[len(sections)-1].Data)
	for size := 1; size <= 5; size++ {
		at := len(wasm) - content - size - 1
		if at < 8 || wasm[at] != 0 {
			continue
		}
		if rest, err := meter.Sections(wasm[:at]); err == nil && len(rest) == len(sections)-1 {
			return wasm[:at], nil
		}
	}
	return nil, errors.New("the section sourceMappingURL is not the last one of the module")
}

// placeMap moves the source map of a new module to where the module will be moved. Until then the old module has the map of another
// one, which its digest shows.
func placeMap(temp, path string) error {
	err := os.Rename(temp+cover.MapSuffix, path+cover.MapSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// readSource reads what a module, or the source map beside it, says about its source. A map that is broken or of another module is
// ignored.
func readSource(path string, wasm []byte) (*cover.Source, error) {
	if found, err := readAtMost(path+cover.MapSuffix, cover.MaxMap); err == nil {
		if source, err := cover.ReadMapped(wasm, found); err == nil {
			return source, nil
		}
	}
	return cover.Read(wasm)
}

// readAtMost reads a file that has no more than limit bytes.
func readAtMost(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%s has more than %d bytes", path, limit)
	}
	return data, err
}
