package attachments

import (
	"cmp"
	"fmt"
	"path"
	"slices"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store/media"
)

// usual are the types that are accepted if [media] accept names none.
var usual = []string{
	"image/*", "text/*", "audio/*", "video/*", "application/pdf", "application/json", "application/geo+json", "application/x-ndjson",
	"application/xml", "application/rtf", "application/msword", "application/vnd.ms-*", "application/x-ole-storage",
	"application/vnd.openxmlformats-officedocument.*", "application/vnd.oasis.opendocument.*", "application/epub+zip", "application/zip",
	"application/gzip", "application/x-tar", "application/x-7z-compressed", "application/x-bzip2", "application/x-xz", "application/zstd",
	"application/x-rar-compressed", "application/vnd.sqlite3", "message/rfc822",
}

// programs are types of executables; they are refused whatever the configuration accepts.
var programs = []string{
	"application/x-elf", "application/x-executable", "application/x-object", "application/x-sharedlib", "application/x-coredump",
	"application/vnd.microsoft.portable-executable", "application/x-msdownload", "application/x-mach-binary", "application/x-java-applet*",
	"application/java-archive", "application/jar", "application/vnd.android.package-archive", "application/x-ms-installer",
	"application/x-ms-shortcut", "application/vnd.debian.binary-package", "application/x-rpm", "application/wasm",
}

// accepts returns nil if a file's type is accepted. The type of its bytes decides, not its name or what the sender says.
func (f *Files) accepts(info media.Info) error {
	accept := f.cfg.Media.Accept
	if len(accept) == 0 {
		accept = usual
	}
	detected := message.MediaType(info.Detected)
	switch {
	case matches(programs, detected):
		return refusal("it is a program (" + detected + ")")
	case matches(accept, detected) || matches(accept, message.MediaType(info.Type())):
		return nil
	}
	return refusal(fmt.Sprintf("[media] accept does not have its type (%s)", cmp.Or(detected, "unknown")))
}

func matches(globs []string, kind string) bool {
	return slices.ContainsFunc(globs, func(g string) bool {
		ok, err := path.Match(g, kind)
		return err == nil && ok
	})
}
