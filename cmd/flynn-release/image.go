package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// imageUser is the user of the image, by number, so that an engine can see that it is not root.
const imageUser = 65532

// image writes the context of the container image: docker build dist/image.
func (r *release) image(context.Context) error {
	dir := filepath.Join(r.out, "image")
	for _, t := range r.linux() {
		err := r.pack(filepath.Join(dir, "rootfs-"+t.arch+".tar.gz"), func(p *packer) {
			p.addTree(r.tree(t), "usr")
			p.err = errors.Join(p.err, r.addSystem(p))
		})
		if err != nil {
			return err
		}
	}
	if len(r.linux()) == 0 {
		return nil
	}
	text, err := files.ReadFile("files/Dockerfile")
	return errors.Join(err, writeFile(filepath.Join(dir, "Dockerfile"), text, 0o644))
}

// addSystem adds what a distribution would bring: users, authorities, a folder for temporary files; and the configuration.
func (r *release) addSystem(p *packer) error {
	roots, err := os.ReadFile(r.certificates)
	if err != nil {
		return fmt.Errorf("read the authorities of the image: %w", err)
	}
	if !x509.NewCertPool().AppendCertsFromPEM(roots) {
		return fmt.Errorf("%s has no certificates", r.certificates)
	}
	config, err := files.ReadFile("files/flynn.toml")
	if err != nil {
		return err
	}
	user := fmt.Sprintf("flynn:x:%d:%[1]d::/var/lib/flynn:/sbin/nologin\n", imageUser)
	p.add(
		entry{name: "etc", mode: fs.ModeDir | 0o755},
		entry{name: "etc/flynn", mode: fs.ModeDir | 0o755},
		entry{name: "etc/flynn/flynn.toml", mode: 0o644, body: config},
		entry{name: "etc/group", mode: 0o644, body: fmt.Appendf(nil, "root:x:0:\nflynn:x:%d:\n", imageUser)},
		entry{name: "etc/passwd", mode: 0o644, body: []byte("root:x:0:0::/root:/sbin/nologin\n" + user)},
		entry{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, body: roots},
		entry{name: "tmp", mode: fs.ModeDir | fs.ModeSticky | 0o777},
		entry{name: "var/lib", mode: fs.ModeDir | 0o755},
		entry{name: "var/lib/flynn", mode: fs.ModeDir | 0o700, uid: imageUser},
	)
	return nil
}
