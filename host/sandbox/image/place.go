package image

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/flynnhost/flynn/host/sandbox/machine"
)

// binFolder is the folder for programs.
const binFolder = "/usr/local/bin"

// place returns an image with the binaries added to another one. Its container is never started, so nothing in the image can touch them or
// race with the engine while it unpacks.
func (b *Builder) place(ctx context.Context, p Plan, image string) (id string, err error) {
	machine.Notice(ctx, fmt.Sprintf("adding %d binaries", len(p.recipe.Binaries)))
	err = b.work(ctx, Work{Image: image, Argv: []string{"/bin/true"}, Network: "none"}, func(container string) error {
		folder, err := b.nearestFolder(ctx, container)
		if err != nil {
			return err
		}
		archive, writer := io.Pipe()
		written := make(chan error, 1)
		go func() {
			err := b.pack(writer, folder, p.recipe.Binaries)
			writer.CloseWithError(err)
			written <- err
		}()
		err = b.engine.CopyInto(ctx, container, folder, archive)
		archive.Close()
		if failed := <-written; failed != nil && failed != io.ErrClosedPipe {
			err = failed
		}
		if err != nil {
			return fmt.Errorf("add binaries to %s: %w", p.recipe.Image, err)
		}
		id, err = b.engine.Commit(ctx, container, b.labels(p))
		return err
	})
	return id, err
}

// nearestFolder returns the deepest part of binFolder that exists in the container.
func (b *Builder) nearestFolder(ctx context.Context, container string) (string, error) {
	for folder := binFolder; folder != "/"; folder = path.Dir(folder) {
		if has, err := b.engine.HasPath(ctx, container, folder); err != nil || has {
			return folder, err
		}
	}
	return "/", nil
}

// pack writes the binaries as a tar to be unpacked in folder, including the folders from there to binFolder.
func (b *Builder) pack(w io.Writer, folder string, all []Binary) error {
	out := tar.NewWriter(w)
	prefix := ""
	missing := strings.Trim(strings.TrimPrefix(binFolder, folder), "/")
	for _, part := range strings.FieldsFunc(missing, func(r rune) bool { return r == '/' }) {
		prefix += part + "/"
		if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: prefix, Mode: 0o755}); err != nil {
			return err
		}
	}
	for _, wanted := range all {
		if err := b.packOne(out, prefix, wanted); err != nil {
			return err
		}
	}
	return out.Close()
}

func (b *Builder) packOne(out *tar.Writer, prefix string, wanted Binary) error {
	file, size, err := b.store.open(wanted)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: prefix + wanted.Name, Mode: 0o755, Size: size}); err != nil {
		return err
	}
	_, err = io.Copy(out, file)
	return err
}
