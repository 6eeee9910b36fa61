package pack

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/flynnhost/flynn/host/install/archive"
	"github.com/flynnhost/flynn/host/install/fetch"
)

// Pack writes the package as a tar.gz archive. The same package gives the same bytes on every machine.
func (p *Package) Pack(w io.Writer) error {
	out := archive.NewWriter(w)
	for _, name := range p.names() {
		content := p.files[name]
		if err := out.Write(archive.File{Name: name, Content: bytes.NewReader(content)}, int64(len(content))); err != nil {
			return err
		}
	}
	return out.Close()
}

// Unpack reads an archive into memory.
func Unpack(r archive.Source) (*Package, error) {
	files := map[string][]byte{}
	err := archive.Read(r, bounds, func(f archive.File) error {
		most := maxSize(f.Name)
		content, err := io.ReadAll(io.LimitReader(f.Content, most+1))
		if err == nil && int64(len(content)) > most {
			err = fmt.Errorf("%s has more than %d bytes", f.Name, most)
		}
		files[f.Name] = content
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("not an archive of flynn policy dev pack: %w", err)
	}
	return newPackage(files)
}

// Fetch reads an archive from an https URL. Redirects have to be https as well. The archive has to be verified: by #sha256=DIGEST at the end of
// the URL, or by a signature of a key in trust. A nil transport is the default one.
func Fetch(ctx context.Context, from string, trust Trust, transport http.RoundTripper) (*Package, error) {
	address, err := fetch.Parse(from, "https")
	if err != nil {
		return nil, err
	}
	p, err := download(ctx, address, trust, fetch.Client{Private: true, Proxy: true, Transport: transport})
	if err != nil {
		return nil, fmt.Errorf("fetch %s: %w", address, err)
	}
	return p, nil
}

func download(ctx context.Context, from fetch.Address, trust Trust, client fetch.Client) (*Package, error) {
	trust, err := from.Trust(trust)
	if err != nil {
		return nil, err
	}
	var packed bytes.Buffer
	if err := client.Get(ctx, from, &packed, bounds.Bytes); err != nil {
		return nil, err
	}
	p, err := Unpack(bytes.NewReader(packed.Bytes()))
	if err == nil {
		_, err = trust.Check(p.Signer)
	}
	return p, err
}
