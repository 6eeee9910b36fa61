package shell

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// program is a row of the table of programs that are safe to allow for good: it runs no other program, whatever files there are, and
// writes nothing that another program could run. Programs that are not in the table are unknown.
type program struct {
	names string // separated by blanks

	// The options that are allowed; with any, all are, as none of them runs or writes something.
	any     bool
	letters string // short ones, as getopt writes them: a colon follows a letter that takes a value
	words   string // others, written in full
	// most bounds the operands, as the program would write to a further one; 0 is no bound.
	most int

	// The positions of stars: never for a file that the program reads or sends.
	star  star
	flags string // short options without a value, which may precede a star
	after string // options whose value may be a star
}

// star says which operands of a program may be a star.
type star uint8

const (
	noStar    star = iota
	firstStar      // the first one, which is a text
	everyStar      // each: they are texts, or names of files that the program does not read
	urlStar        // addresses of the web
)

// programs is the table. Before you add a row, read the program's manual for options that run a program (--pre, -exec,
// --compress-program), write a file (-o), load code (getent -s) or read options from a file, for files of the working directory that do
// so, and for operands that the program writes to.
var programs = []program{
	// builtins of every shell, without those that change the shell itself (read, printf -v and %n, test -v, wait -p)
	{names: "cd pwd exit umask", any: true},
	{names: "true false :", any: true, star: everyStar},
	{names: "echo", any: true, star: everyStar, flags: "neE"},
	{names: "test", words: "-e -f -d -h -L -r -s -w -x -n -z -nt -ot"},
	// programs that read files and print them
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
	// programs that list and report
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
	// programs that use the network
	{names: "ping", letters: "46nqc:i:w:W:s:t:", star: everyStar, flags: "46nq", after: "-c -i -w -W -s -t"},
	{
		names: "curl", letters: "sSfLIiGkv46X:H:d:m:A:e:", words: "--silent --show-error --fail --location --head --include --get --insecure --compressed --request --header " +
			"--data --data-raw --max-time --connect-timeout --retry --user-agent",
		star: urlStar, flags: "sSfLIiGkv46", after: "-d -m -X -H -A --data-raw --max-time",
	},
	// programs that make and remove names, without content that others could run
	{names: "mkdir rmdir touch rm", any: true},
}

// multiCall are single files that act as many programs, chosen by the name of the call.
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

// Lasting returns why a command must not be allowed for good, or "". Only programs of the table may be, with arguments that it allows.
// names are further names of the program, such as the symbolic links that lead to it.
func (c Command) Lasting(names ...string) (why string) {
	for i, name := range append([]string{c.Program()}, names...) {
		base := path.Base(name)
		if i > 0 && slices.Contains(multiCall, base) {
			continue // the name of the call decides which program it is
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

// unknown returns the first argument that the table does not allow, or "".
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
		case p.star == urlStar && len(FileSigns(a)) > 0: // it would send a file, whose content may change
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

// stars checks the stars in a command of a pattern and returns the positions of those that stand for an address of the web. why is the
// reason that one is not allowed in its position.
func (p program) stars(c Command) (urls []int, why string) {
	refused := fmt.Sprintf("in a call of %s, a star might stand for a file that is read or sent, or for an option", c.Program())
	operands, understood := 0, true
	for i := 1; i < len(c); i++ {
		w := c[i]
		switch {
		case !w.Any && isOption(w.Text) && slices.Contains(strings.Fields(p.after), w.Text):
			i++ // its value
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
