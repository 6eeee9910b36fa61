package cli

import (
	"path"
	"strings"
)

// syncScript copies the owner's credentials from their read-only folder into the program's home: those of AuthFiles each time, so that a new
// login arrives, and those of AuthSeed only where the program has none yet. Nothing else of the home is touched: conversations stay.
//
// A credential is put beside its place and moved there, so that the program never reads half of one. One that is missing on the owner's
// side is left as it is, except for the first of all: a program without any credential would only fail later, and with less to say.
func (c Config) syncScript() string {
	if c.AuthDir == "" {
		return ""
	}
	var lines []string
	one := func(name, when string) {
		from, to := path.Join(c.AuthDir, name), path.Join(c.StateDir, name)
		words := func(w ...string) string { return quote(w) }
		lines = append(lines, "if "+when+"[ -e "+words(from)+" ]; then mkdir -p -- "+words(path.Dir(to))+
			" && (umask 077 && cat -- "+words(from)+" >"+words(to+".new")+") && mv -f -- "+words(to+".new", to)+
			" || { echo "+words("cannot copy "+from+": it must be readable for the user of the sandbox")+" >&2; exit 77; }; fi")
	}
	for _, name := range c.AuthFiles {
		one(name, "")
	}
	for _, name := range c.AuthSeed {
		one(name, "[ ! -e "+quote([]string{path.Join(c.StateDir, name)})+" ] && ")
	}
	if len(c.AuthFiles) > 0 {
		first := path.Join(c.StateDir, c.AuthFiles[0])
		lines = append(lines, "[ -e "+quote([]string{first})+" ] || { echo "+
			quote([]string{"no credentials: " + path.Join(c.AuthDir, c.AuthFiles[0]) + " is not there; log the program in and put that file into auth_dir"})+
			" >&2; exit 77; }")
	}
	return strings.Join(lines, "\n") + "\n"
}
