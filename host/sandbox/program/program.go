// Package program provides Flynn's own programs that run in sandboxes: it finds them beside the host's program or in lib/flynn, or builds them if the
// source and a Go toolchain are available, and copies the supervisor to where containers mount it.
//
// Start with FindSupervisor. The programs themselves are in packages supervise and selftest; package launch brings them to engines on other
// machines.
package program

import (
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/flynnhost/flynn/host/sandbox/driver"
)

// The file names of cmd/flynn-sandboxd, and of cmd/flynn-sandboxd-listen, to which hosts connect.
const (
	Supervisor = "flynn-sandboxd"
	Listening  = "flynn-sandboxd-listen"
)

// program is a program that runs in containers.
type program struct {
	name    string
	sources []string // folders of the module that it is built from
}

// common are the sources of both supervisors.
var common = []string{
	"host/sandbox/bridge/wire", "host/sandbox/deleteonly", "host/sandbox/removeall", "host/sandbox/frame", "host/sandbox/ring",
	"host/sandbox/supervise", "host/sandbox/callfilter", "host/sandbox/rawfork", "host/internal/callrules",
}

func supervisor() program {
	return program{Supervisor, slices.Concat(common, []string{"cmd/flynn-sandboxd", "host/sandbox/native/within"})}
}

func listening() program {
	return program{Listening, slices.Concat(common, []string{"cmd/flynn-sandboxd-listen", "host/sandbox/resume", "host/internal/selfsigned", "sdk/backoff"})}
}

func probe() program { return program{"flynn-probe", []string{"cmd/flynn-probe"}} }

// FindSupervisor returns the path of flynn-sandboxd: the one that is installed with the running program or, in a checkout with a Go toolchain,
// one that it builds from source and caches.
func FindSupervisor(log *slog.Logger) (string, error) { return find(log, supervisor()) }

// FindSupervisorFor is FindSupervisor for the sandboxes of a driver.
func FindSupervisorFor(d driver.Driver, log *slog.Logger) (string, error) {
	if _, is := d.(driver.Dialed); is {
		return find(log, listening())
	}
	return find(log, supervisor())
}

// FindProbe returns the path of flynn-probe, which the self-test runs in sandboxes, in the same way.
func FindProbe(log *slog.Logger) (string, error) { return find(log, probe()) }

func find(log *slog.Logger, p program) (string, error) {
	exe, err := os.Executable()
	if err == nil {
		exe, err = filepath.EvalSymlinks(exe)
	}
	if err != nil {
		return "", fmt.Errorf("find %s: %w", p.name, err)
	}
	var unfit error
	for _, path := range installed(filepath.Dir(exe), p.name) {
		err := checkStatic(path)
		if err == nil {
			return path, nil
		}
		unfit = cmp.Or(unfit, err)
		if !errors.Is(err, fs.ErrNotExist) {
			log.Warn("cannot use a program for sandboxes", "program", p.name, "error", err)
		}
	}
	module, err := findModule()
	if err != nil {
		return "", fmt.Errorf("find %s: %w; it cannot be built either (%w): install one built with CGO_ENABLED=0 beside the program",
			p.name, unfit, err)
	}
	path, err := build(log, module, p)
	if err != nil {
		return "", fmt.Errorf("build %s: %w: install it beside the program instead", p.name, err)
	}
	return path, nil
}

// installed returns the places of a program, for the folder that the running one lies in: beside it, as go build leaves it, and in lib/flynn, as a
// release has it. There its name has the platform of the containers, which is not that of the host on a Mac.
func installed(dir, name string) []string {
	released := filepath.Join("lib", "flynn", name+"-linux-"+runtime.GOARCH)
	return []string{filepath.Join(dir, name), filepath.Join(filepath.Dir(dir), released), filepath.Join(dir, released)}
}

// checkStatic refuses a program that is dynamically linked or not for Linux: in an image without its C library it would fail with nothing
// but "no such file".
func checkStatic(path string) error {
	program, err := elf.Open(path)
	if unreadable := (*fs.PathError)(nil); errors.As(err, &unreadable) {
		return err
	}
	if err != nil {
		return fmt.Errorf("%s is not a program for Linux: %w", path, err)
	}
	defer program.Close()
	for _, p := range program.Progs {
		if p.Type == elf.PT_INTERP {
			return fmt.Errorf("%s is dynamically linked and cannot start in most images: build it with CGO_ENABLED=0", path)
		}
	}
	return nil
}
