package imagefiles

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"
	"strings"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// Bounds of what an archive says of itself.
const (
	maxParts    = 10_000  // files of the archive, most of which are layers and what is said of them
	maxText     = 4 << 20 // bytes of a description
	maxLayers   = 500
	maxVariable = 64 << 10 // bytes of all variables
)

// howTo is the next step after an archive that is not what it should be.
const howTo = "make it with docker save or podman save, of one image for this machine's processor"

// savedImage is an archive of the form of docker save: manifest.json names a description of the image, and its layers in their order.
type savedImage struct {
	file   *os.File
	parts  map[string]part
	layers []part
	env    []string
}

// part is a file of the archive: where it is, or of which file it is another name.
type part struct {
	at, size int64
	same     string
}

// readArchive reads what an archive says of itself.
func readArchive(file *os.File) (*savedImage, error) {
	a := &savedImage{file: file, parts: map[string]part{}}
	if err := a.index(); err != nil {
		return nil, fmt.Errorf("it is not an archive of an image (%w): %s", err, howTo)
	}
	var manifest []struct {
		Config string
		Layers []string
	}
	if err := a.describe("manifest.json", &manifest); err != nil {
		return nil, err
	}
	if len(manifest) != 1 {
		return nil, fmt.Errorf("it has %d images: %s", len(manifest), howTo)
	}
	var about struct {
		OS, Architecture string
		Config           struct{ Env []string }
	}
	if err := a.describe(manifest[0].Config, &about); err != nil {
		return nil, err
	}
	if about.OS != "linux" || about.Architecture != runtime.GOARCH {
		return nil, fmt.Errorf("it is for %.20q on %.20q: %s", about.OS, about.Architecture, howTo)
	}
	a.env = about.Config.Env
	if size := len(strings.Join(a.env, "")); size > maxVariable || strings.Contains(strings.Join(a.env, ""), "\x00") {
		return nil, fmt.Errorf("its variables are malformed, or longer than %d bytes", maxVariable)
	}
	if len(manifest[0].Layers) > maxLayers {
		return nil, fmt.Errorf("it has more than %d layers", maxLayers)
	}
	for _, name := range manifest[0].Layers {
		layer, err := a.part(name)
		if err != nil {
			return nil, err
		}
		a.layers = append(a.layers, layer)
	}
	return a, nil
}

// index finds the archive's files.
func (a *savedImage) index() error {
	names := tar.NewReader(a.file)
	for {
		h, err := names.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if len(a.parts) >= maxParts {
			return fmt.Errorf("it has more than %d files", maxParts)
		}
		name := path.Clean(h.Name)
		switch h.Typeflag {
		case tar.TypeReg:
			at, err := a.file.Seek(0, io.SeekCurrent) // the reader reads no further than the header
			if err != nil {
				return err
			}
			a.parts[name] = part{at: at, size: h.Size}
		case tar.TypeLink:
			a.parts[name] = part{same: path.Clean(h.Linkname)}
		case tar.TypeSymlink: // a layer that occurs twice
			a.parts[name] = part{same: path.Join(path.Dir(name), h.Linkname)}
		}
	}
}

// part returns a file of the archive.
func (a *savedImage) part(name string) (part, error) {
	found, ok := a.parts[path.Clean(name)]
	if ok && found.same != "" {
		found, ok = a.parts[found.same]
	}
	if !ok || found.same != "" {
		return part{}, fmt.Errorf("it has no file %.80q: %s", name, howTo)
	}
	return found, nil
}

// describe decodes a description.
func (a *savedImage) describe(name string, into any) error {
	p, err := a.part(name)
	if err != nil {
		return err
	}
	if p.size > maxText {
		return fmt.Errorf("its file %.80q is longer than %d bytes", name, maxText)
	}
	if err := json.NewDecoder(a.open(p)).Decode(into); err != nil {
		return fmt.Errorf("its file %.80q: %w", name, err)
	}
	return nil
}

// open returns the content of a file of the archive.
func (a *savedImage) open(p part) io.Reader { return io.NewSectionReader(a.file, p.at, p.size) }

// clean returns the name of an entry of a layer, which is below the root.
func clean(name string) (string, error) {
	name = strings.TrimPrefix(path.Clean("/"+name), "/")
	if name == "" {
		return ".", nil
	}
	if err := frame.CheckName(name); err != nil {
		return "", err
	}
	return name, nil
}

// errTooMuch is the error of an archive that exceeds its limits.
var errTooMuch = errors.New("it unpacks to more than is allowed")
