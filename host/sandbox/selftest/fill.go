package selftest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/archive"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/spec"
)

// The limits of the attacked workspace, if the configuration sets any. Whether limits hold does not depend on their size, and the test
// should not fill the disk.
const (
	triedBytes   = 128 << 20
	triedEntries = 1500
)

// affordable lowers the limits of a workspace.
func affordable(s spec.Spec) spec.Spec {
	if s.DiskBytes > 0 {
		s.DiskBytes, s.DiskEntries = min(s.DiskBytes, triedBytes), min(s.DiskEntries, triedEntries)
	}
	return s
}

func workspaceProbes() []Probe {
	const row, setting = "disk fill", "disk_limit in [sandbox]"
	alone := always(Control{Single: true})
	return []Probe{
		{
			Name: "disk/workspace", Row: row, Why: "one session fills the host's disk", Setting: setting, Control: alone,
			Run: fills(`i=0; while [ $i -lt 12 ]; do dd if=/dev/zero of=fill/$i bs=1048576 count=32 2>/dev/null; i=$((i+1)); sleep 0.3; done`),
		},
		{
			Name: "disk/entries", Row: row, Why: "countless small files use up what the disk has of them", Setting: setting, Control: alone,
			Run: fills(`i=0; while [ $i -lt 3000 ]; do : >fill/$i; i=$((i+1)); [ $((i % 500)) = 0 ] && sleep 0.3; done`),
		},
		{
			Name: "disk/short-commands", Row: row, Why: "commands that are over before anybody looks add up", Setting: setting, Control: alone,
			Run: addsUp,
		},
	}
}

// addsUp runs commands that each stay within the limit and end at once, until their files exceed it several times.
func addsUp(ctx context.Context, s *Subject) (Finding, error) {
	if s.Spec.DiskBytes == 0 {
		return allowed("the workspace has no limit"), nil
	}
	const each, commands = 48 << 20, 8
	for i := range commands {
		_, err := s.Target.Exec(ctx, machine.Command{
			Script: fmt.Sprintf("mkdir -p fill; dd if=/dev/zero of=fill/%d bs=1048576 count=%d 2>/dev/null", i, each>>20), Timeout: scriptTimeout,
		})
		if err != nil && !errors.Is(err, machine.ErrFull) {
			return Finding{}, err
		}
	}
	names, err := output(ctx, s.Target, "ls fill")
	if err != nil {
		return Finding{}, err
	}
	if _, err := output(ctx, s.Target, "rm -rf fill"); err != nil {
		return Finding{}, err
	}
	n := int64(len(strings.Fields(names)))
	if most := s.Spec.DiskBytes/each + 2; n > most { // the command that exceeds it, and a check that comes after the next one
		return breached("%d commands wrote %d MiB each", n, each>>20), nil
	}
	return held("%d of %d commands wrote", n, commands), nil
}

// linger gives a busy engine time to notice, because the limit is checked at intervals.
const linger = "; sleep 3"

// fills runs a script that writes too much to the folder fill, and empties the folder again.
func fills(text string) attack {
	return func(ctx context.Context, s *Subject) (Finding, error) {
		if s.Spec.DiskBytes == 0 {
			return allowed("the workspace has no limit"), nil
		}
		r, err := s.Target.Exec(ctx, machine.Command{Script: "mkdir fill; " + text + linger, Timeout: scriptTimeout})
		if err != nil {
			return Finding{}, err
		}
		if !r.DiskHit {
			return breached("it was let go on to its end: exit code %d after %v", r.ExitCode, r.Wall.Round(time.Millisecond)), nil
		}
		_, err = output(ctx, s.Target, "rm -rf fill")
		return held("ended after %v", r.Wall.Round(time.Millisecond)), err
	}
}

// importer is a machine that unpacks archives.
type importer interface {
	Import(ctx context.Context, dir string, packed io.Reader, l archive.Limits) (archive.Tally, error)
}

var (
	_ importer = (*sandbox.Session)(nil)
	_ importer = (*weakMachine)(nil)
)

func archiveProbes() []Probe {
	const row = "archive bombs"
	probe := func(name, why string, fill func(w *tar.Writer) error, sign string) Probe {
		return Probe{Name: "archive/" + name, Row: row, Why: why, Setting: fileSetting, Run: unpacks(fill, sign), Control: naive}
	}
	return []Probe{
		probe("ratio", "a small archive fills the disk", func(w *tar.Writer) error { return add(w, "bomb", 32<<20) }, "bomb"),
		probe("entries", "an archive of countless names", func(w *tar.Writer) error {
			var err error
			for i := range 1100 {
				err = errors.Join(err, add(w, fmt.Sprintf("many/%d", i), 1))
			}
			return err
		}, "many/1099"),
		probe("upwards", "an archive overwrites files beside its folder", func(w *tar.Writer) error { return add(w, "../escaped", 1) }, "../escaped"),
		probe("hooks", "unpacked hooks are run by git on the next occasion", func(w *tar.Writer) error { return add(w, "repo/.git/hooks/pre-commit", 1) },
			"repo/.git/hooks/pre-commit"),
		{
			Name: "archive/hooks-out", Row: row, Why: "copied hooks are run by the git of this machine on the next occasion", Setting: fileSetting,
			Run: copiesHooks, Control: naive,
		},
	}
}

// exporter is a machine that copies folders to the host.
type exporter interface {
	CopyOut(ctx context.Context, dir string, to *os.Root, l archive.Limits) (archive.Tally, error)
}

var (
	_ exporter = (*sandbox.Session)(nil)
	_ exporter = (*weakMachine)(nil)
)

// copiesHooks makes the host copy a repository with git hooks.
func copiesHooks(ctx context.Context, s *Subject) (f Finding, err error) {
	target, is := s.Target.(exporter)
	if !is {
		return Finding{}, errors.New("nothing here copies folders")
	}
	if _, err := output(ctx, s.Target, `mkdir -p repo/.git/hooks repo/bare.git/hooks; : >repo/bare.git/HEAD
for d in .git bare.git; do echo hook >repo/$d/hooks/post-checkout; chmod 755 repo/$d/hooks/post-checkout; done`); err != nil {
		return Finding{}, err
	}
	dir, err := os.MkdirTemp(s.Outside, "copied-")
	if err != nil {
		return Finding{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	to, err := os.OpenRoot(dir)
	if err != nil {
		return Finding{}, err
	}
	defer to.Close()
	tally, err := target.CopyOut(ctx, "repo", to, archive.Limits{})
	if err != nil {
		return Finding{}, err
	}
	for _, hooks := range []string{".git/hooks/post-checkout", "bare.git/hooks/post-checkout"} {
		if _, err := to.Lstat(hooks); err == nil {
			return breached("%s was copied to this machine", hooks), nil
		}
	}
	return held("%d entries were left out", tally.Skipped), nil
}

// CopyOut copies everything, as a careless host does.
func (w *weakMachine) CopyOut(_ context.Context, dir string, to *os.Root, _ archive.Limits) (archive.Tally, error) {
	return archive.Tally{}, os.CopyFS(to.Name(), os.DirFS(filepath.Join(w.dir, dir)))
}

// unpackLimits returns small limits, so that small archives exceed them.
func unpackLimits() archive.Limits { return archive.Limits{Entries: 1000} }

// unpacks makes the host unpack an archive. The attack has succeeded if the file sign exists afterwards.
func unpacks(fill func(w *tar.Writer) error, sign string) attack {
	return func(ctx context.Context, s *Subject) (Finding, error) {
		target, is := s.Target.(importer)
		if !is {
			return Finding{}, errors.New("nothing here unpacks archives")
		}
		packed, err := pack(fill)
		if err != nil {
			return Finding{}, err
		}
		_, refusal := target.Import(ctx, "unpacked", packed, unpackLimits())
		out, err := output(ctx, s.Target, fmt.Sprintf(`[ -e unpacked/%s ] && echo there; rm -rf unpacked escaped; true`, sign))
		if err != nil {
			return Finding{}, err
		}
		switch {
		case out == "there":
			return breached("it was unpacked"), nil
		case refusal == nil:
			return held("left out"), nil
		}
		return held("%v", refusal), nil
	}
}

func pack(fill func(w *tar.Writer) error) (io.Reader, error) {
	var packed bytes.Buffer
	squeezed := gzip.NewWriter(&packed)
	w := tar.NewWriter(squeezed)
	return &packed, errors.Join(fill(w), w.Close(), squeezed.Close())
}

// add adds a file of zeros.
func add(w *tar.Writer, name string, size int64) error {
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: size}); err != nil {
		return err
	}
	_, err := w.Write(make([]byte, size))
	return err
}

// Import trusts the archive, as a careless host does.
func (w *weakMachine) Import(_ context.Context, dir string, packed io.Reader, _ archive.Limits) (archive.Tally, error) {
	squeezed, err := gzip.NewReader(packed)
	if err != nil {
		return archive.Tally{}, err
	}
	for files := tar.NewReader(squeezed); ; {
		h, err := files.Next()
		if err == io.EOF {
			return archive.Tally{}, nil
		}
		if err != nil {
			return archive.Tally{}, err
		}
		path := w.dir + "/" + dir + "/" + h.Name // not cleaned, because the naive way is to let the kernel resolve it
		if err := os.MkdirAll(filepath.Join(w.dir, dir), 0o777); err != nil {
			return archive.Tally{}, err
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return archive.Tally{}, err
		}
		content, err := io.ReadAll(files)
		if err == nil {
			err = os.WriteFile(path, content, 0o666)
		}
		if err != nil {
			return archive.Tally{}, err
		}
	}
}
