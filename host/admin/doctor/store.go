package doctor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/flynnhost/flynn/host/admin/backup"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/database"
	"github.com/flynnhost/flynn/host/store/sqlite"
	"github.com/flynnhost/flynn/host/store/sqlstore"
)

// leastRoom is the free space below which the disk of the store counts as low, in bytes.
const leastRoom = 512 << 20

func checkStore(ctx context.Context, x *exam) {
	dir := x.Config.Store.Dir
	if _, err := os.Stat(dir); err != nil {
		return // the first start makes it
	}
	at := database.At(x.Config.Store.Location())
	switch latest, err := at.Check(ctx); {
	case ctx.Err() != nil:
		x.unexamined("the rest of the store, because it is large")
	case errors.Is(err, sqlstore.ErrNewer):
		x.add(Finding{Code: StoreNewer, What: "the store in " + at.String() + " is of a newer flynn",
			Mend: "install that flynn again, or restore a backup from before", Command: "flynn upgrade --check"})
	case err != nil && at.Postgres():
		x.add(Finding{Code: StoreUnreachable, What: err.Error(), Mend: "mend the database or its address, and look again", Command: "psql \"$" + at.Variable + "\""})
	case err != nil:
		x.add(Finding{Code: StoreDamaged, What: err.Error(), Mend: "stop flynn, and copy the folder before anything else",
			Command: "cp -a " + config.ShellWord(dir) + " " + config.ShellWord(dir+".damaged")})
	case time.Until(latest) > maxOffset:
		x.clock(-time.Until(latest), "the latest turn in the store")
	}
	if free, err := x.free(dir); err == nil && free < leastRoom {
		x.add(Finding{
			Code: StoreRoom, What: "the disk of " + dir + " has " + megabytes(free) + " left", Mend: "delete old conversations, or give [store] dir a larger disk",
			Command: "flynn session list",
		})
	}
	checkBackups(x, time.Now())
	if x.Running == nil && inUse(dir) {
		x.add(Finding{
			Code: StoreInUse, What: "another flynn uses " + dir + ", and does not answer at " + x.Config.Gateway.Listen,
			Mend: "stop it, or give this configuration a store of its own with [store] dir", Command: "ps -C flynn -o pid,args",
		})
	}
}

// backupsLate is how late a backup of a running host is before it counts as missing; a large one takes hours.
const backupsLate = 12 * time.Hour

// checkBackups finds backups that are configured and not made.
func checkBackups(x *exam, now time.Time) {
	b := x.Config.Backup
	if b.To == "" || x.Running == nil {
		return
	}
	all, err := backup.List(b.To)
	what := ""
	switch {
	case err != nil:
		what = err.Error()
	case len(all) == 0:
		what = "there is no backup in " + b.To
	case now.After(b.Next(all[0].Time).Add(backupsLate)):
		what = "the latest backup in " + b.To + " is of " + all[0].Time.Format(time.RFC3339)
	default:
		return
	}
	x.add(Finding{Code: BackupOld, What: what, Mend: "see what hinders it, and make one now", Command: "flynn backup create"})
}

// inUse reports whether a host uses a store. It does not create the lock.
func inUse(dir string) bool {
	if _, err := os.Stat(filepath.Join(dir, "lock")); err != nil {
		return false
	}
	f, err := sqlite.Lock(dir)
	if err == nil {
		_ = f.Close()
	}
	return errors.Is(err, store.ErrLocked)
}

// maxOffset is the difference between two clocks that does not matter.
const maxOffset = 90 * time.Second

// clock reports that this machine's clock is off.
func (x *exam) clock(off time.Duration, by string) {
	how := "ahead of"
	if off < 0 {
		how, off = "behind", -off
	}
	x.add(Finding{
		Code: ClockWrong, What: "the clock of this machine is " + off.Round(time.Second).String() + " " + how + " " + by,
		Mend: "have the clock set by the network", Command: "timedatectl set-ntp true",
	})
}
