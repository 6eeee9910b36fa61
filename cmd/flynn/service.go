package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host"
	"github.com/flynnhost/flynn/host/admin/service"
	"github.com/flynnhost/flynn/host/admin/setup"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/config/edit"
)

func serviceCommand() *cli.Command {
	about := func(name, usage string, action cli.ActionFunc) *cli.Command {
		return &cli.Command{Name: name, Usage: usage, Flags: serviceFlags(), Action: action}
	}
	return &cli.Command{
		Name: "service", Category: groupOperate,
		Usage: "have systemd or launchd run flynn, from the start of the machine on",
		Description: "As root these commands are about a service of the whole machine, and else about one of your own, which runs while you are\n" +
			"logged in or, with loginctl enable-linger, from the start of the machine on.",
		Commands: []*cli.Command{
			{
				Name: "install", Usage: "write the service's file, after checking the configuration as the service will see it",
				Description: "The file names this program and the configuration by their absolute paths, and no secret. Keys of the configuration that end\n" +
					"in _env get their values from the file secrets.env beside it, one NAME=VALUE a line; launchd reads no such file, so on a Mac use\n" +
					"keys that end in _file. A service of the machine runs as the owner of the configuration, or as the user of --as.",
				Flags: append(serviceFlags(), yesFlag(), dryRunFlag(),
					&cli.StringFlag{Name: "as", Usage: "run a service of the machine as `USER` (default: the owner of the configuration, else flynn)"},
					&cli.BoolFlag{Name: "start", Usage: "start it at the end"}),
				Action: installService,
			},
			about("uninstall", "stop the service and delete its file; configuration and data stay", uninstallService),
			about("start", "start the service", serviceDo((*service.Service).Start, "The service %s runs.%s")),
			about("stop", "stop the service until it is started again, or the machine is", serviceDo((*service.Service).Stop, "The service %s is stopped.%s")),
			about("restart", "stop the service and start it again", serviceDo((*service.Service).Restart, "The service %s runs anew.%s")),
			about("status", "show whether the service is installed and runs, and where its log is; the exit code is 1 unless it runs", serviceStatus),
		},
	}
}

func serviceFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "name", Value: "flynn", Usage: "the `NAME` of the service, for more than one flynn on a machine"},
		&cli.BoolFlag{Name: "system", Usage: "a service of the whole machine (default: if you are root)"},
		&cli.BoolFlag{Name: "user", Usage: "a service of your own (default: unless you are root)"},
	}
}

// openService returns the service that the flags of a command mean.
func openService(ctx context.Context, cmd *cli.Command) (*service.Service, error) {
	system, own, root := cmd.Bool("system"), cmd.Bool("user"), os.Geteuid() == 0
	if system && own {
		return nil, usagef("--system and --user contradict each other")
	}
	if system && !root {
		return nil, errors.New("a service of the whole machine is for root: run the command again with sudo")
	}
	name := cmp.Or(cmd.String("name"), "flynn")
	if err := service.ValidName(name); err != nil {
		return nil, usageError{fmt.Errorf("--name: %w", err)}
	}
	getenv := getenvOf(ctx)
	return service.Open(ctx, service.Config{
		OS: runtime.GOOS, Name: name, System: !own && root, UID: os.Geteuid(), Home: getenv("HOME"), Getenv: getenv,
	})
}

// serviceOr adds what to do instead to an error of openService.
func serviceOr(ctx context.Context, cmd *cli.Command, err error) error {
	if !errors.Is(err, service.ErrNoManager) {
		return err
	}
	hint := "have what supervises programs here, such as a container engine, run"
	if os.Geteuid() != 0 && runtime.GOOS == "linux" {
		hint = "log in as this user, not through su, or install for the machine with sudo; or have something else run"
	}
	path, failed := filepath.Abs(configPath(ctx, cmd))
	return errors.Join(failed, fmt.Errorf("%w: %s: flynn --config %s serve", err, hint, config.ShellWord(path)))
}

// serviceDo returns an action that does one thing with the service.
func serviceDo(do func(*service.Service, context.Context) error, success string) cli.ActionFunc {
	return func(ctx context.Context, cmd *cli.Command) error {
		s, err := openService(ctx, cmd)
		if err != nil {
			return serviceOr(ctx, cmd, err)
		}
		if err := do(s, ctx); err != nil {
			return installHint(err)
		}
		st, err := s.State(ctx)
		if err != nil {
			return err
		}
		hint := ""
		if st.State == service.Running {
			hint = howItDoes(s)
		}
		return newOutput(ctx, cmd).success(st, success, s.Name, hint)
	}
}

// howItDoes says how to look at what a service runs. Root may not read the token of another user's.
func howItDoes(s *service.Service) string {
	if s.System {
		return " How it does: flynn status, as the user of the service"
	}
	return " How it does: flynn status"
}

func installHint(err error) error {
	if errors.Is(err, service.ErrNotInstalled) {
		return fmt.Errorf("%w: install it with flynn service install", err)
	}
	return err
}

func uninstallService(ctx context.Context, cmd *cli.Command) error {
	s, err := openService(ctx, cmd)
	if err != nil {
		return serviceOr(ctx, cmd, err)
	}
	if err := s.Uninstall(ctx); err != nil {
		return installHint(err)
	}
	return newOutput(ctx, cmd).success(map[string]string{"deleted": s.File()}, "Deleted %s. Configuration and data stay where they are.", s.File())
}

func serviceStatus(ctx context.Context, cmd *cli.Command) error {
	s, err := openService(ctx, cmd)
	if err != nil {
		return serviceOr(ctx, cmd, err)
	}
	st, err := s.State(ctx)
	if err != nil {
		return err
	}
	o := newOutput(ctx, cmd)
	not := error(nil)
	if st.State != service.Running {
		not = asReported(errors.New("the service does not run"))
	}
	if o.asJSON {
		return errors.Join(o.json(st), not)
	}
	if !st.Installed {
		o.line("%s is not installed", st.Name)
		o.done("Install it with: flynn service install")
		return not
	}
	boot, pid := "no", ""
	if st.AtBoot {
		boot = "yes"
	}
	if st.PID > 0 {
		pid = number(st.PID)
	}
	if err := o.table([]string{"NAME", "STATE", "SINCE", "PID", "STARTS BY ITSELF", "DETAIL"},
		[][]string{{st.Name, st.State, localTime(st.Since), pid, boot, st.Detail}}); err != nil {
		return err
	}
	o.done("File: %s\nLog:  %s", st.File, st.Log)
	if not != nil {
		o.done("Start it with: flynn service start")
	}
	return not
}

// installed is the JSON of flynn service install.
type installedService struct {
	File    string   `json:"file"`
	Changed bool     `json:"changed"`
	Started bool     `json:"started"`
	Next    []string `json:"next"`
	Text    string   `json:"text"`
}

func installService(ctx context.Context, cmd *cli.Command) error {
	return installServiceOf(ctx, cmd, configPath(ctx, cmd), cmd.Bool("start"))
}

// installServiceOf installs the service that runs a configuration.
func installServiceOf(ctx context.Context, cmd *cli.Command, path string, start bool) error {
	s, err := openService(ctx, cmd)
	if err != nil {
		return serviceOr(ctx, cmd, err)
	}
	spec, err := s.Plan(path, cmd.String("as"), host.Checks()...)
	if err != nil {
		return err
	}
	text, err := s.Render(spec)
	if err != nil {
		return err
	}
	o := newOutput(ctx, cmd)
	done := installedService{File: s.File(), Text: text}
	if cmd.Bool("dry-run") {
		if o.asJSON {
			return o.json(done)
		}
		fmt.Fprint(o.out, text)
		return nil
	}
	if done.Changed, err = replaceService(ctx, cmd, s, text); err != nil {
		return interruptedBy(ctx, err)
	}
	if err := s.Install(ctx, text); err != nil {
		return err
	}
	if start {
		if err := s.Restart(ctx); err != nil {
			return err
		}
	}
	done.Started = start
	if done.Next, err = afterInstall(ctx, s, start); err != nil {
		return err
	}
	return o.success(done, "Installed %s.\n%s", s.File(), strings.Join(done.Next, "\n"))
}

// replaceService asks before another file is replaced, and reports whether something changes.
func replaceService(ctx context.Context, cmd *cli.Command, s *service.Service, text string) (bool, error) {
	old, err := s.Current()
	if err != nil || string(old) == text {
		return false, err
	}
	if old == nil {
		return true, nil
	}
	asker := askerFor(ctx, cmd, false)
	asker.Say(withoutControls(edit.Diff(s.File(), old, []byte(text))))
	if cmd.Bool("yes") {
		return true, nil
	}
	switch yes, err := asker.Confirm(ctx, "Replace "+s.File()+"?", true); {
	case errors.Is(err, setup.ErrNobody):
		return false, fmt.Errorf("%s exists and differs; --dry-run shows the new one, --yes replaces it", s.File())
	case err != nil:
		return false, err
	case !yes:
		return false, setup.ErrAborted
	}
	return true, nil
}

// afterInstall says what to do next.
func afterInstall(ctx context.Context, s *service.Service, started bool) ([]string, error) {
	st, err := s.State(ctx)
	if err != nil {
		return nil, err
	}
	var next []string
	switch {
	case started:
		next = append(next, "It runs."+howItDoes(s))
	case st.State == service.Running:
		next = append(next, "What runs is still as before, until: flynn service restart")
	default:
		next = append(next, "Start it with: flynn service start")
	}
	if me, err := user.Current(); err == nil && !s.System && s.OS == "linux" {
		if _, err := os.Stat("/var/lib/systemd/linger/" + me.Username); errors.Is(err, fs.ErrNotExist) {
			next = append(next, "It ends when you log out, until: loginctl enable-linger "+config.ShellWord(me.Username))
		}
	}
	return append(next, "Its log: "+st.Log), nil
}

// offerService asks whether a service shall run what flynn init has set up, where there is something that runs services, and reports whether
// it does.
func offerService(ctx context.Context, cmd *cli.Command, asker setup.Asker, path string) (bool, error) {
	if _, err := openService(ctx, cmd); err != nil {
		return false, nil
	}
	yes, err := asker.Confirm(ctx, "Install it as a service, which starts with the machine?", true)
	if err != nil || !yes {
		return false, nil
	}
	return true, installServiceOf(ctx, cmd, path, true)
}
