package selftest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/flynnhost/flynn/host/sandbox/driver"
)

const (
	scratchPrefix = ".verify-"
	outsidePrefix = "flynn-verify-"
	// markName is the file in a scratch folder that says what a run has created elsewhere. The run keeps it locked.
	markName = "mark"
)

// openScratch creates the run's folder below dir. It is renamed to its final name once it is locked, so that Sweep does not mistake it for
// that of a dead run.
func (s *site) openScratch(dir string) error {
	draft, err := os.MkdirTemp(dir, ".making-verify-")
	if err != nil {
		return err
	}
	s.scratch = draft
	if s.mark, err = os.OpenFile(filepath.Join(draft, markName), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(s.mark, "%s\n%s\n", s.instance, s.outside); err != nil {
		return err
	}
	if err := syscall.Flock(int(s.mark.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return err
	}
	named := filepath.Join(dir, scratchPrefix+random())
	if err := os.Rename(draft, named); err != nil {
		return err
	}
	s.scratch = named
	return nil
}

// instances returns the instance names of the hosts that a run uses.
func instances(run string) []string { return []string{run, run + "-" + careful, run + "-" + trusting} }

const (
	careful  = "careful"
	trusting = "trusting"
)

// Sweep removes what killed runs with that folder have left on this machine and the engine.
func Sweep(ctx context.Context, driver driver.Driver, dir string) error {
	marks, all := filepath.Glob(filepath.Join(dir, scratchPrefix+"*", markName))
	for _, mark := range marks {
		if err := sweepRun(ctx, driver, mark); err != nil {
			all = errors.Join(all, fmt.Errorf("remove what a self-test left in %s: %w", filepath.Dir(mark), err))
		}
	}
	return all
}

func sweepRun(ctx context.Context, driver driver.Driver, mark string) error {
	f, err := os.OpenFile(mark, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		return nil // it is still running
	}
	text, err := os.ReadFile(mark)
	if err != nil {
		return err
	}
	run, outside, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	for _, instance := range instances(run) {
		if err := sweepEngine(ctx, driver, instance); err != nil {
			return err
		}
	}
	if strings.HasPrefix(filepath.Base(outside), outsidePrefix) {
		err = os.RemoveAll(outside)
	}
	return errors.Join(err, os.RemoveAll(filepath.Dir(mark)))
}

func sweepEngine(ctx context.Context, engine driver.Driver, instance string) error {
	containers, err := engine.List(ctx, instance)
	if err != nil {
		return err
	}
	for _, c := range driver.OwnedBy(instance, containers) {
		if err := engine.Remove(ctx, c.ID); err != nil {
			return err
		}
	}
	keeper, ok := engine.(driver.Volumes)
	if !ok {
		return nil
	}
	volumes, err := keeper.ListVolumes(ctx, instance)
	if err != nil {
		return err
	}
	for _, v := range driver.OwnedBy(instance, volumes) {
		if err := keeper.RemoveVolume(ctx, v.Name); err != nil {
			return err
		}
	}
	return nil
}
