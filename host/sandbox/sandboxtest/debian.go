package sandboxtest

import (
	"archive/tar"
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/flynnhost/flynn/sdk/need"
)

// Debian returns the name of an image with this machine's own Debian, reduced to what every Debian has and apt, which installs from the
// mirror of the machine. It is imported once per engine; the name depends on the versions of the packages.
func (h Host) Debian(t testing.TB) string {
	t.Helper()
	d, err := findDebian()
	need.Part(t, "debian", err)
	name := "flynn-test/debian:" + digest("2 ", d)
	unlock := onceOnThisMachine(t, "flynn-test-debian")
	defer unlock()
	err = importImage(t.Context(), h.API, name, d.root, "ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", `CMD ["bash"]`)
	if err != nil {
		t.Fatalf("make the image of Debian: %v", err)
	}
	return name
}

// onceOnThisMachine waits for other tests that do the same, also in other processes.
func onceOnThisMachine(t testing.TB, what string) (unlock func()) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(os.TempDir(), what+".lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	return func() { f.Close() }
}

// debianSource returns the release and the first mirror of the machine's own Debian.
func debianSource() (release, mirror string, err error) {
	about, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return "", "", err
	}
	for line := range strings.Lines(string(about)) {
		if name, is := strings.CutPrefix(strings.TrimSpace(line), "VERSION_CODENAME="); is {
			release = name
		}
	}
	files, _ := filepath.Glob("/etc/apt/sources.list.d/*")
	for _, file := range append(files, "/etc/apt/sources.list") {
		if mirror == "" {
			mirror = mirrorIn(file, release)
		}
	}
	if release == "" || mirror == "" {
		return "", "", errors.New("this machine's apt has no mirror of its own release")
	}
	return release, mirror, nil
}

// mirrorIn returns the first address for the release in a file of either of apt's formats.
func mirrorIn(file, release string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	address := ""
	for scan := bufio.NewScanner(f); scan.Scan(); {
		words := strings.Fields(scan.Text())
		switch {
		case len(words) >= 2 && words[0] == "URIs:":
			address = words[1]
		case len(words) >= 2 && words[0] == "Suites:" && words[1] == release && address != "":
			return address
		case len(words) >= 3 && words[0] == "deb":
			if words = words[1:]; strings.HasPrefix(words[0], "[") {
				for len(words) > 2 && !strings.HasSuffix(words[0], "]") {
					words = words[1:]
				}
				words = words[1:]
			}
			if len(words) >= 2 && words[1] == release {
				return words[0]
			}
		}
	}
	return ""
}

// debian is what the machine's package manager knows of the packages of the image.
type debian struct {
	release, mirror string
	packages        []string
	status          string // their paragraphs in dpkg's status file
}

// findDebian chooses the packages: those that are essential or required, apt, and what these depend on.
func findDebian() (d debian, err error) {
	if d.release, d.mirror, err = debianSource(); err != nil {
		return d, err
	}
	const fields = "${Package}\t${Essential}\t${Priority}\t${Depends}, ${Pre-Depends}\t${Provides}\n"
	out, err := exec.Command("dpkg-query", "--show", "--showformat", fields).Output()
	if err != nil {
		return d, err
	}
	wanted, depends, provider := []string{"apt"}, map[string]string{}, map[string]string{}
	for line := range strings.Lines(string(out)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		depends[f[0]] = f[3]
		if f[1] == "yes" || f[2] == "required" {
			wanted = append(wanted, f[0])
		}
		for _, name := range names(f[4], ",") {
			provider[name] = f[0]
		}
	}
	for len(wanted) > 0 {
		name := wanted[0]
		wanted = wanted[1:]
		if slices.Contains(d.packages, name) {
			continue
		}
		d.packages = append(d.packages, name)
		for clause := range strings.SplitSeq(depends[name], ",") {
			for _, one := range names(clause, "|") {
				if _, installed := depends[one]; !installed {
					one = provider[one]
				}
				if one != "" {
					wanted = append(wanted, one)
					break
				}
			}
		}
	}
	slices.Sort(d.packages)
	status, err := exec.Command("dpkg-query", append([]string{"--status"}, d.packages...)...).Output()
	d.status = string(status)
	return d, err
}

// names returns the names of packages in a list, without their versions and architectures.
func names(list, separator string) (found []string) {
	for one := range strings.SplitSeq(list, separator) {
		if words := strings.Fields(one); len(words) > 0 {
			name, _, _ := strings.Cut(words[0], ":")
			found = append(found, name)
		}
	}
	return found
}

// root returns the files of the packages as an uncompressed tar.
func (d debian) root() io.Reader {
	r, out := io.Pipe()
	go func() { // ends with its reader
		w := tar.NewWriter(out)
		out.CloseWithError(errors.Join(d.add(w), w.Close()))
	}()
	return r
}

// undocumented are folders of which the image has nothing.
var undocumented = []string{"/usr/share/doc/", "/usr/share/locale/", "/usr/share/man/", "/usr/share/info/"}

func (d debian) add(w *tar.Writer) error {
	listed, err := exec.Command("dpkg-query", append([]string{"--listfiles"}, d.packages...)...).Output()
	if err != nil {
		return err
	}
	added := map[string]bool{}
	for _, alias := range []string{"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"} { // links to those of /usr, which no package may list
		err = errors.Join(err, addAsIs(w, alias, added))
	}
	for line := range strings.Lines(string(listed)) {
		name := strings.TrimSuffix(line, "\n")
		if filepath.IsAbs(name) && !slices.ContainsFunc(undocumented, func(dir string) bool { return strings.HasPrefix(name, dir) }) {
			err = errors.Join(err, addAsIs(w, name, added))
		}
	}
	for _, name := range d.packages {
		about, _ := filepath.Glob("/var/lib/dpkg/info/" + name + ".*")
		other, _ := filepath.Glob("/var/lib/dpkg/info/" + name + ":*")
		for _, file := range append(about, other...) {
			err = errors.Join(err, addAsIs(w, file, added))
		}
	}
	master := func(name string) string {
		text, failed := os.ReadFile("/usr/share/base-passwd/" + name + ".master")
		err = errors.Join(err, failed)
		return string(text)
	}
	for name, text := range map[string]string{
		"var/lib/dpkg/info/format": "1\n",
		"var/lib/dpkg/status":      d.status,
		"etc/passwd":               strings.ReplaceAll(master("passwd"), ":*:", ":x:") + "_apt:x:42:65534::/nonexistent:/usr/sbin/nologin\n",
		"etc/group":                strings.ReplaceAll(master("group"), ":*:", ":x:"),
		"etc/apt/sources.list":     fmt.Sprintf("deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s %s main\n", d.mirror, d.release),
	} {
		add(w, tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644}, []byte(text))
	}
	add(w, tar.Header{Typeflag: tar.TypeSymlink, Name: "usr/bin/awk", Linkname: "mawk", Mode: 0o777}, nil) // which dpkg's scripts may use
	return err
}

// addAsIs copies a folder, link or file of the machine, unless it was added before or the machine has been spared it.
func addAsIs(w *tar.Writer, name string, added map[string]bool) error {
	dir, err := filepath.EvalSymlinks(filepath.Dir(name)) // /bin is a link to /usr/bin
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	name = filepath.Join(dir, filepath.Base(name))
	info, err := os.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) || added[name] || name == "/" {
		return nil
	}
	if err != nil {
		return err
	}
	added[name] = true
	var content []byte
	link := ""
	switch info.Mode().Type() {
	case 0:
		content, err = os.ReadFile(name)
	case fs.ModeSymlink:
		link, err = os.Readlink(name)
	}
	if err != nil {
		return err
	}
	header, err := tar.FileInfoHeader(info, link)
	if err != nil {
		return err
	}
	header.Name = strings.TrimPrefix(name, "/")
	add(w, *header, content)
	return nil
}
