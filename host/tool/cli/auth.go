package cli

import (
	"path"
	"strings"
)

// syncScript copies the owner's credentials from their read-only folder into the program's home: those of AuthFiles each time, so that a new
// login arrives, and those of AuthSeed only if the program has none. The rest of the home, such as conversations, is not touched.
//
// A credential is written beside its target and moved there, so that the program never reads half of it. A file that the owner does not
// have is skipped, except for the first of all: without any credential the program would fail later, with a worse message.
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
	lines = append(lines, c.databaseScript()...)
	if len(c.AuthFiles) > 0 {
		first := path.Join(c.StateDir, c.AuthFiles[0])
		lines = append(lines, "[ -e "+quote([]string{first})+" ] || { echo "+
			quote([]string{"no credentials: " + path.Join(c.AuthDir, c.AuthFiles[0]) + " is not there; log the program in and put that file into auth_dir"})+
			" >&2; exit 77; }")
	}
	return strings.Join(lines, "\n") + "\n"
}

// databaseScript copies the owner's database if the program has none, and refreshes the login in it otherwise. It reads a copy of the
// owner's database, since SQLite cannot open one with a write-ahead log in a read-only folder.
func (c Config) databaseScript() []string {
	if c.AuthDatabase == "" {
		return nil
	}
	from, to := path.Join(c.AuthDir, c.AuthDatabase), path.Join(c.StateDir, c.AuthDatabase)
	owner := to + ".owner"
	word := func(w string) string { return quote([]string{w}) }
	fail := func(why string) string { return "{ echo " + word(why) + " >&2; exit 77; }" }
	table := `"` + c.AuthTable + `"`
	sql := "ATTACH '" + strings.ReplaceAll(owner, "'", "''") + "' AS owner; BEGIN IMMEDIATE; DELETE FROM " + table +
		"; INSERT INTO " + table + " SELECT * FROM owner." + table + "; COMMIT;"
	return []string{
		"[ -e " + word(from) + " ] || " + fail("no credentials: "+from+" is not there; log the program in and put that file into auth_dir"),
		"mkdir -p -- " + word(path.Dir(to)) + " && rm -f -- " + word(owner) + " " + word(owner+"-wal") + " && (umask 077 && cat -- " + word(from) + " >" + word(owner) +
			" && if [ -e " + word(from+"-wal") + " ]; then cat -- " + word(from+"-wal") + " >" + word(owner+"-wal") + "; fi) || " +
			fail("cannot copy "+from+": it must be readable for the user of the sandbox"),
		"if [ ! -e " + word(to) + " ]; then",
		"  if [ -e " + word(owner+"-wal") + " ]; then mv -f -- " + word(owner+"-wal") + " " + word(to+"-wal") + "; fi; mv -f -- " + word(owner) + " " + word(to),
		"elif command -v sqlite3 >/dev/null; then",
		"  sqlite3 -bail -cmd '.timeout 10000' " + word(to) + " " + word(sql) + " </dev/null >&2 || " + fail("cannot refresh the login in "+to),
		"elif command -v python3 >/dev/null; then",
		"  python3 -c " + word(refresh) + " " + word(to) + " " + word(owner) + " " + word(c.AuthTable) + " </dev/null >&2 || " + fail("cannot refresh the login in "+to),
		"else " + fail("cannot refresh the login in "+to+": the image has neither sqlite3 nor python3"),
		"fi",
		"rm -f -- " + word(owner) + " " + word(owner+"-wal") + " " + word(owner+"-shm"),
	}
}

// refresh does the same as sqlite3, for images that have only Python.
const refresh = `import sqlite3, sys
home, owner, table = sys.argv[1:]
db = sqlite3.connect(home, timeout=10, isolation_level=None)
db.execute("ATTACH ? AS owner", (owner,))
db.execute("BEGIN IMMEDIATE")
db.execute('DELETE FROM "%s"' % table)
db.execute('INSERT INTO "%s" SELECT * FROM owner."%s"' % (table, table))
db.execute("COMMIT")`
