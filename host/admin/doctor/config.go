package doctor

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/plugin/instances"
)

// checkLoading says why a configuration cannot be loaded.
func checkLoading(x *exam) {
	if _, err := os.Stat(x.Path); errors.Is(err, fs.ErrNotExist) {
		x.add(Finding{Code: ConfigMissing, What: "there is no " + x.Path, Mend: "write one with its questions, or name another with --config", Command: "flynn init"})
		return
	}
	var all config.Errors
	if !errors.As(x.LoadError, &all) {
		all = config.Errors{{File: x.Path, Problem: x.LoadError.Error()}}
	}
	for _, e := range all {
		if path, _, open := strings.Cut(e.Problem, " is open to others"); open {
			x.readable(path, e.Problem)
			continue
		}
		x.add(ofError(ConfigError, e))
	}
}

// ofError makes a finding of an error of the configuration.
func ofError(code Code, e config.Error) Finding {
	f := Finding{Code: code, What: e.Problem, Mend: e.Hint, File: e.File, Line: e.Line, Key: e.Key}
	if e.Key != "" {
		f.What = e.Key + ": " + f.What
	}
	if f.Mend == "" {
		f.Mend = "edit the file and look again"
		f.Command = "flynn config check"
	}
	return f
}

func (x *exam) addAll(code Code, all []config.Error) {
	for _, e := range all {
		x.add(ofError(code, e))
	}
}

// checkConfig reports what is wrong with a configuration that can be loaded.
func checkConfig(_ context.Context, x *exam) {
	x.addAll(ConfigError, instances.CheckAllSettings(x.Config))
	for _, e := range x.Missing {
		variable := strings.HasPrefix(e.Problem, "environment variable ")
		if variable && x.Running != nil {
			continue // the host has an environment of its own
		}
		x.add(ofError(SecretMissing, e))
	}
	x.addAll(ConfigRenamed, x.Config.Renamed)
	for _, e := range x.Warnings {
		code := ConfigWarning
		switch {
		case strings.HasSuffix(e.Key, "dangerously_allow_on_error"):
			code = PolicyLenient
		case strings.HasPrefix(e.Key, "sandbox") && strings.HasSuffix(e.Key, ".network"):
			code = SandboxHostNetwork
		}
		x.add(ofError(code, e))
	}
}

// lacks reports whether a secret of a table is missing here.
func (x *exam) lacks(key ...string) bool {
	table := config.KeyString(key...)
	return slices.ContainsFunc(x.Missing, func(e config.Error) bool { return e.Key == table || strings.HasPrefix(e.Key, table+".") })
}
