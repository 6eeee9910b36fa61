package shell

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// program is one of which it is known what it can do: it runs no other program, whatever files there are, and writes nothing that another
// one could run. Programs that are not in the table are not known.
type program struct {
	names string // separated by blanks

	// Options that are known. A program with any has none that runs or writes something.
	any     bool
	letters string // short ones, as getopt writes them: a colon follows a letter that takes a value
	words   string // others, written in full
	// most is how many operands it may have, or 0 for any number: a further one would be written to.
	most int

	// Where a star may stand: never for a file that the program reads or sends.
	star  star
	flags string // short options that take no value, which may stand before a star
	after string // options whose value may be a star
}

// star says for which operands of a program a star may stand.
type star uint8

const (
	noStar    star = iota
	firstStar      // the first one, which is a text
	everyStar      // each: they are texts, or names of files whose content is not looked at
	urlStar        // addresses of the web
)

// programs is the table. Before a row is added, its manual is read for options that run a program (--pre, -exec, --compress-program), write
// a file (-o), load code (getent -s) or read options from a file, for files of the working directory that do so, and for operands that are
// written to.
var programs = []program{
	// builtins of every shell; what changes the shell itself (read, printf -v and %n, test -v, wait -p) is not here
	{names: "cd pwd exit umask", any: true},
	{names: "true false :", any: true, star: everyStar},
	{names: "echo", any: true, star: everyStar, flags: "neE"},
	{names: "test", words: "-e -f -d -h -L -r -s -w -x -n -z -nt -ot"},
	// what reads files and shows them
	{names: "cat tac nl wc paste comm join fold fmt expand unexpand od rev column tsort cmp", any: true},
	{names: "sum cksum md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum base64 base32", any: true},
	{names: "head tail", any: true, flags: "qvf", after: "-n -c"},
	{names: "cut", any: true, flags: "s", after: "-d -f -c -b"},
	{names: "tr", any: true, star: everyStar, flags: "cCdst"},
	{names: "uniq", any: true, most: 1},
	{names: "sort", letters: "bcCdfghiMmnrRsuVzk:S:t:", words: "--unique --reverse --numeric-sort --human-numeric-sort --version-sort --stable"},
	{names: "shuf", letters: "ezri:n:"},
	{names: "grep egrep fgrep", any: true, star: firstStar, flags: "EFGPiwxvclLqoshHnbrRzaUTI", after: "-A -B -C -m"},
	{
		names: "rg", letters: "iSsvwclnNHhUFPxopqLuA:B:C:e:g:m:t:T:M:", star: firstStar, flags: "iSsvwclnNHhUFPxopqLu", after: "-A -B -C -m -g -t -T",
		words: "--files --hidden --no-ignore --count --json --stats --glob --type --heading --no-heading --max-depth --files-with-matches --line-number",
	},
	{names: "diff", letters: "abBdeEiNnpqrstTuwyZC:U:W:x:I:", words: "--brief --recursive --unified --ignore-all-space --side-by-side --color"},
	{names: "file", letters: "bhikLNprs0", words: "--brief --mime --mime-type --mime-encoding --dereference"},
	{names: "jq", letters: "nrRsScCajMe", words: "--arg --argjson --raw-output --slurp --null-input --compact-output --tab --indent --exit-status --sort-keys"},
	// what lists and reports
	{names: "ls dir vdir", any: true, star: everyStar, flags: "1aAlhrtRSFdispngoUXQ"},
	{names: "stat du df", any: true, star: everyStar, flags: "shacxkmLPiTHft", after: "-d"},
	{
		names: "find", star: everyStar,
		words: "-L -H -P -name -iname -path -ipath -wholename -iwholename -regex -iregex -regextype -type -xtype -maxdepth -mindepth -size -empty -perm " +
			"-mtime -mmin -atime -amin -ctime -cmin -newer -samefile -inum -links -lname -user -group -uid -gid -nouser -nogroup -readable -writable " +
			"-executable -xdev -mount -follow -depth -daystart -noleaf -prune -quit -true -false -not -a -and -o -or -print -print0 -printf -ls",
	},
	{names: "fd fdfind", letters: "HIuaLsigFp0d:e:t:E:", words: "--hidden --no-ignore --type --extension --max-depth --glob", star: everyStar, flags: "HIuaLsigFp0", after: "-d -e -t -E"},
	{names: "tree", letters: "adfilpsugDFhQqNxcrtvJXnL:P:I:", star: everyStar, flags: "adfilpsugDFhQqNxcrtvJXn", after: "-L -P -I"},
	{names: "basename dirname realpath readlink seq sleep factor expr numfmt cal id groups which which.debianutils", any: true, star: everyStar, flags: "aefmqsz"},
	{names: "pgrep pidof", any: true, star: everyStar, flags: "aflnovx", after: "-u -P"},
	{names: "date uname arch hostname hostid nproc whoami logname who w w.procps users uptime free tty locale ps lscpu lsblk vmstat", any: true},
	// what talks to others
	{names: "ping", letters: "46nqc:i:w:W:s:t:", star: everyStar, flags: "46nq", after: "-c -i -w -W -s -t"},
	{
		names: "curl", letters: "sSfLIiGkv46X:H:d:m:A:e:", words: "--silent --show-error --fail --location --head --include --get --insecure --compressed --request --header " +
			"--data --data-raw --max-time --connect-timeout --retry --user-agent",
		star: urlStar, flags: "sSfLIiGkv46", after: "-d -m -X -H -A --data-raw --max-time",
	},
	// what makes and removes names, without a content that others could run
	{names: "mkdir rmdir touch rm", any: true},
}

// multiCall are programs that are many, each by a name of its own.
var multiCall = []string{"busybox", "toybox", "coreutils"}

// known finds a program in the table by its name or path.
func known(name string) (program, bool) {
	base := path.Base(name)
	i := slices.IndexFunc(programs, func(p program) bool { return slices.Contains(strings.Fields(p.names), base) })
	if i < 0 {
		return program{}, false
	}
	return programs[i], true
}

// Lasting says why a command must not be allowed for good, or "": only programs can be that are known to do no more than the command
// says. names are further names of the program, as those that symbolic links lead over.
func (c Command) Lasting(names ...string) (why string) {
	for i, name := range append([]string{c.Program()}, names...) {
		base := path.Base(name)
		if i > 0 && slices.Contains(multiCall, base) {
			continue // which of its programs it is goes by the name that it was called by
		}
		p, ok := known(base)
		if !ok {
			return fmt.Sprintf("%s may run other programs, or write files that are run", base)
		}
		if arg := p.unknown(c.Texts()); arg != "" {
			return fmt.Sprintf("%s may run other programs, or write files, by way of %q", base, arg)
		}
	}
	return ""
}

// unknown is the first argument of which it is not known what it makes the program do, or "".
func (p program) unknown(args []string) string {
	operands, ended := 0, false
	for _, a := range args {
		option := isOption(a)
		if ended || !option {
			operands++
		}
		switch {
		case a == "--":
			ended = true
		case option && !p.any && !p.knows(a), p.most > 0 && operands > p.most:
			return a
		case p.star == urlStar && len(FileSigns(a)) > 0: // what it sends is no file: another may lie there next time
			return a
		}
	}
	return ""
}

func isOption(arg string) bool { return len(arg) > 1 && arg[0] == '-' }

// knows reports whether an option is in the table.
func (p program) knows(option string) bool {
	name, _, _ := strings.Cut(option, "=")
	if slices.Contains(strings.Fields(p.words), name) {
		return true
	}
	if strings.HasPrefix(option, "--") {
		return false
	}
	for i := 1; i < len(option); i++ {
		at := strings.IndexByte(p.letters, option[i])
		switch {
		case at < 0 || option[i] == ':':
			return false
		case strings.HasPrefix(p.letters[at+1:], ":"):
			return p.star != urlStar || len(FileSigns(option[i+1:])) == 0 // the rest is its value
		}
	}
	return true
}

// stars finds the words of a pattern's command for which a star stands, and says which of them stand for an address of the web; why is
// the reason for which one must not stand where it does.
func (p program) stars(c Command) (urls []int, why string) {
	refused := fmt.Sprintf("in a call of %s, a star might stand for a file that is read or sent, or for an option", c.Program())
	operands, understood := 0, true
	for i := 1; i < len(c); i++ {
		w := c[i]
		switch {
		case !w.Any && isOption(w.Text) && slices.Contains(strings.Fields(p.after), w.Text):
			i++ // its value, whatever it is
			if i < len(c) && c[i].Any && !understood {
				return nil, refused
			}
		case !w.Any && isOption(w.Text):
			understood = understood && (p.isFlags(w.Text) || slices.Contains(strings.Fields(p.words), w.Text) && p.letters == "")
		default:
			operands++
			if !w.Any {
				continue
			}
			if !understood || p.star == noStar || p.star == firstStar && operands > 1 {
				return nil, refused
			}
			if p.star == urlStar {
				urls = append(urls, i)
			}
		}
	}
	return urls, ""
}

// isFlags reports whether a word is made of short options that take no value.
func (p program) isFlags(option string) bool {
	return p.flags != "" && strings.Trim(option[1:], p.flags) == ""
}
