package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"
)

// packer writes an archive whose bytes depend on nothing but the files: owner, time and order are given.
type packer struct {
	date time.Time
	tar  *tar.Writer
	err  error
}

// entry is a file or, if its mode says so, a folder.
type entry struct {
	name string
	mode fs.FileMode
	uid  int // and gid
	body []byte
}

func (p *packer) header(e entry, size int64) {
	h := &tar.Header{
		Typeflag: tar.TypeReg, Name: e.name, Mode: int64(e.mode.Perm()), Size: size, Uid: e.uid, Gid: e.uid, ModTime: p.date, Format: tar.FormatPAX,
	}
	if e.mode&fs.ModeSticky != 0 {
		h.Mode |= 0o1000
	}
	if e.mode.IsDir() {
		h.Typeflag, h.Name = tar.TypeDir, e.name+"/"
	}
	p.err = errors.Join(p.err, p.tar.WriteHeader(h))
}

// add writes entries.
func (p *packer) add(entries ...entry) {
	for _, e := range entries {
		p.header(e, int64(len(e.body)))
		_, err := p.tar.Write(e.body)
		p.err = errors.Join(p.err, err)
	}
}

// addTree writes a folder and what is in it under another name.
func (p *packer) addTree(dir, as string) {
	p.err = errors.Join(p.err, filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		e := entry{name: path.Join(as, filepath.ToSlash(name)), mode: fs.ModeDir | 0o755}
		if d.IsDir() {
			p.add(e)
			return p.err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		p.addFile(file, e.name, info.Mode())
		return p.err
	}))
}

// addFile writes a file under another name.
func (p *packer) addFile(file, as string, mode fs.FileMode) {
	info, err := os.Stat(file)
	if err != nil {
		p.err = errors.Join(p.err, err)
		return
	}
	p.header(entry{name: as, mode: mode}, info.Size())
	p.err = errors.Join(p.err, copyInto(p.tar, file))
}

func copyInto(w io.Writer, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w, f)
	return err
}

// packTar writes a .tar file.
func (r *release) packTar(file string, fill func(*packer)) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(r.packInto(f, fill), f.Close())
}

// pack writes a .tar.gz file.
func (r *release) pack(file string, fill func(*packer)) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	zip, err := gzip.NewWriterLevel(f, r.level)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	return errors.Join(r.packInto(zip, fill), zip.Close(), f.Close())
}

func (r *release) packInto(w io.Writer, fill func(*packer)) error {
	p := &packer{date: r.date, tar: tar.NewWriter(w)}
	fill(p)
	return errors.Join(p.err, p.tar.Close())
}

// archives writes a .tar.gz for each target, with LICENSE and README.md at its top as well, where people look for them.
func (r *release) archives(context.Context) error {
	for _, t := range r.targets {
		title := r.title(t)
		err := r.pack(filepath.Join(r.out, title+".tar.gz"), func(p *packer) {
			p.addTree(r.tree(t), title)
			for _, name := range []string{"LICENSE", "README.md"} {
				text, err := os.ReadFile(filepath.Join(r.source, name))
				p.err = errors.Join(p.err, err)
				p.add(entry{name: title + "/" + name, mode: 0o644, body: text})
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}
