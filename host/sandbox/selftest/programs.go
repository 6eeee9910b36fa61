package selftest

import (
	"log/slog"

	programs "github.com/flynnhost/flynn/host/sandbox/program"
)

// FindPrograms sets the paths of the driver's supervisor and of the program that attacks.
func FindPrograms(c *Config, log *slog.Logger) (err error) {
	if c.Supervisor, err = programs.FindSupervisorFor(c.Driver, log); err != nil {
		return err
	}
	c.Program, err = programs.FindProbe(log)
	return err
}
