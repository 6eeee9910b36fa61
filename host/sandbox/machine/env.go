package machine

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
)

// markerName is the variable by which the processes of a command are identified.
const markerName = "FLYNN_COMMAND"

// defaultPath is used if the daemon has no PATH.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// SearchPath returns the PATH of commands on the host: the daemon's, without relative folders and without folders in the workspace, so that
// a program that the agent wrote is never found by its bare name.
func SearchPath(workspace string) string {
	if real, err := filepath.EvalSymlinks(workspace); err == nil {
		workspace = real
	}
	var folders []string
	for _, folder := range filepath.SplitList(os.Getenv("PATH")) {
		if real, err := filepath.EvalSymlinks(folder); err == nil && filepath.IsAbs(folder) && !within(real, workspace) {
			folders = append(folders, folder)
		}
	}
	if len(folders) == 0 {
		return defaultPath
	}
	return strings.Join(folders, string(filepath.ListSeparator))
}

// environ builds a command's environment: a few fixed variables and the command's own. Only PATH is taken from the daemon's environment,
// because that contains secrets.
func (h *Host) environ(own map[string]string, marker, home string) ([]string, error) {
	vars := map[string]string{"LANG": "C.UTF-8", "TERM": "dumb"}
	vars["PATH"] = SearchPath(h.resolved)
	if _, set := own["HOME"]; !set {
		maps.Copy(vars, homeVariables(home))
	}
	for name, value := range own {
		if err := checkVariable(name, value); err != nil {
			return nil, err
		}
		vars[name] = value
	}
	vars[markerName] = marker
	env := make([]string, 0, len(vars))
	for name, value := range vars {
		env = append(env, name+"="+value)
	}
	return env, nil
}

func checkVariable(name, value string) error {
	if name == "" || strings.ContainsAny(name, "=\x00") {
		return fmt.Errorf("environment variable %q: a name must not be empty or contain an equals sign", name)
	}
	if strings.Contains(value, "\x00") {
		return fmt.Errorf("environment variable %s: the value contains a zero byte", name)
	}
	return nil
}

// maxScript is the kernel's limit for one argument (MAX_ARG_STRLEN), without the final zero byte.
const maxScript = 128<<10 - 1

func checkScript(script string) error {
	if strings.Contains(script, "\x00") {
		return errors.New("run command: it contains a zero byte")
	}
	if len(script) > maxScript {
		return fmt.Errorf("run command: it has %d bytes, more than %d; write it to a file and run that", len(script), maxScript)
	}
	return nil
}
