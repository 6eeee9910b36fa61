package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"sort"
	"strconv"
	"strings"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flynnhost/flynn/sdk/sandbox"
)

// Files of the host go into Pods by ConfigMaps. Each file is cut into pieces, which are named by the digest of their content; ConfigMaps hold
// pieces up to maxMap, and are named by the digest of theirs. So all Pods with the same supervisor share its ConfigMaps. A script, a piece
// itself, puts the files together in an init container. It runs sh, cat, mkdir, ln and chmod, and has the host's names only in quotes.

// maxMap bounds the pieces of a ConfigMap; the API server accepts 1 MiB.
const maxMap = 960 << 10

// copies are the copies of a container.
type copies struct {
	maps   []*core.ConfigMap
	script string // name of the piece
	bytes  int64  // of the files
}

// readCopies reads the sources of the copies among the mounts of an instance's container.
func readCopies(instance string, mounts []sandbox.Mount) (cs copies, err error) {
	script := &strings.Builder{}
	fmt.Fprintf(script, "umask 022\ncd %s\nmkdir -m 700 %s\n: >%[2]s/message\n", copiesFolder, closed)
	number := 0
	for _, m := range mounts {
		if m.Kind != sandbox.Copy {
			continue
		}
		entries, err := sandbox.ReadCopy(m.Source)
		if err != nil {
			return copies{}, err
		}
		p := packer{instance: instance, copies: &cs}
		for _, e := range entries {
			p.entry(script, path.Join(strconv.Itoa(number), e.Path), e)
		}
		p.flush()
		number++
	}
	if script.Len() > maxMap {
		return copies{}, fmt.Errorf("%w: copies of so many files", sandbox.ErrCannotHold)
	}
	p := packer{instance: instance, copies: &cs}
	cs.script = p.piece([]byte(script.String()))
	p.flush()
	return cs, nil
}

// command is the command of the init container.
func (cs copies) command() []string { return []string{"sh", "-e", piecesFolder + "/" + cs.script} }

// packer packs pieces into ConfigMaps.
type packer struct {
	instance string
	copies   *copies
	data     map[string][]byte
	size     int
}

// entry packs an entry, and has the script make it at a path.
func (p *packer) entry(script *strings.Builder, at string, e sandbox.Entry) {
	at = quote(at)
	switch {
	case e.Folder:
		fmt.Fprintf(script, "mkdir %s\n", at)
	case e.Link != "":
		fmt.Fprintf(script, "ln -s -- %s %s\n", quote(e.Link), at)
	default:
		p.copies.bytes += int64(len(e.Content))
		fmt.Fprintf(script, ": >%s\n", at)
		for left := e.Content; len(left) > 0; {
			n := min(len(left), maxMap)
			fmt.Fprintf(script, "cat %s/%s >>%s\n", piecesFolder, p.piece(left[:n]), at)
			left = left[n:]
		}
		fmt.Fprintf(script, "chmod 555 %s\n", at)
	}
}

// piece packs a piece and returns its name.
func (p *packer) piece(content []byte) string {
	sum := sha256.Sum256(content)
	name := hex.EncodeToString(sum[:16])
	if p.size+len(content) > maxMap {
		p.flush()
	}
	if p.data == nil {
		p.data = map[string][]byte{}
	}
	if p.data[name] == nil {
		p.size += len(content)
	}
	p.data[name] = content
	return name
}

// flush completes a ConfigMap.
func (p *packer) flush() {
	if len(p.data) == 0 {
		return
	}
	names := make([]string, 0, len(p.data))
	for name := range p.data {
		names = append(names, name)
	}
	sort.Strings(names)
	p.copies.maps = append(p.copies.maps, &core.ConfigMap{
		ObjectMeta: meta.ObjectMeta{Name: "flynn-copy-" + digest(append(names, p.instance)...), Labels: of(p.instance, labelPart, partCopy)},
		Immutable:  new(true), BinaryData: p.data,
	})
	p.data, p.size = nil, 0
}

// quote makes one word of the shell.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
