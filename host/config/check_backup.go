package config

import (
	"time"

	"github.com/flynnhost/flynn/host/internal/cron"
)

// backup checks [backup]; the package that makes backups checks the keys.
func (c *checker) backup() {
	b, at := &c.cfg.Backup, keyPath{"backup"}
	if b.To == "" {
		if len(b.Recipients) > 0 || b.PassphraseEnv != "" || b.PassphraseFile != "" {
			c.required(at.child("to"), b.To, `"/mnt/backup/flynn", a folder on another disk`)
		}
		return
	}
	if c.cfg.Store.URLEnv != "" {
		c.report(at, "the store is in Postgres, whose own tools back it up", "remove [backup], and use pg_dump")
	}
	if len(b.Recipients) == 0 {
		b.Passphrase = c.secret(at, "passphrase", b.PassphraseEnv, b.PassphraseFile, true,
			`add recipients = ["age1..."] with the key that flynn backup key prints, or passphrase_file or passphrase_env`)
	} else if b.PassphraseEnv != "" || b.PassphraseFile != "" {
		c.report(at.child("recipients"), "there is a passphrase as well", "remove one of the two")
	}
	for _, f := range (Schedule{Cron: b.Cron, Timezone: b.Timezone}).TimingFaults() {
		c.report(at.child(f.Key), f.Problem, f.Hint)
	}
}

// Next returns when the backup after a moment is due.
func (b Backup) Next(after time.Time) time.Time {
	e, err := cron.Parse(b.Cron)
	if err != nil {
		return time.Time{} // Load has refused it
	}
	return e.Next(after.In(b.Zone()))
}

// Zone returns the time zone of Cron, in which days begin and end.
func (b Backup) Zone() *time.Location {
	zone, err := time.LoadLocation(b.Timezone)
	if err != nil || b.Timezone == "" {
		return time.Local
	}
	return zone
}
