package main

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// imageUser is the user of the image, by number, so that an engine can see that it is not root.
const imageUser = 65532

// imageConfig is how an image is described, see github.com/opencontainers/image-spec/blob/main/config.md. Health is Docker's addition.
type imageConfig struct {
	Created      time.Time `json:"created"`
	Architecture string    `json:"architecture"`
	OS           string    `json:"os"`
	Config       struct {
		User       string              `json:"User"`
		Env        []string            `json:"Env"`
		Entrypoint []string            `json:"Entrypoint"`
		Cmd        []string            `json:"Cmd"`
		WorkingDir string              `json:"WorkingDir"`
		Volumes    map[string]struct{} `json:"Volumes"`
		Labels     map[string]string   `json:"Labels"`
		Health     struct {
			Test        []string      `json:"Test"`
			Interval    time.Duration `json:"Interval"`
			Timeout     time.Duration `json:"Timeout"`
			StartPeriod time.Duration `json:"StartPeriod"`
		} `json:"Healthcheck"`
	} `json:"config"`
	RootFS struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	} `json:"rootfs"`
}

// images writes an image from scratch for each Linux target, as docker load and podman load read it. No engine takes part, since that would
// record the time.
func (r *release) images(context.Context) error {
	for _, t := range r.linux() {
		layer := filepath.Join(r.work, "layer-"+t.arch+".tar")
		err := r.packTar(layer, func(p *packer) {
			p.addTree(r.tree(t), "usr")
			p.err = errors.Join(p.err, r.addSystem(p))
		})
		if err != nil {
			return err
		}
		if err := r.image(t, layer); err != nil {
			return err
		}
	}
	return nil
}

// image writes the archive of one image.
func (r *release) image(t target, layer string) error {
	sum, err := sumOf(layer)
	if err != nil {
		return err
	}
	config, err := json.Marshal(r.imageConfig(t, sum))
	if err != nil {
		return err
	}
	id := sha256.Sum256(config)
	configName, layerName := hex.EncodeToString(id[:])+".json", sum+"/layer.tar"
	manifest, err := json.Marshal([]map[string]any{{
		"Config": configName, "RepoTags": []string{"flynn:" + r.tag(), "flynn:latest"}, "Layers": []string{layerName},
	}})
	if err != nil {
		return err
	}
	return r.pack(filepath.Join(r.out, "flynn-"+r.name()+"-image-"+t.String()+".tar.gz"), func(p *packer) {
		p.add(entry{name: "manifest.json", mode: 0o644, body: manifest}, entry{name: configName, mode: 0o644, body: config},
			entry{name: sum, mode: fs.ModeDir | 0o755})
		p.addFile(layer, layerName, 0o644)
	})
}

func (r *release) imageConfig(t target, layer string) (c imageConfig) {
	c.Created, c.Architecture, c.OS = r.date, t.arch, t.os
	c.RootFS.Type, c.RootFS.DiffIDs = "layers", []string{"sha256:" + layer}
	c.Config.User = fmt.Sprintf("%d:%[1]d", imageUser)
	c.Config.Env = []string{"HOME=/var/lib/flynn", "PATH=/usr/bin", "FLYNN_CONFIG=/etc/flynn/flynn.toml"}
	c.Config.Entrypoint, c.Config.Cmd = []string{"/usr/bin/flynn"}, []string{"serve"}
	c.Config.WorkingDir, c.Config.Volumes = "/var/lib/flynn", map[string]struct{}{"/var/lib/flynn": {}}
	c.Config.Labels = map[string]string{
		"org.opencontainers.image.title": "flynn", "org.opencontainers.image.version": r.name(), "org.opencontainers.image.revision": r.commit,
		"org.opencontainers.image.source": repository, "org.opencontainers.image.licenses": "Apache-2.0",
	}
	health := &c.Config.Health
	health.Test = []string{"CMD", "/usr/bin/flynn", "status"}
	health.Interval, health.Timeout, health.StartPeriod = 30*time.Second, 5*time.Second, 15*time.Second
	return c
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
	config, err := os.ReadFile(r.config())
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
		entry{name: "etc/ssl", mode: fs.ModeDir | 0o755},
		entry{name: "etc/ssl/certs", mode: fs.ModeDir | 0o755},
		entry{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, body: roots},
		entry{name: "tmp", mode: fs.ModeDir | fs.ModeSticky | 0o777},
		entry{name: "var", mode: fs.ModeDir | 0o755},
		entry{name: "var/lib", mode: fs.ModeDir | 0o755},
		entry{name: "var/lib/flynn", mode: fs.ModeDir | 0o700, uid: imageUser},
	)
	return nil
}
