package cover

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"path"
)

// ErrNoLines is returned for a report without lines.
var ErrNoLines = errors.New("the module does not say which lines its code is from")

// WriteLCOV writes the report in the trace format of LCOV (see geninfo(1)). Files are named by their path from the folder.
func (r *Report) WriteLCOV(w io.Writer, test, folder string) error {
	if r.Lines == nil {
		return ErrNoLines
	}
	b := bufio.NewWriter(w)
	for _, f := range r.Files {
		fmt.Fprintf(b, "TN:%s\nSF:%s\n", test, path.Join(folder, f.Name))
		functions, hit := 0, 0
		for _, fn := range r.Functions {
			if fn.File != f.Name {
				continue
			}
			fmt.Fprintf(b, "FN:%d,%s\nFNDA:%d,%s\n", fn.Line, fn.Name, fn.Calls, fn.Name)
			functions++
			if fn.Calls > 0 {
				hit++
			}
		}
		fmt.Fprintf(b, "FNF:%d\nFNH:%d\n", functions, hit)
		hit = 0
		for _, l := range f.Lines {
			fmt.Fprintf(b, "DA:%d,%d\n", l.Line, l.Count)
			if l.Count > 0 {
				hit++
			}
		}
		fmt.Fprintf(b, "LF:%d\nLH:%d\nend_of_record\n", len(f.Lines), hit)
	}
	return b.Flush()
}
